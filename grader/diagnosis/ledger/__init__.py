"""The ledger: why a kernel is wrong, read off the flow of its own data and not guessed from its output."""
