"""Gradescope: the archive that its autograder runs, and a report in its format."""
