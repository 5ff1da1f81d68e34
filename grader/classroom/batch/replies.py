"""The pages of feedback as archives that go back through the platform that the hand-ins came from: Canvas's and Moodle's re-upload.

Both find the student by what the downloaded file's name began with. Canvas wants the number of an attachment there, so what was typed
into Canvas has no way back; Moodle takes a file in the folder that it had packed.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from grader.authoring.archive import write_archive
from grader.classroom.batch.pages import page_name
from grader.classroom.batch.standing import Standing

FEEDBACK = "feedback.html"


def write_replies(out: Path, standings: Sequence[Standing]) -> dict[str, int]:
    """Writes feedback_canvas.zip and feedback_moodle.zip for hand-ins that came from there; returns how many pages each holds."""
    written = {}
    for platform in ("canvas", "moodle"):
        pages = {}
        for one in standings:
            reply = one.graded.hand_in.reply if one.graded.hand_in.platform == platform else ""
            if reply:  # what was unpacked with another encoding has the platform's number still
                name = os.fsencode(reply).decode("utf-8", "replace") + FEEDBACK
                pages[name] = (out / "feedback" / page_name(one)).read_bytes()
        name = f"feedback_{platform}.zip"
        if pages:
            write_archive(out / name, pages)
            written[name] = len(pages)
        else:
            (out / name).unlink(missing_ok=True)
    return written
