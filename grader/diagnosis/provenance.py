"""Where the elements of a recorded value come from: through every operation that moves or converts them."""

from __future__ import annotations

from typing import Any

import numpy as np

from grader.diagnosis.tape import MOVES, Node, Tape

NONE, MIXED = -1, -2
"""An element that comes from no element of the tensor; one that comes from several."""
PRODUCT = "product"
IDENTITIES = frozenset({"fp_ext", "fp_trunc", "fp_to_fp", "si_to_fp", "ui_to_fp", "fp_to_si", "fp_to_ui", "int_cast"})
"""Operations that bring a number into another type."""
FAR = 1 << 31
"""More than any k, so that a row and a k are one number."""
OFFSET = 1 << 40
"""Added to elements' offsets, which may be negative, so that NONE and MIXED stay apart from them."""

Array = np.ndarray[Any, Any]


class Untraceable(Exception):
    """The flow cannot be followed: an operation that is not known, or a value made out of sight. line: of the module, if known."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line


class Provenance:
    """Answers, for the nodes of a tape: values, sources by tensor, and whether a node holds products of both operands.

    alone: whether elements of the left tensor count as carried where they are multiplied with none of the right one.
    """

    def __init__(self, tape: Tape, left: str, right: str, *, alone: bool = False) -> None:
        self.tape, self.left, self.right, self.alone = tape, left, right, alone
        self._values: dict[int, Array] = {}
        self._origins: dict[tuple[int, str, bool], Array] = {}
        self._sources: list[frozenset[str]] = []
        self._products: set[int] = set()
        self._reductions: set[int] = set()
        for node in tape.nodes:
            if self._multiplies(node):
                self._products.add(node.number)
            if node.op in ("reduce", "scan") or not self._reductions.isdisjoint(node.inputs):
                self._reductions.add(node.number)
            self._sources.append(self._find_sources(node))

    def sources(self, number: int) -> frozenset[str]:
        """Tensors whose elements flow into the node's values, and PRODUCT when products of both operands do."""
        return self._sources[number]

    def is_product(self, node: Node) -> bool:
        """Whether this node multiplies elements of the left tensor with elements of the right one."""
        return node.number in self._products

    def is_lookup(self, node: Node) -> bool:
        """Whether a node takes its elements out of a table that comes from no tensor, so that the index is what they come from."""
        return node.op == "gather" and not self._sources[node.inputs[0]]

    def carries(self, number: int) -> bool:
        """Whether products of both operands are summed up in the node's values, or elements of the left one alone are."""
        sources = self._sources[number]
        return PRODUCT in sources or (self.alone and self.left in sources and self.right not in sources)

    def products(self, numbers: range) -> list[Node]:
        """The nodes in a range that do."""
        return [self.tape.nodes[number] for number in sorted(self._products) if number in numbers]

    def _multiplies(self, node: Node) -> bool:
        if node.op == "dot" or (node.op in ("fmul", "mul", "fma") and len(node.inputs) >= 2):
            a, b = (self._sources[i] for i in node.inputs[:2])
        else:
            return False
        return PRODUCT not in a | b and (
            (self.left in a and self.right in b and self.right not in a and self.left not in b)
            or (self.left in b and self.right in a and self.right not in b and self.left not in a)
        )

    def _find_sources(self, node: Node) -> frozenset[str]:
        if node.op == "load":
            other = self._sources[node.inputs[-1]] if len(node.inputs) == 3 else frozenset()
            return frozenset({node.tensor or "?"}) | (other if not node.active.all() else frozenset())
        inputs = node.inputs
        if node.op == "select":
            inputs = inputs[1:]
        elif node.op == "gather":
            inputs = inputs[1:] if self.is_lookup(node) else inputs[:1]
        first, *others = (self._sources[i] for i in inputs) if inputs else (frozenset[str](),)
        found = first.union(*others) if others else first
        if node.op == "lost":
            found |= {"?"}
        if node.op == "dot" or self.is_product(node):
            found |= {PRODUCT}
        return found

    def values(self, number: int) -> Array:
        """The node's values. Raises Untraceable where they were not recorded and cannot be had by moving others."""
        if number in self._values:
            return self._values[number]
        node = self.tape.nodes[number]
        if node.data is not None:
            found = decoded(node)
        elif node.op in MOVES:
            found = moved(node, [self.values(i) for i in node.inputs], self._index(node))
        else:
            raise Untraceable(node.op, node.line)
        self._values[number] = found
        return found

    def _index(self, node: Node) -> Array | None:
        return self.values(node.inputs[1]).astype(np.int64) if node.op == "gather" else None

    def origin(self, number: int, tensor: str, *, masked: bool = True) -> Array:
        """For each element the offset + OFFSET of the tensor's element that it comes from, NONE or MIXED.

        masked: lanes that a load's mask leaves out come from nowhere; else from where their addresses point.
        """
        if tensor not in self._sources[number]:
            return np.broadcast_to(np.int64(NONE), self.tape.nodes[number].shape)
        key = (number, tensor, masked)
        if key not in self._origins:
            self._origins[key] = self._find_origin(self.tape.nodes[number], tensor, masked)
        return self._origins[key]

    def origin_at(self, number: int, lanes: Array, tensor: str, *, masked: bool = True) -> Array:
        """The same of these flat lanes."""
        found: Array = self.origin(number, tensor, masked=masked).reshape(-1)[lanes]
        return found

    def _find_origin(self, node: Node, tensor: str, masked: bool) -> Array:
        if node.op == "load":
            return self._loaded(node, tensor, masked)
        if self.is_lookup(node):
            return self.origin(node.inputs[1], tensor, masked=masked)
        if node.op in MOVES:
            return moved(node, [self.origin(i, tensor, masked=masked) for i in node.inputs], self._index(node))
        if node.op == "select":
            return self._selected(node, tensor, masked)
        if node.op == "dot":
            return np.full(node.shape, MIXED, dtype=np.int64)
        if node.op in ("reduce", "scan"):
            return self._reduced(node, self.origin(node.inputs[0], tensor, masked=masked))
        return self._merged(node, tensor, masked)

    def _merged(self, node: Node, tensor: str, masked: bool) -> Array:
        """Of an operation on one element of each input. What is one number of many elements, such as their maximum, scales each of
        them: where it meets one of them, that one is where the result comes from."""
        merged = np.full(node.shape, NONE, dtype=np.int64)
        holding = [i for i in node.inputs if tensor in self._sources[i]]
        of_many = [i for i in holding if i in self._reductions and self._sources[i] == {tensor}]
        for i in holding:
            origin = self.origin(i, tensor, masked=masked)
            if i in of_many and len(of_many) < len(holding):
                origin = np.where(origin == MIXED, NONE, origin)
            merged = merge(merged, np.broadcast_to(origin, node.shape))
        return merged

    def _loaded(self, node: Node, tensor: str, masked: bool) -> Array:
        if node.tensor == tensor:
            return np.where(node.active | (not masked), node.offsets + OFFSET, NONE)
        return np.where(node.active, NONE, self.origin(node.inputs[-1], tensor, masked=masked))

    def _selected(self, node: Node, tensor: str, masked: bool) -> Array:
        asked, one, other = (self.origin(i, tensor, masked=masked) for i in node.inputs)
        chosen = np.broadcast_to(np.where(self.values(node.inputs[0]).astype(bool), one, other), node.shape)
        # a clamp by where: the constant stands for the element that was asked about
        return np.where(chosen == NONE, asked, chosen)

    def _reduced(self, node: Node, origin: Array) -> Array:
        if node.op == "scan" or node.attribute[1] is None:
            return np.full(node.shape, MIXED, dtype=np.int64)
        lined = np.moveaxis(origin, node.attribute[1], -1)
        some = lined.max(axis=-1)
        one = np.where(lined >= 0, lined == some[..., None], True).all(axis=-1) & (lined != MIXED).all(axis=-1)
        return np.where(one, some, MIXED).reshape(node.shape)


def merge(a: Array, b: Array) -> Array:
    """Origins of what was computed from elements of both."""
    return np.where(a == NONE, b, np.where((b == NONE) | (a == b), a, MIXED))


def offsets_of(origin: Array) -> Array:
    """From origins to the elements' offsets; NONE and MIXED stay."""
    found: Array = np.where(origin >= 0, origin - OFFSET, origin)
    return found


def decoded(node: Node) -> Array:
    """A node's values as numbers: bfloat16, which NumPy has not, from its bits."""
    assert node.data is not None
    if node.type == "bf16" and node.data.dtype == np.uint16:
        return (node.data.astype(np.uint32) << 16).view(np.float32)
    if node.type.startswith("fp8"):
        raise Untraceable("fp8")
    return node.data


def moved(node: Node, parts: list[Array], index: Array | None = None) -> Array:
    """What one of MOVES makes of arrays shaped like its inputs. index: of a gather, the values of its second input."""
    first = parts[0]
    if node.op in ("reshape", "expand_dims"):
        return first.reshape(node.shape)
    if node.op == "trans":
        return first.transpose(node.attribute)
    if node.op == "broadcast":
        return np.broadcast_to(first, node.shape)
    if node.op in ("splat", "unsplat"):
        return np.full(node.shape, first.reshape(-1)[0])
    if node.op == "cat":
        return np.concatenate(parts[:2])
    if node.op == "join":
        return np.stack(parts[:2], axis=-1)
    if node.op == "split":
        return first[..., node.attribute]
    if node.op == "gather":
        assert index is not None
        return np.take_along_axis(first, index, axis=node.attribute)
    return np.concatenate([part.reshape(1, -1) for part in parts]).reshape(node.shape)  # a stack


def spread(source: Node, shape: tuple[int, ...], lanes: Array) -> Array:
    """The lanes of an input that is broadcast to a shape, for flat lanes of that."""
    if source.shape == shape:
        return lanes
    if source.size == 1:
        return np.zeros_like(lanes)
    found: Array = np.broadcast_to(np.arange(source.size).reshape(source.shape), shape).reshape(-1)[lanes]
    return found


def lanes_before(provenance: Provenance, node: Node, lanes: Array) -> list[tuple[int, Array, Array]]:
    """Through one of MOVES backwards: (input, its lanes, which of `lanes` they are) for flat lanes of the result."""
    tape, found, start = provenance.tape, [], 0
    numbers = []
    for i in node.inputs[: 2 if node.op in ("cat", "join") else 1 if node.op == "gather" else None]:
        size = tape.nodes[i].size
        numbers.append(np.arange(start, start + size).reshape(tape.nodes[i].shape))
        start += size
    index = provenance.values(node.inputs[1]).astype(np.int64) if node.op == "gather" else None
    at = moved(node, numbers, index).reshape(-1)[lanes]
    start = 0
    for i in node.inputs[: len(numbers)]:
        size = tape.nodes[i].size
        here = (at >= start) & (at < start + size)
        if here.any():
            found.append((i, np.where(here, at - start, 0), here))
        start += size
    return found
