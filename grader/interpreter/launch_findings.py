"""What the memory checker has found in one launch: each thing once, with its line and the calls that led there."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from grader.interpreter.areas import Area, index_at
from grader.interpreter.native_memory import lines_in

MAX_FINDINGS = 24

Place = tuple[int | None, list[int]]
"""A line of the module, None where it is not known, and those of the calls that led there."""


class Findings:
    """The findings of a launch, by line, fault, kind of access and tensor. `path`: the module, whose line numbers they carry. `at`: the
    place of what is judged afterwards; None while the kernel runs. `moment`: the program whose access is judged, and how many came before,
    where they are not judged in their order; the earliest of its kind is told.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.at: Place | None = None
        self.moment = (0, 0)
        self._found: dict[tuple[Any, ...], tuple[tuple[int, int], dict[str, Any]]] = {}  # with its moment
        self._doubtful: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {}

    def __len__(self) -> int:
        return len(self._found)

    def listed(self) -> list[dict[str, Any]]:
        """As JSON, at most MAX_FINDINGS, in the order of their moments."""
        return [finding for _, finding in sorted(self._found.values(), key=itemgetter(0))[:MAX_FINDINGS]]

    def last_tensor(self) -> str:
        """The tensor of the newest finding; "" where it has none."""
        return list(self._found.values())[-1][1].get("tensor") or ""

    def settle(self, tensor: str) -> None:
        """What was in doubt about a tensor holds, and costs more than what is known already."""
        doubtful = self._doubtful.pop(tensor, {})
        certain = {key: ((-1, 0), self._found.get(key, ((), one))[1]) for key, one in doubtful.items()}
        self._found = {**certain, **self._found, **certain}

    def join(self, others: Findings) -> None:
        """What was found of other accesses of the launch, too."""
        for key, (self.moment, finding) in others._found.items():
            self._keep(key, finding)

    def here(self) -> Place:
        """The place where the kernel is."""
        if self.at is not None:
            return self.at
        line, *callers = lines_in(self.path) or [None]
        return line, callers  # type: ignore[return-value]

    def add(
        self, key: tuple[Any, ...], finding: dict[str, Any], at: Place | None = None, doubtful: str | None = None
    ) -> None:
        """Keeps a finding. at: its place; None: where the kernel is. doubtful: the tensor of one that `settle` may make certain."""
        line, callers = at or self.here()
        key, finding = (line, *key), {"line": line, "callers": callers, **finding}
        if doubtful is None:
            self._keep(key, finding)
        elif len(pending := self._doubtful.setdefault(doubtful, {})) < MAX_FINDINGS:
            pending.setdefault(key, finding)

    def _keep(self, key: tuple[Any, ...], finding: dict[str, Any]) -> None:
        if key in self._found:
            moment, known = self._found[key]
            earliest = finding if self.moment < moment else known
            lanes = known["lanes"] + finding["lanes"]
            self._found[key] = min(moment, self.moment), {**earliest, "lanes": lanes}
            return
        if len(self._found) >= MAX_FINDINGS and finding.get("differs"):  # what costs points is not crowded out
            harmless = (known for known, (_, one) in self._found.items() if not one.get("differs"))
            self._found.pop(next(harmless, None), None)
        if len(self._found) < MAX_FINDINGS:
            self._found[key] = self.moment, finding

    def place(
        self,
        fault: str,
        kind: str,
        area: Area,
        element: int,
        programs: Sequence[int] = (),
        *,
        at: Place | None = None,
        doubtful: bool = False,
        **more: Any,
    ) -> None:
        """Adds what is wrong with an element of a tensor; nothing where it is between its elements."""
        if not area.valid[element]:
            return
        place = {"tensor": area.name, "index": index_at(element - area.offset, area), "programs": list(programs)}
        key, finding = (
            (fault, kind, area.name, more.get("differs")),
            {"kind": kind, "fault": fault, **place, "lanes": 1, **more},
        )
        self.add(key, finding, at, area.name if doubtful else None)
