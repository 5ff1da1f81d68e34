"""Is a student's work in another of the folders that were handed out than the one that is graded?

For work of one's own only: in a class, what lies beside a submission is somebody else's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from grader.labs import Lab
from grader.model import Refusal, Submission
from grader.reading import UnusablePath, begun, read

PLACES = ("notebooks", "notebooks/zh", "assignment")


def with_work_in_other_folders(submission: Submission, labs: Sequence[Lab]) -> Submission:
    """The submission, in which each stub names the file that has the kernel, if one of the other folders has.

    Raises UnusablePath where nothing here was begun and something there was.
    """
    stubs = [lab for lab in labs if not begun(submission.labs.get(lab.id))]
    found = {lab.id: place for lab in stubs if (place := _in_other_folder(submission.path, lab))}
    if not found:
        return submission
    lab = next(lab for lab in stubs if lab.id in found)
    place = found[lab.id]
    if len(stubs) == len(labs):
        raise UnusablePath(
            f"{submission.path} holds stubs only, expected a kernel; {place} has {lab.kernel}, so run "
            f"`make grade SUBMISSION={place.parent}`, or move your kernel here"
        )
    pointed = {
        lab.id: Refusal("not_attempted", f"no {lab.kernel} was written here, but {found[lab.id]} has one; move it here")
        for lab in stubs
        if lab.id in found and lab.id in submission.labs
    }
    return replace(submission, labs={**submission.labs, **pointed})


def _in_other_folder(path: Path, lab: Lab) -> Path | None:
    """The file of another handed-out folder in which the lab was begun, as a path like the one that was given."""
    here = (path.parent if path.is_file() else path).resolve()
    for place in PLACES:
        parts = Path(place).parts
        if here.parts[-len(parts) :] != parts:
            continue
        root = here.parents[len(parts) - 1]
        for other in PLACES:
            for file in (root / other / f"{lab.id}.ipynb", root / other / f"{lab.id}.py"):
                if (
                    other != place
                    and file.is_file()
                    and not file.is_symlink()
                    and begun(read(file, [lab]).labs[lab.id])
                ):
                    return file if path.is_absolute() else Path(os.path.relpath(file))
    return None
