"""Loops over k: which loop bound, or start of a tile, if corrected, would make the loop cover the right k."""

from __future__ import annotations

import itertools
from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.definition import (
    GIVEN,
    STEERS,
    address_nodes,
    behind,
    inside_loop,
    is_program_id,
    line_to_blame,
    made_with,
    numbers_behind,
)
from grader.diagnosis.mending import lanes_in, line_of_lack, mending
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, load_of, needed_of
from grader.diagnosis.statements import loop_around
from grader.diagnosis.tape import Node


@dataclass(frozen=True)
class Bounds:
    """The nodes of a loop's first number, its end, and what makes its second number; by how much it moves on, and its line. strict:
    whether it does not go on at its end itself."""

    start: int
    stop: int
    step: int
    by: int
    line: int
    strict: bool = True


def bounds(run: Run, program: int, inside: int) -> Bounds | None:
    """Those of a program's loop around a line; None where it goes by something else, such as a test of several numbers."""
    loop = loop_around(run.text, inside)
    if loop is None:
        return None
    head = range(loop.lineno, loop.body[0].lineno)
    mine = map(run.tape.nodes.__getitem__, run.tape.programs[program])
    steers = [node for node in mine if node.op in STEERS and node.line in head]
    if steers and steers[0].op == "range":
        start, stop, step = steers[0].inputs
        return Bounds(start, stop, step, number_of(run, step), loop.lineno)
    return _of_tests(run, [run.tape.nodes[node.inputs[0]] for node in steers[:2]], loop.lineno)


def _of_tests(run: Run, tests: Sequence[Node], line: int) -> Bounds | None:
    """The same of a `while`, by its first two tests."""
    if len(tests) < 2 or any(test.op[-2:] not in ("LT", "GT", "NE", "LE", "GE") for test in tests):
        return None
    pairs = list(zip(*(test.inputs for test in tests), strict=True))
    stays = [one for one, other in pairs if one == other or number_of(run, one) == number_of(run, other)]
    moves = [pair for pair in pairs if pair[0] not in stays]
    if len(stays) != 1 or len(moves) != 1:
        return None
    (first, second), end = moves[0], run.tape.nodes[stays[0]]
    down = end.op not in GIVEN and not end.inputs  # to a number that stands there: how often is what it begins with
    by, strict = number_of(run, second) - number_of(run, first), tests[0].op[-2:] not in ("LE", "GE")
    return Bounds(first, first if down else end.number, second, by, line, strict)


def line_of_bound(run: Run, program: int, inside: int, which: str, right: Container[int] = ()) -> int | None:
    """Where the "start", the "stop" or the "step" of a program's loop around a line was made; the loop's own where that says it itself, or
    something right is made of it too; None where there is no loop."""
    found, loop = bounds(run, program, inside), loop_around(run.text, inside)
    if found is None or loop is None or not (found.strict or which == "step"):
        return None if loop is None else loop.lineno
    made = run.tape.nodes[{"start": found.start, "stop": found.stop, "step": found.step}[which]]
    if made.op not in GIVEN:
        # how often a loop runs, worked out in its own line, is as wrong as what it is made of
        count = made.line == found.line and not run.tape.nodes[found.start].inputs
        loads = (one for one in run.tape.accesses[program] if one.op == "load")
        fine = {node.number for load in loads for node in address_nodes(run, load)}
        parts = behind(run, made.number) if count else ()
        return found.line if made.number in right else line_to_blame(parts, made, fine)
    return found.line


def number_of(run: Run, number: int) -> int:
    return int(run.provenance.values(number).reshape(-1)[0])


def line_of_number(run: Run, number: int, lacking: Sequence[int], right: Container[int], use: int) -> int:
    """Where the first number was made that could alone make one number larger by one of these, and that nothing right is made of; `use`,
    the line that goes by it, where that is nothing but given."""
    made = [mending(run.provenance, number, np.zeros(1, dtype=np.int64), np.array([one])) for one in lacking]
    nodes = {one.node.number: one.node for one in itertools.chain(*made) if one.node.op not in GIVEN and one.node.line}
    blamed = [nodes[number] for number in sorted(nodes) if number not in right]
    blamed.sort(key=lambda node: node.op == "load")  # which is what the tensor has, if it is not all there is
    return next((node.line for node in blamed if node.line), use)


def line_of_rounds(run: Run, parts: Sequence[Products], amiss: Array) -> int | None:
    """Where a loop's start, stop or step is made, if another one would let it meet just what is missing: before its first iteration, after
    its last one, or between them. None where none would."""
    lines = (_line_of_rounds(run, part, amiss, sliced=len(parts) > 1) for part in parts)
    return next(filter(None, lines), None)


def _line_of_rounds(run: Run, part: Products, amiss: Array, *, sliced: bool) -> int | None:
    met, found = _rounds(part), bounds(run, part.program, inside_loop(run, part))
    if not met or found is None or not found.by:
        return None
    depth, by, store = len(met[0]), _moves_by(run, part, met, found), numbers_behind(run, part.store)
    order = _order(run, part, met, by)
    place, known = np.flatnonzero(np.isin(order, amiss)), np.flatnonzero(np.isin(order, np.concatenate(met)))
    if len(place) != len(amiss) or not len(known):
        return None
    rounds, more = -(-len(amiss) // depth) * found.by, np.arange(len(amiss))
    if np.array_equal(place, more + 1 + known[-1]):
        begins = {node.number for load in _loads(run, part) for node in all_of_address(run, load)}
        if sliced:  # what is the same in all slices moves all of them
            begins &= {node.number for node in made_with(run.tape.nodes[: part.store.number], is_program_id)}
            begins |= _of_all_tiles(run, found.stop, depth)
        if abs(rounds) == abs(found.by) and run.tape.nodes[found.stop].op == "load":
            begins.add(found.stop)  # a number that was loaded lacks no single iteration
        sign, left = 1 if found.stop != found.start else -1, len(amiss) * found.by // (by or depth)  # not whole, maybe
        return line_of_number(run, found.stop, (sign * rounds, sign * left), store | begins, found.line)
    if np.array_equal(place, more - len(amiss) + known[0]):
        return line_of_number(run, found.start, (-rounds,), store, found.line)
    if by and depth != abs(by) and found.by * depth % by == 0:
        return line_of_number(run, found.step, (found.by * depth // abs(by) - found.by,), store, found.line)
    return None


def _moves_by(run: Run, part: Products, met: Sequence[Array], found: Bounds) -> int:
    """By how much k moves from one iteration to the next, 0 where not always by the same; after a single one, where its loop leads."""
    steps = {int(after[0] - before[0]) for before, after in itertools.pairwise(met)}
    if steps:
        return steps.pop() if len(steps) == 1 else 0
    own = {node.number for load in _loads(run, part) for node in all_of_address(run, load)}
    return -len(met[0]) if found.by < 0 and found.start in own else len(met[0])


def _of_all_tiles(run: Run, stop: int, depth: int) -> set[int]:
    """What the number of all tiles along K, before they are shared out, was made of."""
    made, tiles = behind(run, stop), -(-run.sizes[2] // depth)
    right = [one.number for one in made if one.op not in GIVEN and number_of(run, one.number) == tiles]
    return {node.number for number in right for node in behind(run, number)}


def _order(run: Run, part: Products, met: Sequence[Array], by: int) -> Array:
    """All k that a program would meet if its loop began earlier and ended later, in the order in which it would."""
    if not by or abs(by) == len(met[0]):
        found = np.flatnonzero(needed_of(run, int(part.n[0])))
        return found[::-1] if by < 0 or met[-1][0] < met[0][0] else found
    tiles = np.arange(-(run.sizes[2] // abs(by)), 1 + run.sizes[2] // abs(by)) * by  # one of several
    every: Array = (tiles[:, None] + met[0]).reshape(-1)
    return every[(every >= 0) & (every < run.sizes[2])]


def _loads(run: Run, part: Products) -> list[Node]:
    return [load for side in (part.left, part.right) if len(side.node) and (load := load_of(run, side, 0))]


def _rounds(part: Products) -> list[Array]:
    """The k of each iteration in which a program multiplies, as the right operand's addresses have them, whatever its mask leaves out."""
    side, unit = part.right, part.right.operand.unit
    if part.round is None:
        return []
    here = [side.asked[0] & (part.round == number) for number in np.unique(part.round)]
    words = [np.unique(side.k[0][use] // unit * unit) for use in here]
    return [(k[:, None] + np.arange(unit)).reshape(-1) for k in words] if all(len(k) for k in words) else []


def all_of_address(run: Run, load: Node) -> list[Node]:
    """What a load's addresses are made of, and those of what was loaded for them; no masks."""
    found = address_nodes(run, load)
    return found + [node for one in found if one.op == "load" and one is not load for node in all_of_address(run, one)]


def line_of_slice(run: Run, parts: Sequence[Products]) -> int | None:
    """Where the first program's place along k was made that is not where the slices before it end, if each is as long as it is, or that is
    not the next tile, if slices take turns; None where all begin there."""
    begin = 0
    for part in sorted(parts, key=lambda part: part.program):
        met, side, access = _rounds(part), part.left, load_of(run, part.left, 0) if len(part.left.node) else None
        if not met or access is None:
            return None
        if met[0][0] != begin:
            found = bounds(run, part.program, inside_loop(run, part))
            right, lack = numbers_behind(run, part.store) | _length(run, found), int(begin - met[0][0])
            if found and any(node.op == "loop_variable" for node in address_nodes(run, access)):
                by = met[1][0] - met[0][0] if len(met) > 1 else len(met[0])
                return line_of_number(run, found.start, (lack * found.by // by,), right, found.line)
            use = side.asked & (part.round == 0) & (side.node == side.node[0])
            lanes = lanes_in(run.provenance, int(side.node[0]), side.lanes[use], access)
            lacking = np.full(0 if lanes is None else len(lanes), lack * run.problem.scalars[side.operand.strides[1]])
            return access.line if lanes is None else line_of_lack(run, access, lanes, lacking, right)
        interleaved = len(met) > 1 and met[1][0] - met[0][0] == len(parts) * len(met[0])
        begin += len(met[0]) * (1 if interleaved else len(met))
    return None


def _length(run: Run, found: Bounds | None) -> set[int]:
    """The nodes that how often a loop runs is made of, beside where it starts."""
    if found is None:
        return set()
    return {node.number for node in behind(run, found.stop, lambda node: node.number == found.start)} - {found.start}


def right_end(run: Run, products: Products, wrong: Array, e: int) -> set[int]:
    """What the end of the loop is made of, if none of its iterations makes for an element nothing but what is wrong."""
    found, live = bounds(run, products.program, inside_loop(run, products)), products.live[e]
    needed = np.unique(products.when[live & ~wrong])
    if found is None or not np.isin(products.when[live], needed).all():
        return set()
    return {node.number for node in behind(run, found.stop)}
