"""How long the stages of the grader take on this machine: `make bench-grader`."""
