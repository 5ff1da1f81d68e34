"""check: from an outcome and an fp64 reference to a verdict with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from grader.judging.error_map import error_map
from grader.judging.slice_sums import MORE_THAN_SAID, TOO_MANY, Added
from grader.judging.slice_sums import added as added_by
from grader.labs import Lab, offsets
from grader.labs.slices import most_slices, slices
from grader.model import Case, Config, ErrorMap, KernelBundle, KernelSource, Launch, Outcome, Problem, Reference


@dataclass(frozen=True)
class Finding:
    """The verdict on one outcome: right or wrong, and a sentence that says why. `skipped`: it could not be judged.

    slices: the slices of K whose fp16 roundings the tolerance allowed for. unordered: Y is right here, but depends on the order of
    programs or on a false promise to the compiler. explained: Y would be right within the tolerance of the slices that it claims, and the
    sentence says why that is not the tolerance.
    """

    ok: bool
    message: str
    skipped: bool = False
    worst: float = 0.0
    frobenius: float = 0.0
    errors: ErrorMap | None = None
    slices: int = 1
    unordered: bool = False
    explained: bool = False


References = dict[tuple[str, int], Reference]
"""References by case and by the slices of K that their bounds allow for."""


def check(
    lab: Lab,
    problem: Problem,
    outcome: Outcome,
    bundle: KernelBundle,
    known: References | None = None,
    seen: Added | None = None,
) -> Finding:
    """Judges one outcome of a bundle's launch. The reference is computed here, after the kernel is gone.

    known: a cache of this lab's references for these problems. seen: for a launch on a GPU, the slices that the interpreter saw added
    in the same launch.
    """
    if outcome.status in ("unsupported", "lost"):
        return Finding(False, outcome.message, skipped=True)
    if outcome.status != "ran" or outcome.y is None:
        return Finding(False, outcome.message)
    if outcome.overrun:
        return Finding(False, _overrun(outcome))
    if outcome.changed:
        return Finding(False, f"the kernel changed its input {', '.join(outcome.changed)}; only y_ptr may be written")
    config = bundle.configs[outcome.config]
    launch = bundle.launches.get((outcome.case, outcome.config))
    count, seen = _slices_added(lab, problem, outcome, config, launch, seen)
    known, key = {} if known is None else known, (outcome.case, count)
    if key not in known:
        known[key] = lab.reference(problem, count)
    reference = known[key]
    finding = replace(compare(outcome.y, reference, explained=_nan_sources(problem, outcome)), slices=count)
    if finding.ok:
        return reject_undefined(finding, outcome)
    if seen is not None and seen.fault:
        claimed = lab.reference(problem, max(config.split_k, outcome.additions or 0))
        if compare(outcome.y, claimed).ok:  # else it is wrong whatever slices may widen
            finding = replace(finding, message=f"{finding.message}; {seen.fault}", explained=True)
    return replace(finding, errors=error_map(lab, outcome.case, config, outcome.y, reference))


def _slices_added(
    lab: Lab, problem: Problem, outcome: Outcome, config: Config, launch: Launch | None, seen: Added | None
) -> tuple[int, Added | None]:
    """The slices of K whose additions the tolerance allows for, and what the interpreter saw of them.

    At most as many as the config claims (grader.labs.slices); fewer where the interpreter saw fewer (`seen`, else the outcome's own
    record), or a GPU counted fewer (grader.labs.offsets). If neither did, the launched programs are counted.
    """
    sizes = [problem.scalars[size] for size in ("M", "N", "K")]
    count = slices(lab, config, launch, *sizes, measured=True)
    if seen is None and count > 1:
        seen = added_by(lab, problem, outcome)
    most, made = most_slices(sizes[2]), (outcome.additions or 0) if seen is None else seen.slices
    limit = most if seen is None else min(most, config.split_k)
    if config.split_k > 1 and made > limit:
        message = (
            MORE_THAN_SAID.format(made=made, said=limit) if limit < most else TOO_MANY.format(K=sizes[2], most=most)
        )
        seen = Added(limit, (seen.fault if seen else "") or message)
    if seen is not None:
        count = max(1, min(count, seen.slices))
    elif outcome.rounded is None:
        count = slices(lab, config, launch, *sizes)
    if outcome.rounded is not None:
        count = offsets.counted(outcome.rounded, count)
    return count, seen


ORDER_OF_PROGRAMS = (
    "Y depends on which program runs first, but on a GPU programs run at the same time; no program may read, add to or "
    "overwrite what another one stores (the line `memory` says where)"
)
ORDER_OF_LANES = (
    "one call of tl.store writes different numbers to the same element of Y, and on a GPU any of them may win; store each element "
    "once (the line `memory` says where)"
)


ORDER_OF_THREADS = (
    "two threads of one program store to the same element of Y, or one stores what the other loads, with no tl.debug_barrier in between: "
    "which comes first is undefined (the line `memory` says where)"
)
LEFT_OPEN = {
    "elements": "Y depends on the order of a tile's elements after an operation that lets the compiler choose that order (tl.view, "
    "tl.cat, can_reorder=True); use tl.reshape, or tl.join and tl.permute",
    "combining": "Y depends on the order in which elements are combined, and a GPU may use another order. "
    "Give tl.reduce a function that is associative and commutative up to rounding, such as a + b; give tl.associative_scan one that is "
    "associative, and find the index of a maximum with tie_break_left=True",
    "bits": "Y is right only if products of fp8 values are summed exactly, and a Hopper GPU accumulates them with only about 14 bits; "
    "multiply int8 or fp16, or add each tile's product to a sum of your own, without acc=",
    "last bit": "Y depends on the last bit of a quotient, root, power or sine, which a GPU only approximates in fp32; divide "
    "whole numbers by // and %, round up by tl.cdiv",
    "fused": "Y depends on what is left where products cancel, and a GPU adds a product without rounding it first; subtract before you "
    "multiply",
    "promised": "Y depends on lanes past the end of a tensor, of which tl.max_contiguous promises the compiler that they go on; mask them, "
    "or leave the promise out",
    "packs": "Y depends on which elements tl.map_elementwise passes to its function together, which the compiler "
    "chooses; use pack=1, or let the function treat each element by itself",
}
"""Why a kernel that relies on an order that Triton leaves undefined is wrong, by the names of grader/interpreter/orders.py."""


def order_left_open(source: KernelSource, found: Sequence[tuple[str, int | None]]) -> str:
    """The sentence that Y depends on the first of these orders, with its lines. found: as `Outcome.left_open`."""
    what = found[0][0]
    lines = dict.fromkeys(source.locate(line) for kind, line in found if kind == what and line is not None)
    return LEFT_OPEN[what] + (f" ({', '.join(list(lines)[:3])})" if lines else "")


BROKEN_PROMISE = (
    "the compiler was promised something that is not true, so what the kernel does is undefined; promise only what "
    "holds for every size (the line `memory` says where)"
)


def reject_undefined(finding: Finding, watched: Outcome) -> Finding:
    """The finding, made wrong if the watched launch shows that Y depends on the order of programs or lanes, or on a false promise.

    The interpreter runs programs one after the other, a GPU runs them concurrently: there an element may be read before another program
    stores it. And the compiler relies on promises, which the interpreter ignores.
    """
    if not finding.ok:
        return finding
    faults = frozenset(found.fault for found in watched.memory or () if found.unordered)
    if faults:
        messages = {frozenset({"lanes"}): ORDER_OF_LANES, frozenset({"thread"}): ORDER_OF_THREADS}
        return replace(finding, ok=False, message=messages.get(faults, ORDER_OF_PROGRAMS), unordered=True)
    if any(found.promise for found in watched.memory or ()):
        return replace(finding, ok=False, message=BROKEN_PROMISE, unordered=True)
    return finding


def _overrun(outcome: Outcome) -> str:
    """The sentence that the kernel wrote outside a tensor, with a remedy if the interpreter saw the store."""
    said = f"the kernel wrote outside {', '.join(outcome.overrun)}"
    if outcome.memory is None:
        return f"{said}; grade with DEVICE=cpu to see where"
    stored = [finding for finding in outcome.memory if finding.kind != "load" and finding.out_of_bounds]
    if stored and all(finding.fault == "beyond" for finding in stored):
        return f"{said}; mask its stores (the line `memory` says where)"
    if stored:
        return f"{said}; the address of its store is wrong (the line `memory` says where)"
    return said


@dataclass(frozen=True)
class NaNSources:
    """What explains NaN in Y. everywhere: every element of Y was stored to. outside: fp16 tensors that were read out of bounds, where the
    interpreter returns NaN."""

    everywhere: bool = False
    outside: tuple[str, ...] = ()


def _nan_sources(problem: Problem, outcome: Outcome) -> NaNSources:
    tensors = [found.tensor for found in outcome.memory or () if found.kind == "load" and found.out_of_bounds]
    outside = [name for name in tensors if name in problem.tensors and problem.tensors[name].dtype == torch.float16]
    return NaNSources(outcome.written is True, tuple(name.removesuffix("_ptr") for name in dict.fromkeys(outside)))


def compare(y: torch.Tensor, reference: Reference, explained: NaNSources | None = None) -> Finding:
    """Elementwise and Frobenius bounds. y: fp16 [M, N] on the reference's device."""
    error = (y.double() - reference.y).abs()
    wrong = ~(error <= reference.bound)
    norm = float(torch.linalg.norm(reference.y))
    frobenius = float(torch.linalg.norm(error)) / norm if norm > 0 else float(torch.linalg.norm(error))
    worst = float((error / reference.bound).nan_to_num(torch.inf).max())
    message = ""
    if bool(wrong.any()):
        message = _describe(y, reference, wrong, explained or NaNSources())
    elif not frobenius <= reference.frobenius:
        message = (
            f"every element is within its bound, but together they are too far off (relative error {frobenius:.1e}, "
            f"allowed {reference.frobenius:.1e}); accumulate in fp32 or int32 and round once"
        )
    return Finding(not message, message, worst=worst, frobenius=frobenius)


def _describe(y: torch.Tensor, reference: Reference, wrong: torch.Tensor, explained: NaNSources) -> str:
    """How much is wrong, where, and one wrong element with its expected value."""
    M, N = y.shape
    count = int(wrong.sum())
    unwritten = torch.isnan(y)
    if bool(unwritten.all()) and explained.everywhere:
        return f"all of Y is NaN, although every element was written{_read_outside(explained)}"
    if bool(unwritten.all()):
        return "no element of Y was written, or all are NaN; check the grid, the pointers and the store's mask"
    share = f"{count} of {M * N} elements of Y are wrong ({100 * count / (M * N):.3g} %)"
    if bool((y == 0).all()):
        return f"Y is all zeros; {share}"
    place = _where(wrong)
    if int(unwritten.sum()) == count and explained.everywhere:
        return f"{count} of {M * N} elements of Y are NaN{place}, and were stored{_read_outside(explained)}"
    if int(unwritten.sum()) == count:
        return f"{count} of {M * N} elements of Y were never written, or are NaN{place}"
    excess = torch.where(unwritten, 0, (y.double() - reference.y).abs() - reference.bound)
    flat = int(excess.argmax())
    row, column = divmod(flat, N)
    sample = (
        f"Y[{row}, {column}] is {float(y[row, column]):.6g}, expected {float(reference.y[row, column]):.6g} "
        f"to within {float(reference.bound[row, column]):.2g}"
    )
    return f"{share}{place}; {sample}"


def _read_outside(explained: NaNSources) -> str:
    """Where NaN in Y may have come from."""
    if not explained.outside:
        return ": check the values it is computed from"
    names = " and ".join(explained.outside)
    return (
        f": reads outside {names} give NaN here, and so does every sum that includes one (the line `memory` says where)"
    )


def _where(wrong: torch.Tensor) -> str:
    """The rows and columns that contain all wrong elements, unless those are all rows and columns, or there is one, which is named."""
    M, N = wrong.shape
    if int(wrong.sum()) == 1:
        return ""
    rows, columns = wrong.any(dim=1).nonzero().flatten().tolist(), wrong.any(dim=0).nonzero().flatten().tolist()
    parts = [_span("row", rows, M), _span("column", columns, N)]
    named = [part for part in parts if part]
    return f", all in {' and '.join(named)}" if named else ""


def _span(noun: str, indices: Sequence[int], size: int) -> str:
    if (2 * len(indices) > size and indices[-1] - indices[0] + 1 != len(indices)) or len(indices) == size:
        return ""
    if len(indices) == 1:
        return f"{noun} {indices[0]}"
    if indices[-1] - indices[0] + 1 == len(indices):
        return f"{noun}s {indices[0]} to {indices[-1]}"
    return f"{len(indices)} of {size} {noun}s (the first is {indices[0]})"


def describe_case(case: Case) -> str:
    """A case's sizes and purpose for a report: "M=33 N=80 K=208: M, N and K that all end inside a tile".

    Of a hidden case its purpose only.
    """
    return case.about if case.hidden else f"M={case.M} N={case.N} K={case.K}: {case.about}"
