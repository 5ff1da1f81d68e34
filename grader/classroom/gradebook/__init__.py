"""The gradebook: an nbgrader course in which `nbgrader autograde` and formgrader run this grader."""

ASSIGNMENT = "kernels"
"""The assignment's name in a new course."""
