"""Numbers of a recorded program computed again: for other programs, or with another value of a number that they are made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from grader.diagnosis.definition import GIVEN
from grader.diagnosis.provenance import IDENTITIES, Array, Untraceable, lanes_before, spread
from grader.diagnosis.tape import MOVES, Node

if TYPE_CHECKING:
    from grader.diagnosis.relation import Run


def _quotient(a: Array, b: Array) -> Array:
    """As a GPU has it, towards zero."""
    by = np.where(b == 0, 1, b)
    found: Array = np.sign(a) * np.sign(by) * (np.abs(a) // np.abs(by))
    return found


COMPUTED: Mapping[str, Callable[..., Array]] = {
    **dict.fromkeys(("add", "addptr"), lambda *parts: sum(parts)), "sub": np.subtract, "mul": np.multiply, "shl": np.left_shift,
    **dict.fromkeys(("ashr", "lshr"), np.right_shift), "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    **dict.fromkeys(("minsi", "minui"), np.minimum), **dict.fromkeys(("maxsi", "maxui"), np.maximum),
    **dict.fromkeys(("idiv", "sdiv", "udiv"), _quotient), **dict.fromkeys(("srem", "urem"), lambda a, b: a - _quotient(a, b) * b),
    "LT": np.less, "LE": np.less_equal, "GT": np.greater, "GE": np.greater_equal, "EQ": np.equal, "NE": np.not_equal,
    "select": np.where,
}  # fmt: skip


class Recomputed:
    """ids: [3, P], of programs. replaced: other values of numbers, [V, 1]. Pointers are counted in elements from their tensor's first."""

    def __init__(self, run: Run, ids: Array, replaced: Mapping[int, Array] | None = None) -> None:
        self.run, self.ids = run, ids
        self._known = {(number, 0): values for number, values in (replaced or {}).items()}

    def of(self, number: int, lane: int = 0) -> Array:
        """A lane of a node, [V or 1, P or 1]. Raises Untraceable for what is no address arithmetic."""
        if (number, lane) not in self._known:
            self._known[number, lane] = self._compute(self.run.tape.nodes[number], lane)
        return self._known[number, lane]

    def _compute(self, node: Node, lane: int) -> Array:
        name, at = node.op.removeprefix("icmp")[-2:] if node.op.startswith("icmp") else node.op, np.array([lane])
        if node.op == "get_program_id":
            ids: Array = self.ids[node.attribute][None]
            return ids
        if node.op == "argument" and node.data is None:  # a pointer: from its own first element
            return np.zeros((1, 1), dtype=np.int64)
        if node.op in MOVES:
            before = ((i, int(own[0])) for i, own, here in lanes_before(self.run.provenance, node, at) if here[0])
            return self.of(*next(before, (node.inputs[0], 0)))
        if not node.inputs or (node.op == "load" and self.ids.shape[1] == 1):  # of one program alone
            given: Array = self.run.provenance.values(node.number).reshape(-1)[at].astype(np.int64)[None]
            return given
        if node.op == "loop_variable":
            value, start, step = (
                int(self.run.provenance.values(i).reshape(-1)[0]) for i in (node.number, *node.inputs)
            )
            variable: Array = self.of(node.inputs[0]) + (value - start) // step * self.of(node.inputs[1])
            return variable
        if node.op == "tile" and len(node.inputs) > 1:
            return self._of_tile(node, lane)
        inputs = [self.of(i, int(spread(self.run.tape.nodes[i], node.shape, at)[0])) for i in node.inputs]
        if node.op in (*IDENTITIES, "tile"):  # of a descriptor, which begins where its pointer does
            return inputs[0]
        if name not in COMPUTED:
            raise Untraceable(node.op, node.line)
        with np.errstate(all="ignore"):
            made: Array = COMPUTED[name](*inputs).astype(np.int64)
        return made

    def _of_tile(self, node: Node, lane: int) -> Array:
        """Along one axis of a block pointer: where it begins and a stride, or a tile before and how far it was moved."""
        first, by, root = self.run.tape.nodes[node.inputs[0]], self.of(node.inputs[1]), node
        if first.op != "tile":
            begins: Array = (self.of(first.number) + lane) * by
            return begins
        while self.run.tape.nodes[root.inputs[0]].op == "tile":
            root = self.run.tape.nodes[root.inputs[0]]
        moved: Array = self.of(first.number, lane) + by * self.of(root.inputs[1])
        return moved


def sites(run: Run, made: Iterable[Sequence[Node]]) -> list[list[Node]]:
    """The integers that several things are made of, each the nodes that one operation made, one for each thing at most, as they are counted
    from the last one. A constant is one unless what it is used for stands in its line."""
    found = defaultdict[tuple[object, ...], list[Node]](list)
    for nodes in made:
        met = Counter[tuple[object, ...]]()
        for node in reversed(nodes):
            if node.size == 1 and node.line and node.type.startswith("int") and node.op not in (*GIVEN, *MOVES):
                met[key := (node.called_line, node.op)] += 1
                found[*key, met[key]].append(node)
    known = {node.number for nodes in found.values() for node in nodes}
    constants = {number: run.tape.nodes[number].line for number in known if not run.tape.nodes[number].inputs}
    numbers = (run.tape.nodes[number] for number in known)
    used = {i for node in numbers for i in node.inputs if i in constants and node.line == constants[i]}
    return sorted((one for one in found.values() if one[0].number not in used), key=lambda one: one[0].number)
