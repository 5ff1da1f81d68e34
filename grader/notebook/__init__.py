"""For students' notebooks: `from grader.notebook import ask, check, check_answer, check_speed, device, predict, submit`.

`show_device` says where kernels run, `show_values` what a step gives, the other `show_...` draw a kernel's memory; `needs` keeps a
cell from running before an earlier step is right; `worklog` writes predictions and measurements down. Where a notebook imports this, the
import also sets up its process (`own_kernels.begin`); elsewhere it changes nothing.
"""

from grader.notebook.asking import ask, check_answer
from grader.notebook.cells import NotYet, running_shell
from grader.notebook.check_cells import check, check_speed, needs
from grader.notebook.own_kernels import begin, device, show_device
from grader.notebook.showing import missed_in_l2, show_memory, show_order, show_programs, show_warp
from grader.notebook.speeding import predict
from grader.notebook.step_values import show_values
from grader.notebook.submitting import submit
from grader.notebook.work_log import worklog

__all__ = [
    "NotYet", "ask", "check", "check_answer", "check_speed", "device", "missed_in_l2", "needs", "predict", "show_device",
    "show_memory", "show_order", "show_programs", "show_values", "show_warp", "submit", "worklog",
]  # fmt: skip

if (shell := running_shell()) is not None:
    begin(shell)
