"""For students' notebooks: `from grader.notebook import check, check_speed, device`; `show_...` draw what a kernel does to memory."""

from grader.notebook.checking import NotYet, check, check_speed, device
from grader.notebook.showing import show_memory, show_order, show_programs, show_warp

__all__ = ["NotYet", "check", "check_speed", "device", "show_memory", "show_order", "show_programs", "show_warp"]
