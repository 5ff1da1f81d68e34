"""Does every product that a program makes reach Y, and reach it once?"""

from __future__ import annotations

from grader.diagnosis.ledger.pairs import Pairs, Run
from grader.diagnosis.ledger.tape import Node
from grader.labs.divergence import SUM, WEIGHT, Divergence


def dropped(run: Run, program: int, stores: list[Node]) -> list[Node]:
    """Products of the program that reach none of its stores; none where a value of unknown origin does."""
    waiting = [store.inputs[0] for store in stores]
    seen = set(waiting)
    while waiting:
        for i in run.tape.nodes[waiting.pop()].inputs:
            if i not in seen:
                seen.add(i)
                waiting.append(i)
    if any("?" in run.provenance.sources(store.inputs[0]) for store in stores):
        return []
    return [node for node in run.provenance.products(run.tape.programs[program]) if node.number not in seen]


def without_operand(run: Run) -> Divergence | None:
    """A tl.dot of which one operand is made of X, or of W, and the other not of its partner, where no program multiplies the two."""
    left, right = run.stages.left, run.stages.right
    for program, numbers in run.tape.programs.items():
        if run.provenance.products(numbers):
            return None
        for node in (run.tape.nodes[i] for i in numbers if run.tape.nodes[i].op == "dot"):
            sources = run.provenance.sources(node.inputs[0]) | run.provenance.sources(node.inputs[1])
            absent = [side for side in (left, right) if side.tensor not in sources]
            if len(absent) == 1 and "?" not in sources:
                letter = absent[0].letter
                return Divergence(
                    f"{letter.lower()}_not_multiplied", WEIGHT, node.line, f"no operand is made of {letter}", "a product of X and W",
                    f"{letter} is not in the product: what is loaded of it does not reach tl.dot", program,
                )  # fmt: skip
    return None


def not_kept(run: Run, pairs: Pairs | None, program: int, stores: list[Node]) -> Divergence | None:
    """Products that are computed and lost."""
    lost = dropped(run, program, stores)
    if not lost or not stores:
        return None
    line = lost[0].line
    kept = 0 if pairs is None else len({term.node for term in pairs.flow.terms})
    if not kept:
        return Divergence("zeros", SUM, line, "the result of the multiplication reaches no store", "a sum that keeps it",
                       "tl.dot returns the sum, it does not change its argument", program)  # fmt: skip
    last = None if pairs is None else run.tape.nodes[min(term.node for term in pairs.flow.terms)]
    if last is not None and last.number > lost[-1].number and last.line not in {node.line for node in lost}:
        return Divergence(
            "accumulator_overwritten", SUM, last.line,
            f"the products of {len(lost)} earlier turn{'s' if len(lost) != 1 else ''} are not in the sum, the one that is made here is",
            "the sum of all of them", "the product that is made here replaces the accumulator instead of being added to it", program,
        )  # fmt: skip
    if last is not None and last.number > lost[-1].number:
        return Divergence(
            "accumulator_overwritten", SUM, line,
            f"the products of {len(lost)} earlier turn{'s' if len(lost) != 1 else ''} are not in the sum, the last one is",
            "the sum of all turns", "each turn replaces the accumulator instead of adding to it", program,
        )  # fmt: skip
    if pairs is not None and _apart(run, pairs, lost):
        these = f"{len(lost)} of the program's {len(lost) + kept} products"
        these += " are made here and reach no store" if len(lost) != 1 else " is made here and reaches no store"
        return Divergence(
            "sum_left_out", SUM, line, these, "all products in what is stored",
            "a sum that is made beside the stored one is never added to it", program,
        )  # fmt: skip
    return None


def _apart(run: Run, pairs: Pairs, lost: list[Node]) -> bool:
    """Whether the lost products are of other lines than those that are stored, or were made in between."""
    kept = [run.tape.nodes[term.node] for term in pairs.flow.terms]
    between = kept[0].number < lost[-1].number and lost[0].number < kept[-1].number
    return between or not {node.line for node in lost} & {node.line for node in kept}


def kept_on(run: Run, pairs: Pairs) -> Divergence | None:
    """A partial sum that was scaled and added, and goes on growing: its products arrive in Y several times."""
    if not pairs.flow.again:
        return None
    node = min(pairs.flow.again)
    return Divergence(
        "sum_not_reset", SUM, run.tape.nodes[node].line,
        "what is summed up here first is multiplied and added to the result, stays in the sum, and is added once more with what comes next",
        "each product once", "a partial sum that was added to the result goes on growing: it is not set to zero again", pairs.program,
    )  # fmt: skip
