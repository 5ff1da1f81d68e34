"""The gradebook: an nbgrader course in which `nbgrader autograde` and formgrader run this grader."""

ASSIGNMENT = "kernels"
"""The assignment's name in a new course."""

BONUS = "_bonus"
"""What the name of the assignment ends in that holds the notebooks of an assignment's bonus labs: its points stand apart."""
