"""Which program stores which part of Y? Every tile once, or once a slice of K."""

from __future__ import annotations

from grader.ledger.finding import Finding
from grader.ledger.pairs import Run


def look(run: Run) -> list[Finding]:
    """What the programs of the whole launch stored, recorded or not."""
    return []
