"""The report as one reads it in a terminal: a verdict a lab, each cause once with its line, bars for speed, the total, the next step."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from grader.compile_errors import headline
from grader.compile_errors.excerpt import INDENT
from grader.model import Config, KernelSource, LabReport, Report, TestResult
from grader.reporting.advice import describe_facts
from grader.reporting.causes import Cause, causes, failing, next_thing, start_at

MARKS = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "skipped": ("–", "yellow"),
    "error": ("!", "magenta"),
}
BAR_WIDTH = 24
MAX_CAUSES = 4


def show(report: Report, console: Console, *, every: bool = False) -> None:
    """Prints the whole report. every: with a line for each case and all that the compiler made."""
    device = report.device
    where = device.name if device.kind == "cuda" else "Triton's interpreter on the CPU (no GPU: speed is not graded)"
    console.print()
    console.print(f"[bold]{escape(report.submission)}[/] graded on {escape(where)}")
    seed = "" if report.seed is None else f", seed {report.seed}"
    versions = f"torch {device.torch}, triton {device.triton}{seed}"
    console.print(f"[dim]{versions}{f', driver {device.driver}' if device.driver else ''}[/]")
    for note in report.notes:
        console.print(f"[yellow]note:[/] {escape(note)}")
    for lab in report.labs.values():
        console.print()
        console.print(_lab(lab, every=every))
    console.print()
    console.print(_total(report))
    console.print(Text.from_markup(f"[bold]Next:[/] {escape(next_step(report, beside=True))}"))


def _lab(lab: LabReport, *, every: bool) -> RenderableType:
    head = Text.from_markup(f"[bold]{lab.lab_id}[/]  {escape(lab.title)}  ")
    head.append(f"{number(lab.points)} of {number(lab.max_points)} {'bonus ' if lab.bonus else ''}points", style="bold")
    if not lab.tests:
        colour = "yellow" if lab.status in ("not_attempted", "not_graded") else "red"
        return Group(head, Padding(Text(f"{lab.status.replace('_', ' ')}: {lab.message}", style=colour), (0, 0, 0, 2)))
    parts: list[RenderableType] = [head]
    if lab.status != "graded":
        parts.append(Padding(Text(f"{lab.status.replace('_', ' ')}: {lab.message}", style="red"), (0, 0, 0, 2)))
    text, colour = outcome(lab)
    parts.append(Padding(Text(text, style=colour), (0, 0, 0, 1)))
    found = causes(lab.tests, lab.source)
    shown = found if every else found[:MAX_CAUSES]
    parts += [Padding(_cause(cause, lab.source, alone=len(found) == 1), (0, 0, 0, 2)) for cause in shown]
    if len(shown) < len(found):
        parts.append(Padding(Text(f"{len(found) - len(shown)} more with --all", style="dim"), (0, 0, 0, 2)))
    if every:
        parts.append(Padding(_cases(lab), (0, 0, 0, 1)))
    parts.append(Padding(_speed(lab), (0, 0, 0, 1)))
    parts += [Padding(Text(text), (0, 0, 0, 2)) for text in lab.remarks]
    parts += [Padding(Text(text.replace("\n", "\n  ")), (0, 0, 0, 2)) for text in lab.profile]
    for config in _configs_to_show(lab) if every or not found else ():
        facts = f": {describe_facts(lab.facts[config.index])}" if config.index in lab.facts else ""
        parts.append(Padding(Text(f"{config}{facts}", style="dim"), (0, 0, 0, 2)))
    return Group(*parts)


def outcome(lab: LabReport) -> tuple[str, str]:
    """How many of a lab's cases fail, or that none does, and its colour; ("", "") without cases."""
    cases = [test for test in lab.tests if test.kind == "correctness"]
    wrong, found = failing(lab.tests), causes(lab.tests, lab.source)
    skipped = [test for test in cases if test.status == "skipped"]
    aside = f"; {len(skipped)} not graded: {headline(skipped[0].message)}" if skipped else ""
    if wrong:
        return f"{MARKS['failed'][0]} {len(wrong)} of {len(cases)} cases fail{aside}", "red"
    if found:  # a config that does not fit every GPU, or an access outside, which costs points
        whole = all(test.points == test.max_points for test in lab.tests if test.kind != "speed")
        mark, colour = (MARKS["passed"][0], "yellow") if whole else (MARKS["failed"][0], "red")
        return f"{mark} {len(cases) - len(skipped)} of {len(cases)} cases pass{aside}, but:", colour
    passed = [test.message for test in lab.tests if test.kind in ("memory", "build") and test.status == "passed"]
    if not cases:
        return "", ""
    right = len(cases) - len(skipped)
    what = "; ".join([f"{right} of {len(cases)} cases pass", *dict.fromkeys(passed)])
    return f"{MARKS['passed'][0] if right else MARKS['skipped'][0]} {what}{aside}", "green" if right else "yellow"


def _cause(cause: Cause, source: KernelSource | None, *, alone: bool) -> RenderableType:
    """The sentences of a cause, in the order in which to put things right, each with its line, and the cases in which it shows."""
    lines: list[RenderableType] = []
    for count, sentence in enumerate(cause.with_excerpts(source), 1):
        first = f"{cause.number}." if count == 1 else " "
        mark = (f"{count}." if cause.reasons > 1 else "→" if count == 1 else " ") if alone else first
        head, *rest = sentence.split("\n")
        lines.append(Padding(Text(f"{mark} {head}".lstrip(), style="cyan"), 0))
        lines += [
            Text(
                line,
                style="" if line.startswith(INDENT) else "cyan",
                overflow="ellipsis",
                no_wrap=line.startswith(INDENT),
            )
            for line in rest
        ]
    if cause.where and not (alone and cause.cases and len(cause.cases) == cause.of):
        lines.append(Text(cause.where, style="dim"))
    return Group(*lines)


def _cases(lab: LabReport) -> RenderableType:
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim", expand=False)
    table.add_column("", width=1)
    table.add_column("case", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column("reason", overflow="fold")
    for test in lab.tests:
        if test.kind != "speed":
            table.add_row(*_row(test))
    return table


def _row(test: TestResult) -> tuple[Text, Text, Text, Text]:
    mark, colour = MARKS[test.status]
    points = f"{number(test.points)}/{number(test.max_points)}" if test.max_points else ""
    return (
        Text(mark, style=colour),
        Text(test.name, style="" if test.status == "passed" else colour),
        Text(points),
        Text(test.message, style="dim" if test.status == "passed" else ""),
    )


def _speed(lab: LabReport) -> RenderableType:
    tests = [test for test in lab.tests if test.kind == "speed"]
    if lab.speed_status == "skipped":
        worth = number(sum(test.max_points for test in tests))
        return Text(f"– speed: {worth} points, graded on a GPU only", style="yellow")
    table = Table(box=None, padding=(0, 1), show_header=True, header_style="dim", expand=False)
    table.add_column("", width=1)
    table.add_column("speed", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    table.add_column(f"0 {'─' * (BAR_WIDTH - 4)} top", no_wrap=True)
    table.add_column("ratio to cuBLAS fp16", overflow="fold")
    for test in tests:
        mark, name, points, message = _row(test)
        message.style = ""
        table.add_row(mark, name, points, _bar(test), message)
    return table


def _bar(test: TestResult) -> Text:
    """A bar up to the ratio, with a tick at each tier; the right end is a little past the top tier."""
    if "ratio" not in test.metrics:
        return Text("")
    tiers: list[float] = test.metrics["tiers"]
    scale = BAR_WIDTH / max(1.1 * max(tiers, default=1.0), 1e-9)
    filled = min(BAR_WIDTH, round(test.metrics["ratio"] * scale))
    cells = ["█" if cell < filled else "·" for cell in range(BAR_WIDTH)]
    for boundary in tiers:
        cells[min(BAR_WIDTH - 1, int(boundary * scale))] = "┃"
    return Text("".join(cells), style="green" if test.status == "passed" else "red")


def _configs_to_show(lab: LabReport) -> list[Config]:
    """The configs that a failure names or that speed was graded with; without these, the first that compiled."""
    chosen = {index for test in lab.tests for index in test.metrics.get("failing_configs", [])[:1]}
    chosen |= {test.metrics["config"] for test in lab.tests if test.kind == "speed" and "config" in test.metrics}
    if not chosen and lab.facts:
        chosen = {min(lab.facts)}
    return [config for config in lab.configs if config.index in chosen]


def total(report: Report) -> str:
    """The points of the course, and those of bonus labs where there are any."""
    parts = [f"{number(report.points)} of {number(report.max_points)} points"] if report.max_points else []
    parts += [f"{number(report.bonus_points)} of {number(report.bonus_max)} bonus points"] if report.bonus_max else []
    return " and ".join(parts) or "no lab to grade"


def _total(report: Report) -> RenderableType:
    text = Text.from_markup(f"[bold]{total(report)}[/]")
    labs = [lab for lab in report.labs.values() if not lab.bonus] or list(report.labs.values())
    earned, most = sum(lab.gradable_points for lab in labs), sum(lab.max_points for lab in labs)
    if earned < most:
        text.append(f"  ({number(earned)} can be earned on this machine)", style="yellow")
    if report.seconds is not None:
        text.append(f"  in {report.seconds:.1f} s", style="dim")
    return text


def next_step(report: Report, *, beside: bool = False, hidden: bool = False) -> str:
    """What to do now, in one sentence: what is wrong first, then what is not begun, then what is slow.

    beside: the causes stand there too, so of what is wrong only the line is told. hidden: there are cases that this report leaves out.
    """
    return (
        _to_fix(report, beside=beside)
        or _to_begin(report)
        or _to_speed_up(report)
        or _to_grade_on_other_machine(report)
        or ("every case that is shown passes; hidden cases count too" if hidden else "")
        or (
            "everything that can be graded here is right; grade on a GPU for the speed points"
            if any(lab.gradable_points < lab.max_points for lab in report.labs.values())
            else "nothing left to do here"
        )
    )


def _to_fix(report: Report, *, beside: bool) -> str:
    for lab in report.labs.values():
        seen = any(test.kind == "memory" and test.metrics.get("seen") for test in lab.tests)
        if lab.status in ("rejected", "build_error", "timeout", "crash") and not seen:
            return f"{lab.lab_id}: {start_at(lab.message, lab.source, beside=beside)}"
        if lab.status != "not_attempted" and (first := next_thing(lab, beside=beside)):
            return f"{lab.lab_id}: {first}"
    return ""


def _to_grade_on_other_machine(report: Report) -> str:
    """That nothing was graded yet, or that none of a kernel's cases runs on this machine, which says nothing of whether it is right."""
    for lab in report.labs.values():
        if lab.status == "not_graded":
            return f"{lab.lab_id} has no verdict yet: {headline(lab.message)}"
        cases = [test for test in lab.tests if test.kind == "correctness"]
        if skipped := [test for test in cases if test.status == "skipped"]:
            which = "no case can" if skipped == cases else f"{len(skipped)} of {len(cases)} cases cannot"
            why = headline(skipped[0].message)
            return f"{lab.lab_id}: {which} be graded on this machine: {why}; grade it on a GPU"
    return ""


def _to_begin(report: Report) -> str:
    waiting = [lab for lab in report.labs.values() if lab.status == "not_attempted"]
    if not waiting:
        return ""
    go = "start" if len(waiting) == len(report.labs) else "go on"
    return f"{go} with {waiting[0].lab_id}: {waiting[0].message}"


def _to_speed_up(report: Report) -> str:
    timed = [(lab.lab_id, test) for lab in report.labs.values() for test in lab.tests if test.kind == "speed"]
    for lab_id, test in timed:
        if test.status in ("failed", "error") and not test.metrics:
            return f"{lab_id}: `{test.name}` was not timed; {test.message}"
    slow = [(lab_id, test) for lab_id, test in timed if test.metrics and test.points < test.max_points]
    if not slow:
        return ""
    lab_id, test = min(slow, key=lambda one: one[1].points / one[1].max_points)
    return f"{lab_id}: `{test.name}` has the most to gain; {test.message}"


def number(value: float) -> str:
    """Points without needless zeros: 60, 2.5, 6.67."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
