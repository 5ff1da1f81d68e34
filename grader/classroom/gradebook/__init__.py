"""The gradebook: an nbgrader course in which `nbgrader autograde` and formgrader run this grader."""

ASSIGNMENT = "kernels"

BONUS = "_bonus"
"""What the name of the assignment ends in that holds the notebooks of an assignment's bonus labs: its points stand apart."""
"""The assignment's name in a new course."""
