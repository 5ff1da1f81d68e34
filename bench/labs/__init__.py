"""What each lab races against: shapes and peers."""
