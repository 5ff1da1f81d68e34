"""Which way did one element come, from its load to where it is used?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from grader.diagnosis.ledger.provenance import Provenance, Untraceable, lanes_before
from grader.diagnosis.ledger.tape import MOVES, Tape


@dataclass(frozen=True)
class Link:
    """One step of an element's way from a load to where it is used."""

    node: int
    op: str
    line: int | None
    type: str
    value: float


def history(tape: Tape, provenance: Provenance, number: int, lane: int, tensor: str) -> list[Link]:
    """The way of one element of a node from its load of `tensor`, the load first; moves are left out."""
    links: list[Link] = []
    while True:
        node = tape.nodes[number]
        if provenance.looked_up(node):
            links.append(Link(number, node.op, node.line, node.type, float(provenance.values(number).reshape(-1)[lane])))
            number = node.inputs[1]
            continue
        if node.op in MOVES:
            ((number, lanes, _),) = lanes_before(provenance, node, np.array([lane]))
            lane = int(lanes[0])
            continue
        try:
            value = float(provenance.values(number).reshape(-1)[lane])
        except (Untraceable, ValueError):
            value = float("nan")
        links.append(Link(number, node.op, node.line, node.type, value))
        if node.op == "load":
            if node.tensor == tensor:
                break
            return []
        inputs = node.inputs[1:] if node.op == "select" else node.inputs
        if node.op == "select":
            condition = provenance.values(node.inputs[0])
            chosen = bool(np.broadcast_to(condition, node.shape).reshape(-1)[lane])
            inputs = inputs[:1] if chosen else inputs[1:]
        following = [i for i in inputs if tensor in provenance.sources(i)]
        if not following or node.op in ("dot", "reduce", "scan"):
            return []
        source = tape.nodes[following[0]]
        if source.shape != node.shape:
            lane = int(np.broadcast_to(np.arange(source.size).reshape(source.shape), node.shape).reshape(-1)[lane])
        number = following[0]
    return links[::-1]
