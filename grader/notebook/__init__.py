"""For students' notebooks: `from grader.notebook import ask, check, check_answer, check_speed, device`."""

from grader.notebook.checking import NotYet, check, check_speed, device  # first: it decides how Triton runs

from grader.notebook.asking import ask, check_answer  # isort: skip

__all__ = ["NotYet", "ask", "check", "check_answer", "check_speed", "device"]
