"""explain: a kernel that fails -> what was observed of it in a few recorded launches, in the order in which to put it right."""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from grader.diagnosis.catalogue import Catalogue, load
from grader.diagnosis.compare import compare, unreadable
from grader.diagnosis.definition import GIVEN, address_nodes
from grader.diagnosis.observation import Observation, first_of_each
from grader.diagnosis.provenance import Provenance
from grader.diagnosis.relation import Run
from grader.diagnosis.statements import has_crossed_arguments, line_of_constant, line_of_result, variables_of
from grader.diagnosis.stores import holding_wrong
from grader.diagnosis.tape import Node, Tape, parse
from grader.diagnosis.walking import walk
from grader.judging.checking import Finding
from grader.labs import Lab
from grader.labs.expected import Relation, relation_of
from grader.labs.problems import generator_for, make_problem
from grader.labs.slices import slices
from grader.model import KernelBundle, KernelSource, Outcome, Problem, Walk
from grader.running.cpu import InterpretOptions, interpret

MAX_LAUNCHES = 5
MAX_SENTENCES = 6
MAX_PRODUCTS = 1 << 25
"""M N K of the largest case that is recorded, unless all that fail are larger."""
FIRST, SPREAD = 4, 4
"""How many programs of a launch are recorded: the first ones, twice as many where they may share a tile, and others evenly over all."""
ENOUGH = 8000
"""Operations of a launch, after which no further program is recorded."""
SEED = 7
"""Of the values that are recorded: always the same, so that the same is said every time, and the catalogue's columns are theirs."""
PLAIN = ("contiguous", "contiguous")


@dataclass(frozen=True)
class Failure:
    """A lab's kernel that fails: all that is known of it."""

    lab: Lab
    source: KernelSource
    bundle: KernelBundle
    problems: Mapping[str, Problem]
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]
    watched: Sequence[Outcome]
    how: InterpretOptions

    @property
    def failing(self) -> list[Outcome]:
        """The public outcomes that are wrong, whatever the order of their programs."""
        both = zip(self.outcomes, self.findings, strict=True)
        return [one for one, finding in both if went_wrong(one, finding) and not self.lab.hides(one.case)]


@dataclass(frozen=True)
class Explained:
    """observations: in the order in which to put them right. unread: why no launch could be followed. defects: of the grader.
    walk: the launch that showed the first one."""

    observations: tuple[Observation, ...] = ()
    unread: str = ""
    defects: tuple[str, ...] = ()
    walk: Walk | None = None


def went_wrong(outcome: Outcome, finding: Finding) -> bool:
    """Whether a launch that was made is wrong, whatever the order of its programs."""
    ran = outcome.status in ("ran", "crash") and not outcome.not_run
    return ran and not (finding.ok or finding.skipped or finding.unordered)


def explain(failure: Failure) -> Explained:
    """What the kernel does otherwise than it should, measured; nothing where it stored into its inputs or the lab has no relation."""
    expected, failing = relation_of(failure.lab.id), failure.failing
    if expected is None or not failing or any(outcome.stored_inputs(failure.lab.output) for outcome in failing):
        return Explained()
    catalogue, defects, unread = load(failure.lab.id), [], ""
    for own_values in (True, False):
        chosen = _chosen(failure, expected, failing)[: MAX_LAUNCHES if own_values else 2]
        chosen += _catalogued(failure, expected, chosen) if own_values else []
        launches = _recorded(failure, expected, chosen, catalogue, own_values=own_values)
        defects += [one.defect for one in launches if one.defect]
        unread = unread or next((one.unread for one in launches if one.unread), "")
        if merged := _merged(launches, frozenset(expected.first)):
            run = next(one.run for one in launches if one.run and one.observations[0].case == merged[0].case)
            shown = walk(merged[0].case, run, merged[0].program)
            return Explained(tuple(merged[:MAX_SENTENCES]), "", tuple(dict.fromkeys(defects)), shown)
    return Explained((), unread, tuple(dict.fromkeys(defects)))


@dataclass(frozen=True)
class _Launch:
    """What one recorded launch shows, or where the reading failed. sizes: M, N and K. others: programs with wrong elements, where nothing
    was found and no recorded program has one."""

    sizes: tuple[int, int, int]
    observations: tuple[Observation, ...] = ()
    unread: str = ""
    defect: str = ""
    run: Run | None = None
    others: tuple[int, ...] = ()


def _merged(launches: Sequence[_Launch], catalogued: frozenset[str]) -> list[Observation]:
    """Each column and aspect once, its coefficients with the names that two launches of different sizes agree on.

    What a later launch shows in a column that an earlier one has shown already follows from that, save for addresses: other
    layouts have strides of their own. Seen from stores that are astray, the operands begin in other rows; and where one launch shows the
    wrong stride of the stores, another one misses elements for that reason.
    """
    found: list[Observation] = []
    spaced = any(one.wrong_stride for launch in launches for one in launch.observations)
    for launch in launches:
        if any(one.aspect == "order" for one in found):  # which explains whatever stands elsewhere
            break
        known, before = {one.side for one in found}, tuple(found)
        missing = spaced and any(one.column == "programs" for one in launch.observations)
        found += [
            _agreed(one, launch, launches, catalogued)
            for one in launch.observations
            if not _explained(one, before, missing)
            if one.column not in {column for column, _ in known} or (one.stray and one.side not in known)
        ]
    return first_of_each(found)


def _explained(one: Observation, found: Sequence[Observation], missing: bool) -> bool:
    """Whether an observation follows from what was found in other launches. missing: whether elements are missing in this one because of
    the stride of the stores."""
    if missing and one.column == "programs":
        return True
    stray = missing or any(other.misplaced for other in found)
    twice = any(other.aspect == "twice" for other in found)  # of which one is multiplied with what belongs to another k
    return (stray and one.by_place) or (twice and one.column == "scale")


def _agreed(one: Observation, launch: _Launch, launches: Sequence[_Launch], catalogued: frozenset[str]) -> Observation:
    """An observation with the names that another launch, of other sizes, shows as well; without any where there is none.

    catalogued: the cases that the catalogue has, whose launches must agree on a mistake, and tell it for those of all others.
    """
    others = [other for each in launches if each is not launch for other in each.observations if other.key == one.key]
    named = {(each.mistake, each.what, each.hint) for each in (one, *others) if each.case in catalogued}
    mistake, what, hint = named.pop() if len(named) == 1 else ("", "", "")
    one = replace(one, mistake=mistake, what=what, hint=hint)
    apart = [
        other
        for known in launches
        if all(a != b for a, b in zip(known.sizes, launch.sizes, strict=True))
        for other in known.observations
        if other in others
    ]
    return one.agreeing(apart[0] if apart else replace(one, numbers=()))


@dataclass(frozen=True)
class _Chosen:
    """A launch to record. whole: with all its programs; else those alone that are recorded, which tell how the tensors' layouts are
    followed."""

    case: str
    config: int
    whole: bool = True


def _chosen(failure: Failure, expected: Relation, failing: Sequence[Outcome]) -> list[_Chosen]:
    """The lab's first cases, the smallest failing ones, and those in other layouts, which may hold mistakes of their own.

    Of several configs of a case the one with the largest tiles, whose flow is the shortest.
    """
    lab, bundle = failure.lab, failure.bundle

    def size(outcome: Outcome) -> int:
        case = lab.case(outcome.case)
        return case.M * case.N * case.K

    def layout(outcome: Outcome) -> tuple[str, str]:
        case = lab.case(outcome.case)
        return case.x_layout, case.y_layout

    small = [one for one in failing if size(one) <= MAX_PRODUCTS] or [min(failing, key=size)]
    small.sort(key=lambda one: (size(one), math.prod(bundle.launches[one.case, one.config].grid)))
    order = {case: place for place, case in enumerate(expected.first)}
    plain = sorted((one for one in small if layout(one) == PLAIN), key=lambda one: order.get(one.case, len(order)))
    chosen = [_Chosen(one.case, one.config) for one in plain[:1]]
    chosen += [_Chosen(one.case, one.config) for one in plain[1:] if one.case != plain[0].case][:1]
    seen, whole = set(), not plain
    for one in small:
        if layout(one) != PLAIN and layout(one) not in seen:
            seen.add(layout(one))
            chosen.append(_Chosen(one.case, one.config, whole))
    cases = {one.case for one in chosen}
    chosen += [_Chosen(one.case, one.config) for one in small if one.written is False and one.case not in cases][:1]
    return chosen


def _catalogued(failure: Failure, expected: Relation, chosen: Sequence[_Chosen]) -> list[_Chosen]:
    """The first case that the catalogue has, where none of those is chosen: on values of the diagnosis it may fail all the same."""
    if not chosen or any(one.case in expected.first for one in chosen):
        return []
    ran = [one for one in failure.outcomes if one.case == expected.first[0] and one.status == "ran"]
    return [_Chosen(one.case, one.config) for one in ran[:1]]


def _recorded(
    failure: Failure, expected: Relation, chosen: Sequence[_Chosen], catalogue: Catalogue, *, own_values: bool
) -> list[_Launch]:
    """What each launch shows, on values that tell where they come from, or on the case's own."""
    lab, bundle = failure.lab, failure.bundle
    pairs = {(f"{number} {one.case}", one.config): one for number, one in enumerate(chosen)}
    problems = {
        name: telling(expected, lab, one.case) if own_values else failure.problems[one.case]
        for (name, _), one in pairs.items()
    }
    launches = {pair: bundle.launches[one.case, one.config] for pair, one in pairs.items()}
    sliced = any(bundle.configs[one.config].split_k > 1 for one in chosen)
    outcomes: dict[tuple[str, int], Outcome] = {}

    def recorded(
        some: Sequence[tuple[str, int]], whole: bool, record: Callable[[int], tuple[int, ...]]
    ) -> list[Outcome]:
        how = replace(failure.how, record=record, enough=ENOUGH if whole else ENOUGH // 2, alone=not whole)
        return interpret(lab, failure.source, replace(bundle, launches=launches), problems, some, how)

    for whole in (True, False):
        first, spread = (2 * FIRST if sliced else FIRST, SPREAD) if whole else (1, 2)
        record = partial(programs_to_record, first=first, spread=spread)
        some = [pair for pair, one in pairs.items() if one.whole is whole]
        outcomes |= zip(some, recorded(some, whole, record), strict=True)
    known = catalogue if own_values else Catalogue()
    found = []
    for pair, one in pairs.items():
        try:
            with np.errstate(all="ignore"):
                launch = _read(failure, one, problems[pair[0]], outcomes[pair], known)
                if others := launch.others:
                    (again,) = recorded([pair], one.whole, lambda count: others[:2])
                    launch = _read(failure, one, problems[pair[0]], again, known)
                found.append(launch)
        except (
            Exception
        ) as error:  # a stranger's kernel made the record: what trips the reader costs nobody more than a reason
            found.append(_Launch(sizes_of(problems[pair[0]]), defect=defect(one.case, one.config, error)))
    return found


def telling(expected: Relation, lab: Lab, case: str) -> Problem:
    """A case's sizes and layouts with values that tell where they come from: the same whatever the seed of the grading."""
    return expected.inputs(make_problem(lab, lab.case(case), SEED), generator_for(SEED, lab.id, case, "relation"))


def programs_to_record(count: int, first: int, spread: int) -> tuple[int, ...]:
    """The first programs of a launch, and some of the others; the first of all and the last one before the rest."""
    return tuple(
        dict.fromkeys((0, count - 1, *range(min(first, count)), *(count * i // spread for i in range(spread))))
    )


def _read(failure: Failure, chosen: _Chosen, problem: Problem, outcome: Outcome, catalogue: Catalogue) -> _Launch:
    sizes, case = sizes_of(problem), chosen.case
    if not outcome.flow:
        return _Launch(sizes)
    run = run_of(failure.lab, failure.bundle, case, chosen.config, problem, outcome)
    run = run if chosen.whole else replace(run, ended=False)
    if not (run.wrong.any() or outcome.overrun):
        return _Launch(sizes)
    nodes, operands = run.tape.nodes, (run.expected.left.tensor, run.expected.right.tensor)
    loads = (node for node in nodes if node.op == "load" and node.tensor in operands)
    uses = {node.line for node in (*run.provenance.products(range(len(nodes))), *loads)}
    found = [
        _as_it_stands(failure, run, case, one, catalogue, one.loads_stray and one.line in uses) for one in compare(run)
    ]
    if found:
        return _Launch(sizes, tuple(found), "", run=run)
    holding = holding_wrong(run)
    others = holding if run.tape.programs.keys().isdisjoint(holding) else ()
    made, source = failure.bundle.made, failure.source
    unread = unreadable(run, lambda line: source.locate(at) if (at := made.origin(line)) else source.path.name)
    return _Launch(sizes, unread=unread, others=others)


def _as_it_stands(
    failure: Failure, run: Run, case: str, one: Observation, catalogue: Catalogue, used: bool
) -> Observation:
    """An observation in terms of the student's text. used: whether what is assigned in its line was loaded or multiplied there, and is not
    what was wrong before."""
    made, one = failure.bundle.made, _at_crossed_call(run, one)
    caller, line = (None if at is None else made.origin(at) for at in (run.tape.caller(one.line), one.line))
    given = caller is not None and (one.stray or one.column == "count")  # what it is made of there may be wrong, too
    variable = "" if used or given else variables_of(made.text).get(one.line or 0, "")
    if one.aspect == "grid" and failure.source.grid:
        line, caller, variable = line_of_result(failure.source.module, failure.source.grid), None, ""
    rows = ["", *made.text.split("\n")]
    makes = "\n".join(rows[number] for number in {one.line, *_reached(run, one)} if number)
    numbers = tuple(
        number.within(rows[one.line or 0], makes if f"{{{place}}}" in one.found else None)
        for place, number in enumerate(one.numbers)
    )
    named = replace(catalogue.named(case, one), numbers=numbers)
    reached = frozenset(at for number in _reached(run, one) if number and (at := made.origin(number)))
    return replace(named, case=case, line=line, caller=caller, variable=variable, grid=run.grid, reached=reached)


def _at_crossed_call(run: Run, one: Observation) -> Observation:
    """An observation in a helper, at its call where this gives arguments under each other's names."""
    called = run.tape.caller(one.line)
    crossed = one.line and called and has_crossed_arguments(run.text, one.line, called)
    return replace(one, line=called) if crossed else one


def _reached(run: Run, one: Observation) -> Iterator[int | None]:
    """An observation's line, and those of the accesses whose addresses are made there, where these are wrong."""
    if one.loads_stray:
        yield one.line
        for access in {access.line: access for access in run.tape.accesses.get(one.program or 0, ())}.values():
            if any(node.line == one.line and node.inputs for node in address_nodes(run, access)):
                yield access.line


def sizes_of(problem: Problem) -> tuple[int, int, int]:
    """M, N and K."""
    return problem.scalars["M"], problem.scalars["N"], problem.scalars["K"]


def run_of(lab: Lab, bundle: KernelBundle, case: str, config: int, problem: Problem, outcome: Outcome) -> Run:
    """One recorded launch to be compared; of one that broke off, all is taken for wrong. Raises ValueError for a bad record."""
    expected, launch = relation_of(lab.id), bundle.launches[case, config]
    M, N, K = sizes_of(problem)
    reference = lab.reference(problem, slices(lab, bundle.configs[config], launch, M, N, K))
    y = torch.full((M, N), torch.nan) if outcome.y is None else outcome.y
    wrong = ~((y.double() - reference.y).abs() <= reference.bound)
    assert outcome.flow is not None
    assert expected is not None
    tape = _with_names(parse(outcome.flow), bundle.made.text, {**lab.constants, **bundle.configs[config].constants})
    provenance = Provenance(tape, expected.left.tensor, expected.right.tensor, alone=bool(expected.subtracted))
    given = (lab, expected, problem, bundle.configs[config], launch.grid, tape, provenance)
    last = max(tape.programs, key=lambda program: tape.programs[program].stop, default=None)
    ended = outcome.y is not None
    found = (y.numpy(), wrong.numpy(), reference.y.numpy())
    return Run(*given, *found, ended, bundle.made.text, None if ended else last)


def _with_names(tape: Tape, text: str, known: Mapping[str, object]) -> Tape:
    """The tape with each constant in the line in which it has got its name, where it has one."""

    def named(node: Node) -> Node:
        if node.inputs or node.size > 1 or not node.line or node.op in GIVEN or node.data is None:
            return node
        line = line_of_constant(text, node.line, float(node.data.reshape(-1)[0]), known)
        return node if line is None else replace(node, line=line)

    return replace(tape, nodes=tuple(map(named, tape.nodes)))


def defect(case: str, config: int, error: Exception) -> str:
    """Where the reading of a launch failed, for those who fix it; without a path of this machine."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" at {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
    return (
        f"a defect of the grader: the diagnosis stopped in {case}, config {config} ({type(error).__name__}{place}); "
        "points do not depend on it; send this line and the kernel to whoever runs the grader"
    )
