"""For students' notebooks: `from grader.notebook import ask, check, check_answer, check_speed, device, predict`.

`show_...` draw a kernel's memory.
"""

from grader.notebook.checking import NotYet, check, check_speed, device, predict  # first: it decides how Triton runs

from grader.notebook.asking import ask, check_answer  # isort: skip
from grader.notebook.showing import show_memory, show_order, show_programs, show_warp

__all__ = [
    "NotYet", "ask", "check", "check_answer", "check_speed", "device", "predict", "show_memory", "show_order", "show_programs", "show_warp",
]  # fmt: skip
