"""Columns rows and k: which elements of X and W meet for an element of Y, and which should.

A side that deviates is fitted as a combination of its row, the lane along k and the iteration, and the coefficients are
compared with the strides and the depth of a tile. Nothing here knows why a coefficient is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from grader.diagnosis.definition import address_nodes, inside_loop, numbers_behind
from grader.diagnosis.fit import fit, named
from grader.diagnosis.lookups import check_index
from grader.diagnosis.looping import bounds, line_of_cover, right_end
from grader.diagnosis.mending import (
    goes_through,
    line_of_operand,
    line_of_operands_mask,
    line_of_place,
    line_unless_right,
)
from grader.diagnosis.observation import Observation, span
from grader.diagnosis.provenance import Array
from grader.diagnosis.relation import Products, Run, Side, element, first_of, index_elements, load_of
from grader.diagnosis.reordering import line_of_exchange
from grader.diagnosis.statements import in_one_loop, loop_around
from grader.diagnosis.tape import Node


@dataclass(frozen=True)
class _Coefficients:
    """A side's offsets, in elements: row * r + lane * j + step * iteration + base, of the multiplications of one line.

    depth: how many elements along k a tile has. rows_vary, moves: whether there are several rows, and several iterations, to tell by.
    alone: whether each iteration takes one tile.
    """

    row: int
    lane: int
    step: int
    base: int
    depth: int
    rows_vary: bool
    moves: bool
    alone: bool


@dataclass(frozen=True, eq=False)
class _Walk:
    """How one side of the products walks through its tensor."""

    run: Run
    products: Products
    name: str

    @property
    def side(self) -> Side:
        return self.products.side(self.name)

    @property
    def strides(self) -> tuple[int, int]:
        """Of a row, and of an element along k."""
        along_row, along_k = (self.run.problem.scalars[name] for name in self.side.operand.strides)
        return along_row, along_k

    @cached_property
    def found(self) -> _Coefficients | None:
        """The coefficients; None where no combination fits, or the tensor has no strides."""
        products, side, unit = self.products, self.side, self.side.operand.unit
        use, reached = self.of_first_line.copy(), self.reached
        use &= side.asked[reached].all(axis=0)
        depth = len(np.unique(products.lane[use] // unit))  # of the tile, whatever becomes of its products
        use &= products.alive[reached].all(axis=0)
        if side.operand.index and use.any():  # each iteration begins where the index says
            use &= products.iteration == products.iteration[use].min()
        if not use.any() or not side.operand.strides or self.alternates:
            return None
        rows, iteration, lanes = products.rows(side)[reached], products.iteration[use], products.lane[use] // unit
        made = fit(
            side.offset[reached][:, use], {"row": rows[:, None], "lane": lanes[None, :], "step": iteration[None, :]}
        )
        if made is None:
            return None
        place = products.flow.terms[0].place
        iterates = place and in_one_loop(self.run.text, *place, products.store.line)
        vary, moves = bool((rows != rows[0]).any()), bool(iterates and (iteration != iteration[0]).any())
        base = made[""] - (0 if vary else int(rows[0]) * self.strides[0])
        return _Coefficients(made["row"], made["lane"], made["step"], base, depth, vary, moves, self.alone)

    @cached_property
    def of_first_line(self) -> Array:
        """bool [P]: the products of the line that multiplies first."""
        places = [term.place for term in self.products.flow.terms]
        return np.array([places[t] == places[0] for t in self.products.term], dtype=bool)

    @cached_property
    def reached(self) -> Array:
        """bool [E]: the elements of Y that these are products of."""
        found: Array = np.any(self.products.alive[:, self.of_first_line], axis=1)
        return found

    @cached_property
    def alone(self) -> bool:
        """Whether the program multiplies in one line, or in several of a loop what one load in it brings."""
        terms = self.products.flow.terms
        numbers = self.side.node[np.unique(self.products.term, return_index=True)[1]].tolist()
        loads = [self.run.load_of(number, self.side.operand.tensor) for number in numbers]
        lines = [load.line for load in loads if load is not None and load.line is not None]
        loops = [loop_around(self.run.text, line) or loop_around(self.run.text, line.caller or 0) for line in lines]
        beside = {(line, line.caller) for line, loop in zip(lines, loops, strict=True) if loop is loops[0]}
        return len({term.place for term in terms}) == 1 or (loops[:1] != [None] and len(beside) == 1)

    @property
    def alternates(self) -> bool:
        """Whether each lane meets a word of its own, whose elements take turns in several multiplications: no walk of this kind."""
        other = self.products.other(self.side)
        words, met = other.k[0][self.products.term == self.products.term.min()], other.k[0][self.products.live[0]]
        several = other.operand.unit > 1 and len(words) > 1 and len(np.unique(met)) < len(met)
        return several and bool((np.diff(words) != 0).all())

    @cached_property
    def amiss(self) -> list[str]:
        """Which coefficients are not those of a right kernel: "row", "lane", "step"; "base" where all others are."""
        found = self.found
        if found is None:
            return []
        along_row, along_k = self.strides
        tile = found.depth * along_k
        wrong = [
            name
            for name, deviates in (
                ("row", found.rows_vary and found.row != along_row),
                ("lane", found.depth > 1 and found.lane != along_k),
                ("step", found.moves and found.alone and found.step not in (tile, tile * self.run.config.split_k)),
            )
            if deviates
        ]
        sliced = self.run.config.split_k > 1 or bool(self.side.operand.index)
        begins_right = found.base >= 0 if sliced else found.base == 0
        return wrong or ([] if begins_right or self.side.operand.index else ["base"])

    @cached_property
    def other(self) -> _Walk:
        """The other operand's."""
        return replace(self, name="right" if self.name == "left" else "left")

    @cached_property
    def right(self) -> set[int]:
        """What the store is made of, and the other operand if that alone walks as it should."""
        return numbers_behind(
            self.run, self.products.store, *(self.other.loads if self.other.regular and not self.regular else ())
        )

    @property
    def regular(self) -> bool:
        """Whether it walks as a right kernel does: by the tensor's strides, whole tiles at a time."""
        return self.found is not None and not self.amiss

    @property
    def due(self) -> int:
        """By how many of its elements along k it should move on: as far as the other operand, if that walks right, else by its depth."""
        found, other = self.other.found, self.other
        if found is not None and found.moves and other.regular:
            return found.step // other.strides[1] * other.side.operand.unit // self.side.operand.unit
        return self.found.depth if self.found is not None else 0

    def observed(self, wrong: Array, column: str) -> list[Observation]:
        """The coefficients that deviate. wrong: bool [E, P], products that show it."""
        _, p = first_of(self.products, wrong)
        access = load_of(self.run, self.side, p)
        makers = {"row": self._apart, "lane": self._apart, "step": self._step}
        found = self.found
        if access is None or found is None:
            return []
        observed = [makers[which](access, found, column, which) for which in self.amiss if which in makers]
        used = line_of_exchange(self.run, self.products, self.side, p, access)
        return observed if used is None else [replace(one, line=used) for one in observed]

    def _apart(self, access: Node, found: _Coefficients, column: str, aspect: str) -> Observation:
        """What lies apart by another stride than its own."""
        within, products, side = aspect == "lane", self.products, self.side
        number, along = found.row, "one row of Y" if self.name == "left" else "one column of Y"
        numbers = np.broadcast_to(products.rows(side)[:, None], side.offset.shape)
        if within:
            number, along = found.lane, "one product"
            numbers = np.broadcast_to(products.lane // side.operand.unit, side.offset.shape)
        lacking, p = (self.strides[within] - number) * numbers, int(products.iteration.argmin())
        line = line_of_operand(self.run, products, side, p, lacking, self.right)
        text = f"from {along} to the next, the elements of {side.operand.letter} are {{0}} apart"
        expected = f"{side.operand.strides[within]} = {self.strides[within]}"
        return self.observation(column, aspect, line, text, expected, number)

    def _step(self, access: Node, found: _Coefficients, column: str, aspect: str) -> Observation:
        """How the operand moves on from iteration to iteration."""
        side, along_k, unit = self.side, self.strides[1], self.side.operand.unit
        line = self.line_of_step(self.due * along_k)
        # where the other operand moves on, this one should as well
        beside = self.other.line_of_move if line is None and found.step == 0 else None
        line = (
            line
            or beside
            or line_unless_right(self.run, [access, *self.loads][-1], numbers_behind(self.run, *self.loads[:1]))
        )
        before, after = (self.covered(i) for i in (0, 1))
        if len(before) and len(after) and after.min() - before.min() == found.step / along_k * unit:
            text = f"k of {side.operand.letter} advances by {{0}} from one iteration to the next ({span(before)}, then {span(after)})"
            text += f"; k of {self.other.side.operand.letter} advances on this line" if beside else ""
            one = self.observation(column, aspect, line, text, "{1}", found.step // along_k * unit, self.due * unit)
            return replace(one, hedged=beside is not None)
        text = f"the addresses of {side.operand.letter} move by {{0}} from one iteration to the next"
        stride = side.operand.strides[1]
        expected = f"{{1.value}} * {stride}, where {stride} = {along_k}"
        return self.observation(column, aspect, line, text, expected, found.step, self.due)

    def observation(
        self, column: str, aspect: str, line: int | None, text: str, expected: str, *numbers: int
    ) -> Observation:
        coefficients = tuple(named(self.run, number) for number in numbers)
        step = aspect == "step" and self.products.iterates
        found = self.products.seen(column, f"{self.name} {aspect}", line, text, expected, numbers=coefficients)
        return replace(found, iteration=1 if step else None)

    def line_of_step(self, step: int) -> int | None:
        """Where the number was made that could alone let the second iteration's addresses lie a step behind the first one's; None where no
        line of its own moves them on."""
        if self.found is None or len(self.loads) < 2 or (self.line_of_move is None and not self.found.step):
            return None
        lacking, first = (
            np.full(self.side.offset.shape, step - self.found.step),
            numbers_behind(self.run, self.loads[0]),
        )
        p = int((self.products.iteration == 1).argmax())
        line = line_of_operand(self.run, self.products, self.side, p, lacking, self.right | first)
        return self.line_of_move or line if line == self.loads[1].line else line

    @property
    def line_of_move(self) -> int | None:
        """Where the addresses of the second iteration are made of something that those of the first one are not."""
        if len(self.loads) < 2:
            return None
        known = {node.line for node in address_nodes(self.run, self.loads[0])}
        return next((node.line for node in address_nodes(self.run, self.loads[1]) if node.line not in known), None)

    @cached_property
    def loads(self) -> list[Node]:
        """Those of the first iteration and the second."""
        places = (np.flatnonzero(self.products.iteration == iteration)[:1] for iteration in (0, 1))
        return [load for at in places for p in at if (load := load_of(self.run, self.side, int(p)))]

    def covered(self, iteration: int) -> Array:
        here = (self.products.iteration == iteration) & self.side.asked[0] & self.of_first_line
        covered: Array = (self.side.k[0][here][:, None] + np.arange(self.side.operand.unit)).reshape(-1)
        return covered


def check_rows(run: Run, products: Products) -> list[Observation]:
    """Each side's row against the one that belongs to the element of Y."""
    found = []
    for name in ("left", "right"):
        walk = _Walk(run, products, name)
        wrong = (walk.side.row != products.rows(walk.side)[:, None]) & products.live
        if wrong.any():
            found += walk.observed(wrong, "rows") or [_other_row(walk, wrong)]
    return found


def _other_row(walk: _Walk, wrong: Array) -> Observation:
    """The first element of another row that is multiplied, where no coefficient says why."""
    run, products, side = walk.run, walk.products, walk.side
    e, p = first_of(products, wrong)
    height, own = side.operand.height, products.rows(side)
    line = line_of_place(run, products, side, p)
    index_of, other = products.left.operand.index_of, products.left
    alike = (
        index_of is not None
        and side is products.right
        and index_elements(run, other)[e, p] == index_of(run.problem, side.offset[e : e + 1, p])[0]
    )
    # whole blocks of another row, with their places in X
    if alike and not ((side.row - own[:, None])[wrong] % height).any():
        # behind elements of its own row, so that this iteration is needed
        if side.row[e, p] > own[e] and (products.live & ~wrong)[e, products.term == products.term[p]].any():
            line = line_of_operands_mask(run, products, side, p, wrong, right=right_end(run, products, wrong[e], e))
        else:
            found = bounds(run, products.program, inside_loop(run, products))
            end = found and run.tape.nodes[found.end if side.row[e, p] > own[e] else found.start]
            line = (
                line_of_cover(run, [products]) or (found and end and (end.line if found.strict else found.line)) or line
            )
    text = f"for {products.element(e)}, {element(run, side, e, p)} is multiplied"
    expected = f"row {own[e]} of {side.operand.letter}"
    return products.seen("rows", f"{walk.name} place", line, text, expected, p=p)


def check_k(run: Run, products: Products) -> list[Observation]:
    """The k of both sides against each other. To blame is the one that does not go through its rows once, or walk as it should.

    Not split: what is said depends on which of the two sides is to blame.
    """
    left, right = products.left, products.right
    wrong = products.live & ~products.meets
    if not wrong.any():
        return []
    walks = [_Walk(run, products, name) for name in ("left", "right")]
    stray = [walk for walk in walks if not goes_through(run, products, walk.side)]
    if (indexed := check_index(run, products)) and (stray != walks[1:] or indexed[0].aspect == "element"):
        return indexed
    if all(walk.regular for walk in walks) and (apart := _step_apart(walks, stray)):
        return [apart]
    e, p = first_of(products, wrong)
    irregular = [walk for walk in walks if not walk.regular]
    blamed = next((one for one in (stray, irregular) if len(one) == 1), walks)
    blamed = sorted(blamed, key=lambda walk: int(walk.side.k[e, p]))
    found = [one for walk in blamed for one in walk.observed(wrong, "k")]
    if found:
        expected = (
            "the same k in both operands"  # where the other one is wrong too, by what a step should be is not known
        )
        alone = len(blamed) == 1
        return [one if alone or not one.aspect.endswith(" step") else replace(one, expected=expected) for one in found]
    others = [
        load for walk in walks if len(blamed) == 1 and walk not in blamed and (load := load_of(run, walk.side, p))
    ]
    line = line_of_place(run, products, blamed[0].side, p, numbers_behind(run, *others))
    text = f"for {products.element(e)}, {element(run, left, e, p)} is multiplied by {element(run, right, e, p)}"
    return [products.seen("k", "meet", line, text, "the same k in both operands", p=p)]


def _step_apart(walks: list[_Walk], stray: list[_Walk]) -> Observation | None:
    """Operands that both walk in whole tiles, and not in the same: which of them is right is not known unless one alone is astray."""
    steps = [0 if walk.found is None else walk.found.step // walk.strides[1] * walk.side.operand.unit for walk in walks]
    which = walks.index(stray[0]) if len(stray) == 1 else steps.index(min(steps))
    blamed, own, other = walks[which], steps[which], steps[1 - which]
    access = load_of(blamed.run, blamed.side, 0)
    if own == other or blamed.found is None or access is None:
        return None
    first, then = (span(blamed.covered(i)) for i in (0, 1))
    text = f"k of {blamed.side.operand.letter} advances by {{0}} from one iteration to the next ({first}, then {then})"
    text += f", and k of {walks[1 - which].side.operand.letter} by {other}"
    line = blamed.line_of_step(other // blamed.side.operand.unit * blamed.strides[1]) or access.line
    return replace(blamed.observation("k", "step", line, text, "the same for both", own), aspect="step")


def check_steps(run: Run, products: Products) -> list[Observation]:
    """Of operands that meet at the same k, and not at every k once: those that move by something else than a tile, to or fro."""
    found, live = [], products.live
    for walk in (_Walk(run, products, name) for name in ("left", "right")):
        if (
            live.any()
            and walk.found
            and walk.amiss == ["step"]
            and walk.found.step != -walk.found.depth * walk.strides[1]
        ):
            found += [replace(one, expected="each k once") for one in walk.observed(live, "k")]
    return found
