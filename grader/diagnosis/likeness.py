"""Why is it wrong? Each wrong output is compared with what known mistakes would have produced from the same inputs.

One case can be explained by several mistakes (a K of one tile hides most of them), so the verdict is taken over all
failing cases of a lab: the mistake that explains most of them, then the one that explains most of the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from grader.judging.checking import Finding
from grader.judging.judged import Diagnosis
from grader.labs import Lab
from grader.labs.imitation import UNWRITTEN, Imitation, Mistake, tiles
from grader.model import Config, Outcome, Problem, Reference

ENOUGH = 0.98
"""Share of the wrong elements, and of all, that a mistake has to reproduce."""
MAX_CLASSES = 3
FP16_OVERFLOW = 65504.0
AT_ONCE = 3
"""On how many of the smallest failing cases all mistakes are tried, and how often."""
ROUNDS = 3
FEW = 3
"""A name is dropped when so many times more failing cases stay without one."""


@dataclass(frozen=True)
class _Run:
    """One launch that ran to its end, right or wrong. computed: what Y holds is known to be the kernel's own.

    astray: the tensors that it read or wrote outside; None where nobody watched. raced: whether its Y depends on the order of programs.
    extra: float64 [M, N] or 0-dimensional, what the fp16 additions of split-K add to a bound.
    """

    number: int
    problem: Problem
    config: Config
    y: torch.Tensor
    reference: Reference
    overrun: bool
    computed: bool
    astray: frozenset[str] | None
    raced: bool
    extra: torch.Tensor

    @cached_property
    def wrong(self) -> torch.Tensor:
        return ~((self.y.double() - self.reference.y).abs() <= self.reference.bound)


@dataclass(frozen=True)
class _Match:
    """How well an imitation fits a run: the share of its wrong elements that it reproduces.

    telling: the imitation itself is wrong where the run is; a bound so wide that it holds both says nothing. A Y of
    NaN nearly throughout speaks for a kernel that did not write it; where it is known to have done so, for a mistake that
    reads outside the tensors, if that was seen, and of those that it reads. hollow: it is such a Y that is alike.
    """

    of_wrong: float
    imitation: Imitation
    telling: bool
    hollow: bool


def diagnose(
    lab: Lab,
    problems: Mapping[str, Problem],
    configs: Sequence[Config],
    outcomes: Sequence[Outcome],
    findings: Sequence[Finding],
) -> list[Diagnosis | None]:
    """One diagnosis for each outcome, None where nothing failed or nothing was stored."""
    answers: list[Diagnosis | None] = [None] * len(outcomes)
    failing: list[_Run] = []
    passing: list[tuple[Outcome, Finding, int]] = []
    for number, (outcome, finding) in enumerate(zip(outcomes, findings, strict=True)):
        if outcome.status != "ran" or outcome.y is None or finding.skipped or finding.unordered:
            continue
        if finding.ok:
            passing.append((outcome, finding, number))
        elif stored := outcome.stored_inputs(lab.output):
            answers[number] = _changed(outcome, stored)
        else:
            failing.append(_run(lab, problems, configs, outcome, finding, number))
    if not failing:
        return answers

    def right() -> list[_Run]:
        return [_run(lab, problems, configs, *passed) for passed in passing]

    table = _fitting(lab, failing)
    classes = _classes(lab, failing, table, right)
    for run in failing:
        index = classes.get(run.number)
        if index is None:
            unwritten = bool(run.y.isnan()[run.wrong].all())
            answers[run.number] = Diagnosis("", "", describe_region(run.wrong, run.config, unwritten=unwritten, raced=run.raced), "")
        else:
            answers[run.number] = _explained(lab.mistakes[index], run, table[index, run.number])
    return answers


Table = dict[tuple[int, int], _Match]
"""Which mistake, by its place among the lab's, fits which run, by its number."""


def _fitting(lab: Lab, failing: Sequence[_Run]) -> Table:
    """The table without vague mistakes that leave a run open: they fit whatever has errors of a size.

    And without those that leave a Y of NaN as others do: which of them it was is not known.
    """
    table = _table(lab, failing)
    vague = {index for (index, number), match in table.items() if match.imitation.loose}
    vague = {index for index in vague if any((index, run.number) not in table for run in failing)}
    hollow = Counter(number for (_, number), match in table.items() if match.hollow and match.telling)
    return {
        (index, number): match for (index, number), match in table.items()
        if index not in vague and not (match.hollow and hollow[number] > 1)
    }  # fmt: skip


def _classes(lab: Lab, failing: Sequence[_Run], table: Table, right: Callable[[], list[_Run]]) -> dict[int, int]:
    """The mistake of each run: the one that explains most runs, then the one that explains most of the rest.

    Of several that explain as many, the one that fewest right runs deny. None at all when most runs stay open. Beside a first
    mistake, runs without a number say nothing: the two of them, or an access outside, may have left none.
    """
    classes: dict[int, int] = {}
    for _ in range(MAX_CLASSES):
        remaining = [run.number for run in failing if run.number not in classes]
        counts = {
            index: sum(_tells(table.get((index, number)), first=not classes) for number in remaining)
            for index in range(len(lab.mistakes))
        }
        most = max(counts.values(), default=0)
        if not most:
            break
        finalists = [index for index, count in counts.items() if count == most]
        if len(finalists) > 1:
            passing = right()
            denied = {index: sum(_denies(lab.mistakes[index], run) for run in passing) for index in finalists}
            finalists.sort(key=lambda index: (denied[index], index))
        classes.update({number: finalists[0] for number in remaining if (finalists[0], number) in table})
    if len(failing) - len(classes) > FEW * len(classes):  # what fits a few by chance names nothing
        return {}
    return classes


def _tells(match: _Match | None, *, first: bool) -> bool:
    return match is not None and match.telling and (first or not match.hollow)


def _table(lab: Lab, failing: Sequence[_Run]) -> Table:
    """Which mistakes fit which runs. All are tried on the smallest runs; the others meet those that fitted there."""
    table: Table = {}
    waiting = sorted(failing, key=lambda run: run.y.numel())
    tried: set[int] = set()
    for _ in range(ROUNDS):
        asked, waiting = waiting[:AT_ONCE], waiting[AT_ONCE:]
        fitting = set()
        for index, mistake in enumerate(lab.mistakes):
            for run in asked:
                if index not in tried and (match := _match(mistake, run)) is not None:
                    table[index, run.number] = match
                    fitting.add(index)
        for index in fitting - tried:
            for run in failing:
                if (index, run.number) not in table and (match := _match(lab.mistakes[index], run)) is not None:
                    table[index, run.number] = match
        tried |= fitting
        waiting = [run for run in waiting if not any(number == run.number for _, number in table)]
    return table


def _run(
    lab: Lab,
    problems: Mapping[str, Problem],
    configs: Sequence[Config],
    outcome: Outcome,
    finding: Finding,
    number: int,
) -> _Run:
    assert outcome.y is not None
    problem, config = problems[outcome.case], configs[outcome.config]
    reference = lab.reference(problem, finding.slices)
    extra = torch.zeros(())
    if finding.slices > 1:
        extra = reference.bound - lab.reference(problem, 1).bound
    computed = outcome.written is True and not any(finding.fault == "unwritten" for finding in outcome.memory or ())
    astray = None if outcome.memory is None else frozenset(found.tensor for found in outcome.memory if found.out_of_bounds)
    raced = any(found.unordered and found.tensor == lab.output for found in outcome.memory or ())
    return _Run(number, problem, config, outcome.y, reference, lab.output in outcome.overrun, computed, astray, raced, extra)


def _changed(outcome: Outcome, stored: Sequence[str]) -> Diagnosis:
    names = ", ".join(name.removesuffix("_ptr") for name in stored)
    return Diagnosis(
        "input_changed",
        "a kernel that stores into its input",
        f"{names} differs after the launch" if outcome.changed else f"programs store into {names}",
        "which pointers does the kernel store through?",
    )


def _match(mistake: Mistake, run: _Run) -> _Match | None:
    """The best of the mistake's imitations that reproduces the run, wrong elements and right ones."""
    best = None
    wrong = run.wrong
    if not bool(wrong.any()) and not run.overrun:
        wrong = torch.ones_like(wrong)
    for imitation in mistake.imitate(run.problem, run.config):
        if imitation.overrun != run.overrun or (imitation.loose and run.raced):  # what a race loses has any size
            continue
        agrees = _agrees(run, imitation)
        of_wrong = float(agrees[wrong].double().mean()) if bool(wrong.any()) else 1.0
        if of_wrong < ENOUGH or float(agrees.double().mean()) < ENOUGH:
            continue
        telling = imitation.loose or run.overrun or _differs(imitation, run, wrong)
        hollow = float(imitation.y.isnan().double().mean()) >= ENOUGH
        if hollow:
            outside = run.computed and _strayed(run, imitation) and not imitation.overflown
            telling = not run.computed if mistake.name == UNWRITTEN else outside
        if best is None or (telling, of_wrong) > (best.telling, best.of_wrong):
            best = _Match(of_wrong, imitation, telling, hollow)
    return best


def _strayed(run: _Run, imitation: Imitation) -> bool:
    """Whether the run may have read its NaN where the imitation does: outside a tensor, and outside that one."""
    return run.astray is None or bool(run.astray and (not imitation.reads or run.astray & {imitation.reads, ""}))


def _agrees(run: _Run, imitation: Imitation) -> torch.Tensor:
    """bool [M, N]: where Y is what the imitation says, within its bound; NaN and overflow included."""
    got, expected = run.y.double(), imitation.y
    bound = imitation.bound
    if bool(run.extra.any()):
        larger = float(expected.nan_to_num(0.0, 0.0, 0.0).norm() / run.reference.y.norm().clamp(min=1e-30))
        bound = bound + run.extra * max(1.0, larger)
    close = (got - expected).abs() <= bound
    overflown = (expected.abs() >= FP16_OVERFLOW) & got.isinf() & (got.sign() == expected.sign())
    return close | (got.isnan() & expected.isnan()) | overflown


def _differs(imitation: Imitation, run: _Run, wrong: torch.Tensor) -> bool:
    apart = ~((imitation.y - run.reference.y).abs() <= run.reference.bound / 2)
    return float(apart[wrong].double().mean()) >= 0.5


def _denies(mistake: Mistake, run: _Run) -> bool:
    """Whether a run that passed shows that the mistake is not there."""
    imitations = list(mistake.imitate(run.problem, run.config))
    return bool(imitations) and not any(
        imitation.overrun == run.overrun and float(_agrees(run, imitation).double().mean()) >= ENOUGH
        for imitation in imitations
    )


def _explained(mistake: Mistake, run: _Run, match: _Match) -> Diagnosis:
    wrong = run.wrong
    parts = [f"on {100 * match.of_wrong:.3g} % of the wrong elements"] if bool(wrong.any()) else []
    witness = mistake.witness(run.problem, run.config) if mistake.witness else ""
    if not witness and bool(wrong.any()):
        error = torch.where(wrong, (match.imitation.y - run.reference.y).abs().nan_to_num(0.0, posinf=0.0), -1.0)
        m, n = divmod(int(error.argmax()), run.y.shape[1])
        got, right = float(run.y[m, n]), float(run.reference.y[m, n])
        imitated = float(match.imitation.y[m, n])
        bound = float(match.imitation.bound.expand_as(run.y)[m, n])
        if abs(got) < float("inf") and bound < abs(imitated - right) / 4:
            witness = f"Y[{m}, {n}] is {got:.5g}, the mistake gives {imitated:.5g}, right is {right:.5g}"
    return Diagnosis(mistake.name, mistake.what, "; ".join([*parts, *([witness] if witness else [])]), mistake.hint)


def describe_region(wrong: torch.Tensor, config: Config, *, unwritten: bool = False, raced: bool = False) -> str:
    """Which tiles hold wrong elements, and which rows and columns inside them, when no known mistake fits.

    unwritten: whether all of them are as they arrived. raced: whether Y depends on the order of programs.
    """
    M, N = wrong.shape
    ending = "nothing is stored there, or NaN is: look at the offsets and the mask of the store" if unwritten else "no known mistake fits"
    if raced:
        ending = "programs race for elements of Y (the line `memory` says where)"
    if not bool(wrong.any()):
        return ""
    rows, columns = tiles(config, "M"), tiles(config, "N")
    if len(rows) > 1 or len(columns) > 1:
        return f"Wrong elements lie in {_numbered('rows', wrong.any(1))} and in {_numbered('columns', wrong.any(0))}; {ending}"
    tile_m, tile_n = rows[0], columns[0]
    padded = torch.zeros(-(-M // tile_m) * tile_m, -(-N // tile_n) * tile_n, dtype=torch.bool)
    padded[:M, :N] = wrong
    grid = padded.view(padded.shape[0] // tile_m, tile_m, padded.shape[1] // tile_n, tile_n)
    bad = grid.any(3).any(1)
    places = [f"({i}, {j})" for i, j in bad.nonzero()[:6].tolist()]
    more = ", ..." if int(bad.sum()) > 6 else ""
    which = "every tile" if bool(bad.all()) else f"{int(bad.sum())} of {bad.numel()} tiles: {', '.join(places)}{more}"
    inside_rows, inside_columns = _ranges(grid.any(3).any(2).any(0)), _ranges(grid.any(2).any(1).any(0))
    if max(inside_rows.count(","), inside_columns.count(",")) >= SCATTERED:
        return f"Wrong elements are scattered over {which} ({tile_m} x {tile_n}); {ending}"
    inside = f"inside a tile, rows {inside_rows} and columns {inside_columns}"
    return f"Wrong elements lie in {which} ({tile_m} x {tile_n}): {inside}; {ending}"


SCATTERED = 3
"""Rows, or columns, inside of tiles that come in more ranges than this follow no rule that is worth reading."""


def _numbered(nouns: str, flags: torch.Tensor) -> str:
    """Rows, or columns, by the ranges of their numbers."""
    ranges = _ranges(flags)
    return f"all {nouns}" if ranges == "all" else f"{nouns} {ranges}"


def _ranges(flags: torch.Tensor) -> str:
    """True places as ranges: "0 to 15, 32 to 47", or "all"."""
    if bool(flags.all()):
        return "all"
    edges = torch.diff(flags.int(), prepend=torch.zeros(1).int(), append=torch.zeros(1).int())
    starts, ends = (edges == 1).nonzero().flatten().tolist(), (edges == -1).nonzero().flatten().tolist()
    spans = [f"{a} to {b - 1}" if b - a > 1 else f"{a}" for a, b in zip(starts, ends, strict=True)]
    return ", ".join(spans[:4]) + (", ..." if len(spans) > 4 else "")
