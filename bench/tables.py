"""The benchmark as tables: Markdown for the README, from the record and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from bench.breakeven import curves, of
from grader.authoring.benchmarks import Entry, Record

BEGIN = "<!-- bench: begin -->"
END = "<!-- bench: end -->"


class MissingMarkers(ValueError):
    """The file has no pair of bench markers; the message says what to add."""


def with_table(readme: str, record: Record) -> str:
    """The README with the part between its markers made from the record. Raises MissingMarkers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingMarkers(f"the README has no `{BEGIN}` followed by `{END}`; add both lines where the table belongs")
    return f"{before}{BEGIN}\n{markdown(record)}{END}{after}"


def markdown(record: Record) -> str:
    """Every table of the README, one a lab, with a line on the machine first."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    parts = [
        f"{record.gpu}, driver {record.driver}, {versions}; {record.date}. Microseconds a launch and, in brackets, "
        "the ratio cuBLAS fp16 / kernel of the same A B B A rounds: above 1 is faster than cuBLAS. "
        "The cuBLAS column is its fastest race.\n"
    ]
    for lab in _labs(record.entries):
        entries = [entry for entry in record.entries if entry.lab == lab and entry.kind != "ladder"]
        if entries:
            parts.append(_lab_table(lab, entries))
            parts += _remarks(record, lab)
    ladder = [entry for entry in record.entries if entry.kind == "ladder"]
    if ladder:
        parts.append(_ladder_table(record, ladder))
    return "\n".join(parts)


def _labs(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.lab for entry in entries))


def _names(entries: Sequence[Entry], *, timed: bool = True) -> list[str]:
    return list(dict.fromkeys(entry.contestant for entry in entries if not timed or entry.status == "timed"))


def _shapes(entries: Sequence[Entry]) -> list[str]:
    return list(dict.fromkeys(entry.shape for entry in entries))


def _label(entry: Entry) -> str:
    sparsity = f", sparsity {entry.sparsity:g}" if entry.sparsity is not None else ""
    return f"{entry.M}, {entry.N}, {entry.K}{sparsity}"


def _cell(entry: Entry | None) -> str:
    if entry is None or entry.status != "timed":
        return "–"
    return f"{entry.time_us:#.3g} ({entry.ratio:.2f})".replace(". (", " (")


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _lab_table(lab: str, entries: Sequence[Entry]) -> str:
    names = _names(entries)
    found = {(entry.contestant, entry.shape): entry for entry in entries}
    rows = []
    for shape in _shapes(entries):
        row = [found.get((name, shape)) for name in names]
        timed = [entry for entry in row if entry and entry.status == "timed"]
        cublas = f"{min(entry.cublas_us for entry in timed):#.3g}".rstrip(".") if timed else "–"
        label = _label(next(entry for entry in entries if entry.shape == shape))
        rows.append([label, cublas, *(_cell(entry) for entry in row)])
    return f"**{lab}**\n\n" + _rows(["M, N, K", "cuBLAS fp16", *names], rows)


def _remarks(record: Record, lab: str) -> list[str]:
    entries = [entry for entry in record.entries if entry.lab == lab and entry.kind == "peer"]
    lines = [f"- {name}: {record.about[name]}." for name in _names(entries) if name in record.about]
    for name in _names(entries, timed=False):
        reasons: dict[str, list[str]] = {}
        for entry in entries:
            if entry.contestant == name and entry.status != "timed":
                reasons.setdefault(entry.message, []).append(_label(entry))
        whole = sum(entry.contestant == name for entry in entries)
        for reason, shapes in reasons.items():
            where = "" if len(shapes) == whole else f" at {'; '.join(shapes)}"
            lines.append(f"- {name}, not timed{where}: {reason}.")
    lines += _memory(record, lab) + _break_evens(record, lab)
    return ["\n".join(lines) + "\n"] if lines else []


def _memory(record: Record, lab: str) -> list[str]:
    """What each contestant that computes Y allocates at the shape with the largest Y."""
    complete = [entry for entry in record.timed(lab) if entry.kind == "solution" or entry.error is not None]
    largest = max((entry.M * entry.N for entry in complete), default=0)
    shown = {
        entry.contestant: entry.extra_bytes
        for entry in complete
        if largest == entry.M * entry.N and entry.extra_bytes and entry.extra_bytes >= 2 * largest
    }
    if max(shown.values(), default=0) <= 2 * largest:
        return []
    listed = "; ".join(f"{name} {extra_bytes / 2**20:.0f}" for name, extra_bytes in shown.items())
    return [f"- MiB allocated during a call at the largest M, Y included: {listed}."]


def _break_evens(record: Record, lab: str) -> list[str]:
    by_contestant: dict[str, list[str]] = {}
    for (M, contestant), entries in sorted(curves(record, lab).items()):
        by_contestant.setdefault(contestant, []).append(f"{of(entries).text} (M = {M})")
    return [f"- Break-even sparsity, {name}: {', '.join(found)}." for name, found in by_contestant.items()]


def _ladder_table(record: Record, ladder: Sequence[Entry]) -> str:
    rows = []
    for lab in _labs(ladder):
        steps = [entry for entry in ladder if entry.lab == lab]
        shapes = _shapes(steps)
        finals = [entry for entry in record.entries if entry.kind == "solution" and entry.shape in shapes]
        found = {(entry.contestant, entry.shape): entry for entry in [*steps, *[e for e in finals if e.lab == lab]]}
        for name in [*_names(steps, timed=False), *(["solution"] if shapes else [])]:
            cells = [
                f"{_label(next(e for e in steps if e.shape == shape))}: {_cell(found.get((name, shape)))}"
                for shape in shapes
            ]
            rows.append([lab, name.removeprefix("ladder/"), "<br>".join(cells)])
    return "**The ladders**\n\n" + _rows(["lab", "step", "M, N, K: time (ratio)"], rows)


def terminal_table(record: Record) -> str:
    """The same for a terminal, with the reasons of what was not timed."""
    lines = []
    for entry in record.entries:
        name = f"{entry.lab:<6} {_label(entry):<30} {entry.contestant:<44}"
        if entry.status == "timed":
            interval = f"{entry.ratio_low:.3f} to {entry.ratio_high:.3f}"
            note = f"  {entry.message}" if entry.message else ""
            lines.append(
                f"{name} {entry.time_us:9.2f} us {entry.ratio:6.3f} ({interval}) cuBLAS {entry.cublas_us:.2f}{note}"
            )
        else:
            lines.append(f"{name} {entry.status}: {entry.message}")
    return "\n".join(lines)
