"""What a student reads when a kernel does not build: place, line and caret, what was found and expected, a next step.

`teach` for what a sandbox says, `syntax` for what Python cannot read, `names` for what nothing defines, `endless` for
loops that cannot end; `lessons` is the table of what Triton's compiler says and what it means.
"""

from __future__ import annotations

from grader.compile_errors.endless import endless, first_endless
from grader.compile_errors.excerpt import Block, blocks, headline
from grader.compile_errors.fault import Fault, fault_of
from grader.compile_errors.teach import teach, teach_config, teach_launch

__all__ = ["Block", "Fault", "blocks", "endless", "fault_of", "first_endless", "headline", "teach", "teach_config", "teach_launch"]
