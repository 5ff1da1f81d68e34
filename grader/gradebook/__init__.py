"""The gradebook: an nbgrader course in which `nbgrader autograde` and formgrader run this grader."""
