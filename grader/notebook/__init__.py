"""For students' notebooks: `from grader.notebook import check, check_speed, device, predict`; `show_...` draw a kernel's memory."""

from grader.notebook.checking import NotYet, check, check_speed, device, predict
from grader.notebook.showing import show_memory, show_order, show_programs, show_warp

__all__ = ["NotYet", "check", "check_speed", "device", "predict", "show_memory", "show_order", "show_programs", "show_warp"]
