"""Which number, were it another one, would let the loops of the programs that share a tile meet each k once.

Where a loop starts, ends and moves to, and where the tiles of its first two iterations begin, is computed again with other values of
one number at a time, for all these programs together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from grader.diagnosis.definition import (
    STEERS,
    behind,
    inside_loop,
    is_brought,
    is_program_id,
    made_with,
    numbers_behind,
)
from grader.diagnosis.mending import lanes_in
from grader.diagnosis.provenance import Array, Untraceable, spread
from grader.diagnosis.relation import Products, Run, Side, load_of, needed_of
from grader.diagnosis.replaying import Recomputed, sites
from grader.diagnosis.statements import loop_around
from grader.diagnosis.tape import Node

MOST = 16
"""By so many tiles, and steps of a loop, a number is tried to be another one."""


@dataclass(frozen=True)
class Bounds:
    """The nodes of a loop's first number, of its end and of its second number, or of what is added if it is a range; by how much it moves
    on, and its line. strict: whether it does not go on at its end itself."""

    start: int
    end: int
    step: int
    by: int
    line: int
    strict: bool = True
    ranges: bool = False


def bounds(run: Run, program: int, inside: int) -> Bounds | None:
    """Those of a program's loop around a line; None where it goes by something else, such as a test of several numbers."""
    loop = loop_around(run.text, inside)
    if loop is None:
        return None
    head = range(loop.lineno, loop.body[0].lineno)
    mine = map(run.tape.nodes.__getitem__, run.tape.programs[program])
    steers = [node for node in mine if node.op in STEERS and node.line in head]
    if steers and steers[0].op == "range":
        start, end, step = steers[0].inputs
        return Bounds(start, end, step, number_of(run, step), loop.lineno, ranges=True)
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
    first, second = moves[0]
    by, strict = number_of(run, second) - number_of(run, first), tests[0].op[-2:] not in ("LE", "GE")
    return Bounds(first, stays[0], second, by, line, strict)


def number_of(run: Run, number: int) -> int:
    return int(run.provenance.values(number).reshape(-1)[0])


def line_of_cover(run: Run, parts: Sequence[Products]) -> int | None:
    """Where the first number was made that, were it another one, would let the programs that share a tile meet each k once; None where
    there is none, or where the loops do not tell what is met. What was loaded is what the tensor has, if it is not all there is.

    Not split: what is tried, and on which numbers, is one loop.
    """
    with contextlib.suppress(Untraceable):
        loops = [_Loop(run, part) for part in parts]
        if not all(loop.is_as_recorded() for loop in loops):
            return None
        needed, depth = needed_of(run, int(parts[0].n[0])), loops[0].depth
        steps = {1, depth, -(-depth // 8), *(loop.found.by for loop in loops)}
        some = np.array(sorted({step * times for step in steps for times in range(-MOST, MOST + 1)}))[:, None]
        right = _right(run, parts, loops)
        every = [site for site in sites(run, [loop.made for loop in loops]) if site[0].op != "load"]
        every = [site for site in every if right.isdisjoint(node.number for node in site)]
        for alike in (True, False) if len(loops) > 1 else (True,):
            apart = made_with(loops[-1].made, is_program_id)  # what alone is another number in each program
            for site in (site for site in every if alike or site[-1] in apart):
                replaced = {node.number: _others(number_of(run, node.number), some, depth) for node in site}
                with contextlib.suppress(Untraceable):
                    met, idle = zip(*(loop.met(replaced, len(some) + 4) for loop in loops), strict=True)
                    few = np.sum(idle, axis=0) < run.config.split_k
                    if _is_whole(met, few, needed) if alike else _can_be_whole(met, needed):
                        return site[0].line
    return None


def _is_whole(met: Sequence[Array], few: Array, needed: Array) -> bool:
    """Whether one value lets all programs meet each k once. met: [values, K] of each. few: [values], whether few iterations meet none."""
    shared = np.all([one.any(axis=1) for one in met[:2]], axis=0)  # not all by the first one
    return bool(((np.sum(met, axis=0) == needed).all(axis=1) & shared & few).any())


def _can_be_whole(met: Sequence[Array], needed: Array) -> bool:
    """Whether a value of its own for each program would, so that each goes on where those before it end."""
    so_far = np.zeros(len(needed), int)
    for each in met:
        begin = np.flatnonzero(needed > so_far)[:1]
        fits = [one for one in each if one[begin].all() and (one >= 0).all() and (so_far + one <= needed).all()]
        if not fits:
            return False
        so_far = so_far + max(fits, key=lambda one: int(one.sum()))
    return bool((so_far == needed).all())


def _others(own: int, some: Array, depth: int) -> Array:
    """[values, 1]: other values of a number: larger and smaller ones, and the same counted in tiles, or words, in place of elements."""
    return np.concatenate([own + some, [[own * depth], [own * 8], [own // depth], [own // 8]]])


def _right(run: Run, parts: Sequence[Products], loops: Sequence[_Loop]) -> set[int]:
    """What stores are made of, and what the length of K and the number of its tiles are, for all programs."""
    found, tiles = {i for part in parts for i in numbers_behind(run, part.store)}, -(-run.sizes[2] // loops[0].depth)
    every = [node for loop in loops for node in loop.made]
    own = {node.number for node in made_with(every, is_program_id)}
    integers = (node for node in every if node.size == 1 and node.inputs and node.type.startswith("int"))
    for node in (node for node in integers if node.number not in own):
        if number_of(run, node.number) in (run.sizes[2], tiles, tiles * run.config.split_k):
            found |= {one.number for one in behind(run, node.number)}
    return found


class _Loop:
    """The loop over k of one program, computed again: its bounds, and where the tiles of its first two iterations begin.

    made: what all that is made of. depth: of a tile along k. whole: whether tiles are masked by K alone. Raises Untraceable.
    """

    def __init__(self, run: Run, part: Products) -> None:
        found, right, rounds = bounds(run, part.program, inside_loop(run, part)), part.right, part.round
        words = right.k[0][right.asked[0] & (rounds == 0)] if rounds is not None and len(part.m) else right.k[:0, 0]
        if found is None or not found.by or not len(words):
            raise Untraceable("no loop over k")
        self.run, self.part, self.found, self.whole = run, part, found, True
        self.tile: Array = ((np.unique(words) - words.min())[:, None] + np.arange(right.operand.unit)).reshape(-1)
        self.depth, self.ids = len(self.tile), np.array(np.unravel_index([part.program], run.grid))
        sides = [side for side in (part.left, right) if not side.operand.index]
        self.begins = [(side, [self._begin(side, iteration) for iteration in (0, 1)]) for side in sides]
        asked = [found.start, found.end, found.step, *(at[0] for _, both in self.begins for at in both if at)]
        numbers = {node.number for i in asked for node in behind(run, i, is_brought)}
        self.made = [run.tape.nodes[i] for i in sorted(numbers)]

    def _begin(self, side: Side, iteration: int) -> tuple[int, int, int] | None:
        """The address of the first element along k of an iteration's tile, a node and a lane; and how many elements are loaded with it."""
        here = np.flatnonzero((self.part.round == iteration) & side.asked[0])
        if not len(here):
            return None
        p = int(here[side.k[0][here].argmin()])
        access, lanes = load_of(self.run, side, p), None
        if access is not None:
            lanes = lanes_in(self.run.provenance, int(side.node[p]), side.lanes[0, p : p + 1], access)
        if access is None or lanes is None:
            raise Untraceable("no load")
        return access.inputs[0], int(spread(self.run.tape.nodes[access.inputs[0]], access.shape, lanes)[0]), access.size

    def is_as_recorded(self) -> bool:
        """Whether the loop meets what was multiplied for its first element of Y, whole tiles or up to the loop's end."""
        part, K = self.part, self.run.sizes[2]
        own = (part.left.row[0] == part.m[0]) & (part.right.row[0] == part.n[0])
        k = part.left.k[0][part.live[0] & part.meets[0] & own]
        counts = np.bincount(k[(k >= 0) & (k < K)], minlength=K)
        return any(np.array_equal(self.met({}, 1)[0][0], counts) for self.whole in (True, False))

    def met(self, replaced: Mapping[int, Array], values: int) -> tuple[Array, Array]:
        """int [values, K]: how often each k is met, -1 where the operands do not; [values]: the iterations that meet none."""
        replay, K, found = Recomputed(self.run, self.ids, replaced), self.run.sizes[2], self.found
        start, end, step = (replay.of(i)[:, 0] + np.zeros(values, int) for i in (found.start, found.end, found.step))
        by = step if found.ranges else step - start
        known, by = by != 0, np.where(by == 0, 1, by)
        count = -((start - end) // by) if found.strict else (end - start) // by + 1
        made = np.arange(2 * K // self.depth + 2) < count[:, None]
        begin, *others = (self._begins_at(replay, side, both, made, by) for side, both in self.begins)
        v, i = np.nonzero(begin >= 0)
        every, counts = begin[v, i][:, None] + self.tile, np.zeros((values, K), int)
        inside = every < (K if self.whole else np.minimum(end[v], K)[:, None])
        np.add.at(counts, (np.broadcast_to(v[:, None], every.shape)[inside], every[inside]), 1)
        for other in others:
            known = known & (other == begin).all(axis=1)
        return np.where(known[:, None], counts, -1), (made & (begin < 0)).sum(axis=1)

    def _begins_at(
        self, replay: Recomputed, side: Side, both: Sequence[tuple[int, int, int] | None], made: Array, by: Array
    ) -> Array:
        """int [values, iterations]: where each tile begins along k; -1 where it lies elsewhere, or where no iteration is made. by: how far
        the loop's variable moves, which a single tile goes by."""
        (first, second), operand = both, side.operand
        if first is None:
            raise Untraceable("no first tile")
        at = replay.of(first[0], first[1])[:, 0]
        along = (
            self.run.problem.scalars[operand.strides[1]] * self.depth // operand.unit if operand.strides else first[2]
        )
        move = by * along // abs(self.found.by) if second is None else replay.of(second[0], second[1])[:, 0] - at
        offsets = (at[:, None] + np.arange(made.shape[1]) * np.reshape(move, (-1, 1))) + np.zeros(made.shape, int)
        row, k = operand.place(self.run.problem, offsets)
        own = (row == self.part.rows(side)[0]) & (k >= 0) & (k < self.run.sizes[2])
        found: Array = np.where(made & own, k, -1)
        return found


def right_end(run: Run, products: Products, wrong: Array, e: int) -> set[int]:
    """What the end of the loop is made of, if each of its iterations makes something right for an element, and K in its place would not let
    it make as many."""
    found, live = bounds(run, products.program, inside_loop(run, products)), products.live[e]
    needed = np.unique(products.when[live & ~wrong])
    if found is None or not found.by or not np.isin(products.when[live], needed).all():
        return set()
    own, at_k = (
        -((number_of(run, found.start) - end) // found.by) for end in (number_of(run, found.end), run.sizes[2])
    )
    return set() if own == at_k else {node.number for node in behind(run, found.end)}
