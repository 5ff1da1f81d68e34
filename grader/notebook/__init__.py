"""For students' notebooks: `from grader.notebook import ask, check, check_answer, check_speed, device, predict`.

`show_...` draw a kernel's memory.
"""

from grader.notebook.checking import check, check_speed, device  # first: it decides how Triton runs

from grader.notebook.asking import ask, check_answer  # isort: skip
from grader.notebook.cells import NotYet
from grader.notebook.showing import show_memory, show_order, show_programs, show_warp
from grader.notebook.speeding import predict

__all__ = [
    "NotYet", "ask", "check", "check_answer", "check_speed", "device", "predict", "show_memory", "show_order", "show_programs", "show_warp",
]  # fmt: skip
