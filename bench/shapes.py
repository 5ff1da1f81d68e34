"""What is raced: shapes that each lab names in bench/labs/, beside its peers."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from types import ModuleType

from grader.labs import all_labs
from grader.model import Case


@dataclass(frozen=True)
class Shape:
    """One shape of a lab; ladder steps are raced where `ladder` says so. `sparsity`: share of zero blocks."""

    lab_id: str
    case: Case
    sparsity: float | None = None
    ladder: bool = False


def square_weight(lab_id: str, M: int, N: int, launches: int, *, ladder: bool = False) -> Shape:
    """M tokens and a dense [N, N] weight; a graph of that many launches, so that each finds its weight cold."""
    case = Case(f"m{M}_n{N}_k{N}", f"{M} tokens, {N} x {N} weight", M, N, N, launches=launches)
    return Shape(lab_id, case, ladder=ladder)


def lab_bench(lab_id: str) -> ModuleType | None:
    """A lab's bench module, with SHAPES and PEERS; None for a lab that has none."""
    if importlib.util.find_spec(f"bench.labs.{lab_id}") is None:
        return None
    return importlib.import_module(f"bench.labs.{lab_id}")


def shapes_of(lab_id: str, *, ladder: bool = False) -> tuple[Shape, ...]:
    """The shapes of a lab; with `ladder` those on which its ladder is raced."""
    module = lab_bench(lab_id)
    shapes: tuple[Shape, ...] = module.SHAPES if module else ()
    return tuple(shape for shape in shapes if shape.ladder or not ladder)


def all_shapes() -> tuple[Shape, ...]:
    """Every lab's shapes, in the order of labs."""
    return tuple(shape for lab_id in all_labs() for shape in shapes_of(lab_id))
