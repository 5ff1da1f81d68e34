"""report: one Report as a terminal page, as JSON, as JUnit XML. Each format is one module with one public function."""
