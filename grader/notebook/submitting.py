"""In a notebook: submit(LAB) hands the kernel that was run last to the course server, and shows its answer in the cell."""

from __future__ import annotations

from grader.client import Client, result_line
from grader.notebook.cells import NotYet, Output, executed_kernel, grading_by_nbgrader, lab_named, sentence
from grader.reporting.compact import Remark
from grader.reporting.inline import Inline
from grader.unusable import Unusable

OUTSIDE_NOTEBOOK = "submit works in a notebook; in a terminal, `lab submit LAB` does the same."


def submit(lab_id: str, *, profile: bool = False) -> None:
    """Submits a lab's kernel and waits for the answer. Raises NotYet where there is no kernel, no server, or no room in the queue.

    An interrupt stops the waiting, not the grading. profile: ask where the time goes, too.
    """
    if grading_by_nbgrader():
        return
    source = executed_kernel(lab_named(lab_id), OUTSIDE_NOTEBOOK)
    output = Output()
    try:
        client = Client()
        sent = client.submit(source, profile=profile)
        output.show(Inline([Remark(f"attempt {sent['id']}: {sent['words']} ...", "dim")]))
        found = client.follow(
            sent["id"], lambda words: output.show(Inline([Remark(f"attempt {sent['id']}: {words} ...", "dim")]))
        )
    except Unusable as problem:
        raise NotYet(sentence(str(problem))) from None
    where = Remark(f"report with pictures: {client.account.url}{found['page']}", "dim")
    head = Remark(f"attempt {found['id']}: {result_line(found)}")
    output.show(Inline([head, *(Remark(text, style) for text, style in found.get("remarks", ())), where]))
