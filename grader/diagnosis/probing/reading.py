"""What a probe read off an output: a sentence with numbers, and one without."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """name: the class of the mistake. text: what was read, with numbers. general: the same without numbers of a case,
    which may be said of hidden cases too."""

    name: str
    text: str
    general: str
