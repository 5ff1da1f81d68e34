"""What the judge says of results whose fault is known: error over bound for every lab and case, wrong things and right.

A score above 1 fails. `python -m tests.margins` prints the table; `--write` puts it into docs/tolerance.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

from grader.judging.checking import compare
from grader.labs import Lab, all_labs, get_lab, offsets
from grader.labs.gptq.packing import levels
from grader.labs.inputs import quantise_rows, unpack_int4
from grader.labs.problems import generator_for, make_problem
from grader.labs.slices import most_slices
from grader.model import Case, Outcome, Problem

DOCUMENT = Path(__file__).parents[1] / "docs" / "tolerance.md"
BEGIN, END = "<!-- margins: begin -->", "<!-- margins: end -->"
STEPS = (16, 32, 64, 128)
SEED = 5

Rounding = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Operands:
    """Y = (left right^T) * rows * columns, each float64 and exact. left: [M, K], right: [N, K]; rows [M], columns [N]."""

    left: torch.Tensor
    right: torch.Tensor
    rows: torch.Tensor
    columns: torch.Tensor

    def finish(self, total: torch.Tensor) -> torch.Tensor:
        """Y fp16 [M, N] of a sum of products, scaled in fp32."""
        scaled = total.float() * self.rows.float()[:, None]
        return (scaled * self.columns.float()[None, :]).half()

    @property
    def has_scales(self) -> bool:
        """Whether the sum is scaled after it was made."""
        return bool((self.rows != 1).any() or (self.columns != 1).any())

    @property
    def scaled(self) -> Operands:
        """The same with the scales multiplied into the operands."""
        left, right = self.left * self.rows[:, None], self.right * self.columns[:, None]
        return Operands(left, right, torch.ones_like(self.rows), torch.ones_like(self.columns))


def operands(lab_id: str, problem: Problem) -> Operands:
    """What a right kernel of the lab multiplies."""
    t = {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in problem.tensors.items()}
    x = t["x_ptr"]
    ones = torch.ones(len(x), dtype=torch.float64)
    if lab_id == "w8a8":
        scale = t["input_scale_ptr"]
        left = torch.round(x / scale[:, None]).clamp(-128, 127)
        return Operands(left, t["qweight_ptr"].t().double(), scale, t["weight_scale_ptr"])
    if lab_id == "w4a16":
        return Operands(x, unpack_int4(t["qweight_ptr"]).t().double(), ones, t["scales_ptr"])
    if lab_id == "w8a16":
        return Operands(x, t["qweight_ptr"].t().double(), ones, t["scales_ptr"])
    reference = get_lab(lab_id).reference(problem, 1)
    assert reference.left is not None
    assert reference.right is not None
    return Operands(reference.left, reference.right, ones, torch.ones(len(reference.right), dtype=torch.float64))


@cache
def problem_of(lab_id: str, name: str, seed: int = SEED) -> Problem:
    """A case's inputs, made once."""
    lab = get_lab(lab_id)
    return make_problem(lab, lab.case(name), seed)


@dataclass(frozen=True, eq=False)
class Judge:
    """Scores results for one case under the tolerance of `slices` slices."""

    lab: Lab
    case: Case
    slices: int = 1
    seed: int = SEED

    @property
    def problem(self) -> Problem:
        return problem_of(self.lab.id, self.case.name, self.seed)

    def scorer(self) -> Callable[[torch.Tensor], float]:
        """Error over bound, the larger of the elementwise and the Frobenius one; above 1 fails."""
        reference = self.lab.reference(self.problem, self.slices)

        def score(y: torch.Tensor) -> float:
            finding = compare(y, reference)
            together = finding.frobenius / reference.frobenius if reference.frobenius else finding.frobenius
            value = max(finding.worst, together)
            value = math.inf if math.isnan(value) else value
            assert finding.ok == (value <= 1)
            return value

        return score


def permitted_slices(lab: Lab, case: Case) -> list[int]:
    """Every number of slices that widens the tolerance of a case."""
    return list(range(1, (most_slices(case.K) if lab.split_k else 1) + 1))


# ---------------------------------------------------------------- wrong things


def zeros(judge: Judge) -> Iterator[torch.Tensor]:
    """Zeros."""
    yield torch.zeros(judge.case.M, judge.case.N, dtype=torch.float16)


def other(judge: Judge) -> Iterator[torch.Tensor]:
    """Y of the same case with another seed."""
    there = problem_of(judge.lab.id, judge.case.name, SEED + 1)
    yield judge.lab.reference(there, 1).y.half()


def slice_left_out(judge: Judge) -> Iterator[torch.Tensor]:
    """Each one of 64 slices of K left out (DDS: each block of a row)."""
    parts = operands(judge.lab.id, judge.problem)
    total = parts.left @ parts.right.t()
    if "crow_indices_ptr" in judge.problem.tensors:
        for row, block in _blocks(judge.problem):
            left_out = total.clone()
            ks, ns = slice(32 * block, 32 * block + 32), slice(32 * row, 32 * row + 32)
            left_out[:, ns] -= parts.left[:, ks] @ parts.right[ns, ks].t()
            yield parts.finish(left_out)
        return
    edges = [round(i * judge.case.K / 64) for i in range(65)]
    for start, stop in itertools.pairwise(edges):
        if stop > start:
            yield parts.finish(total - parts.left[:, start:stop] @ parts.right[:, start:stop].t())


def _blocks(problem: Problem) -> list[tuple[int, int]]:
    """(block row, block column) of at most forty present blocks, spread over all."""
    crow, cols = problem.tensors["crow_indices_ptr"], problem.tensors["col_indices_ptr"].tolist()
    rows = torch.repeat_interleave(torch.arange(len(crow) - 1), crow.diff().long()).tolist()
    found = list(zip(rows, cols, strict=True))
    return found[:: max(1, len(found) // 40)]


STEPS_THAT_SHOW = {"gptq": 3}
"""Where a sum in fp16 shows from so many steps on: weights of gptq may be rounded three times, which moves Y as much as the only
rounding of a sum of two steps."""


def fp16_accumulator(judge: Judge, steps: tuple[int, ...] = STEPS) -> Iterator[torch.Tensor]:
    """Partial sums kept in fp16: steps of 16 to 128, either direction, the step's product in fp32 or fp16, scales after or before.

    A kernel whose only step holds all that a row sums rounds once, and is right.
    """
    parts = operands(judge.lab.id, judge.problem)
    variants = [parts, parts.scaled] if parts.has_scales else [parts]
    for part in variants:
        for step in steps:
            partial = torch.stack([
                part.left[:, k : k + step] @ part.right[:, k : k + step].t() for k in range(0, judge.case.K, step)
            ])
            if int((partial != 0).sum(dim=0).max()) < STEPS_THAT_SHOW.get(judge.lab.id, 2):
                continue
            for order in (partial, partial.flip(0)):
                for rounded in (False, True):
                    total = torch.zeros_like(partial[0]).half()
                    for one in order.half() if rounded else order:
                        total = (total.double() + one.double()).half()
                    yield part.finish(total)


def converted_before_scaling(judge: Judge) -> Iterator[torch.Tensor]:
    """The sum made fp16 before it is scaled."""
    parts = operands(judge.lab.id, judge.problem)
    if parts.has_scales:
        yield parts.finish((parts.left @ parts.right.t()).half())


def e4m3(t: torch.Tensor) -> torch.Tensor:
    """Through fp8, four bits of exponent; saturating."""
    return t.float().clamp(-448, 448).to(torch.float8_e4m3fn).double()


def e5m2(t: torch.Tensor) -> torch.Tensor:
    """Through fp8, five bits of exponent; saturating."""
    return t.float().clamp(-57344, 57344).to(torch.float8_e5m2).double()


def bf16(t: torch.Tensor) -> torch.Tensor:
    """Through bfloat16."""
    return t.to(torch.bfloat16).double()


def integers(largest: int) -> Rounding:
    """Through symmetric integers, one scale a row."""

    def rounded(t: torch.Tensor) -> torch.Tensor:
        q, scale = quantise_rows(t, largest)
        return q.double() * scale.double()[:, None]

    return rounded


def lowered(lab_id: str, problem: Problem, what: str, rounding: Rounding) -> torch.Tensor:
    """Y, otherwise exact, of operands that went through a lower precision. what: "x", "w", "scale" or "x scale"."""
    if what in ("x", "x scale"):
        name = "x_ptr" if what == "x" else "input_scale_ptr"
        tensor = problem.tensors[name]
        changed = rounding(tensor.double()).to(tensor.dtype)
        if what == "x scale":
            changed = torch.where(changed == 0, torch.finfo(torch.float32).tiny, changed)
        parts = operands(lab_id, Problem({**problem.tensors, name: changed}, problem.scalars))
    else:
        parts = operands(lab_id, problem)
        if what == "w":
            whole = parts.scaled
            parts = Operands(whole.left, rounding(whole.right), whole.rows, whole.columns)
        else:
            parts = Operands(parts.left, parts.right, parts.rows, rounding(parts.columns))
    return parts.finish(parts.left @ parts.right.t())


Formats = dict[str, tuple[str, Rounding]]

LOWER: dict[str, Formats] = {
    "w8a8": {
        "x fp8": ("x", e4m3), "x e5m2": ("x", e5m2),
        "w int4": ("w", integers(7)), "w fp8": ("w", e4m3), "w e5m2": ("w", e5m2),
        "scale fp8": ("scale", e4m3), "x scale fp8": ("x scale", e4m3),
    },
    "w4a16": {
        "x fp8": ("x", e4m3), "x e5m2": ("x", e5m2), "x int8": ("x", integers(127)),
        "w fp8": ("w", e4m3), "w e5m2": ("w", e5m2),
        "scale fp8": ("scale", e4m3), "scale e5m2": ("scale", e5m2),
    },
    "w8a16": {
        "x fp8": ("x", e4m3), "x e5m2": ("x", e5m2), "x int8": ("x", integers(127)),
        "w int4": ("w", integers(7)), "w fp8": ("w", e4m3), "w e5m2": ("w", e5m2),
        "scale fp8": ("scale", e4m3), "scale e5m2": ("scale", e5m2),
    },
    "dds": {
        "x fp8": ("x", e4m3), "x e5m2": ("x", e5m2), "x int8": ("x", integers(127)),
        "w fp8": ("w", e4m3), "w e5m2": ("w", e5m2), "w int8": ("w", integers(127)),
    },
}
LOWER["gptq"] = LOWER["dds"]
"""fp8 and integers: caught under every tolerance."""


def lower_formats(lab: Lab) -> Formats:
    """What is lower than the lab's own operands: fp8 always, int8 where an operand is no integer already."""
    if lab.id in LOWER:
        return LOWER[lab.id]
    stored_as_integers = any(parameter.type in ("*i8", "*i32") for parameter in lab.parameters)
    exact = {"x int8": lab.operand == "int8", "w int8": stored_as_integers}
    return {name: how for name, how in LOWER["dds"].items() if not exact.get(name)}


BF16: dict[str, Formats] = {
    "w8a8": {"x bf16": ("x", bf16), "scale bf16": ("scale", bf16), "x scale bf16": ("x scale", bf16)},
    "w4a16": {"x bf16": ("x", bf16), "w bf16": ("w", bf16), "scale bf16": ("scale", bf16)},
    "w8a16": {"x bf16": ("x", bf16), "w bf16": ("w", bf16), "scale bf16": ("scale", bf16)},
    "dds": {"x bf16": ("x", bf16), "w bf16": ("w", bf16)},
}
"""bf16 has three bits less than fp16: caught wherever Y is rounded to fp16 once."""


def lower_precision(judge: Judge) -> Iterator[torch.Tensor]:
    """An operand through fp8 or integers."""
    for what, rounding in lower_formats(judge.lab).values():
        yield lowered(judge.lab.id, judge.problem, what, rounding)


def bf16_operand(judge: Judge) -> Iterator[torch.Tensor]:
    """An operand through bf16."""
    for what, rounding in BF16.get(judge.lab.id, BF16["dds"]).values():
        yield lowered(judge.lab.id, judge.problem, what, rounding)


ALWAYS_WRONG = {"zeros": zeros, "other Y": other, "slice out": slice_left_out, "fp8, int4": lower_precision}
"""What fails under every tolerance that a config can have."""
WRONG_ONCE_ROUNDED = {
    "fp16 sum": fp16_accumulator, "bf16": bf16_operand, "fp16 before scale": converted_before_scaling,
}
"""What fails where Y is rounded once, which is everywhere without split-K."""


# ---------------------------------------------------------------- right things


def fp32_sums(judge: Judge) -> Iterator[torch.Tensor]:
    """Sums in fp32: one by one, backwards, shuffled, large ones first, pairwise, in blocks, and on tensor cores that truncate."""
    parts = operands(judge.lab.id, judge.problem)
    left, right = parts.left.float(), parts.right.float()
    K = judge.case.K
    shuffled = torch.randperm(K, generator=generator_for(SEED, "order"))
    largest = left.abs().amax(dim=0).argsort(descending=True)
    columns, rows = left.t().contiguous()[:, :, None], right.t().contiguous()[:, None, :]
    total, product = torch.zeros(2, len(left), len(right))
    for order in (torch.arange(K), torch.arange(K).flip(0), shuffled, largest):
        total.zero_()
        for k in order.tolist():
            total += torch.mul(columns[k], rows[k], out=product)
        yield parts.finish(total)
    for step in (1, 16, 128):
        level = [left[:, k : k + step] @ right[:, k : k + step].t() for k in range(0, K, step)] if step > 1 else []
        if step == 1:
            yield parts.finish(_pairwise(columns, rows, 0, K))
            continue
        yield parts.finish(torch.stack(level).cumsum(dim=0)[-1])
    for extra_bits in (0, 2):
        yield parts.finish(_truncating(parts, K, extra_bits))


def _pairwise(columns: torch.Tensor, rows: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    if stop - start == 1:
        return columns[start] * rows[start]
    middle = (start + stop) // 2
    return _pairwise(columns, rows, start, middle).add_(_pairwise(columns, rows, middle, stop))


def _truncating(parts: Operands, K: int, extra_bits: int) -> torch.Tensor:
    """Eight products and the accumulator aligned to the largest of them, cut to 24 bits and some, added, cut to 24."""
    columns, rows = parts.left.t().contiguous()[:, :, None], parts.right.t().contiguous()[:, None, :]
    addends = torch.zeros(9, len(parts.left), len(parts.right), dtype=torch.float64)  # the accumulator is the first
    for k in range(0, K, 8):
        count = min(8, K - k)
        torch.mul(columns[k : k + count], rows[k : k + count], out=addends[1 : count + 1])
        some = addends[: count + 1]
        total = _cut(some, torch.maximum(some.amax(dim=0), -some.amin(dim=0)), 24 + extra_bits).sum(dim=0)
        addends[0] = _cut(total, total, 24)
    return addends[0].clone()


def _cut(values: torch.Tensor, largest: torch.Tensor, bits: int) -> torch.Tensor:
    """Values truncated, in place, to multiples of the last of `bits` bits of `largest`."""
    power = (largest.view(torch.int64) & 0x7FF << 52).view(torch.float64).clamp_(min=2.0**-900)  # its largest power of two
    unit = power * 2.0 ** (1 - bits)
    return values.mul_(1 / unit).trunc_().mul_(unit)


def other_roundings(judge: Judge) -> Iterator[torch.Tensor]:
    """What a lab permits: ties either way and a reciprocal (w8a8), weights dequantised to fp16 or TF32 (the others but dds)."""
    parts = operands(judge.lab.id, judge.problem)
    if judge.lab.id == "w8a8":
        x, scale = judge.problem.tensors["x_ptr"].float(), judge.problem.tensors["input_scale_ptr"][:, None]
        for ratio in (x / scale, x * (1 / scale)):
            away = torch.copysign(torch.floor(ratio.abs() + 0.5), ratio)
            for rounded in (torch.round(ratio), torch.floor(ratio + 0.5), away):
                left = rounded.clamp(-128, 127).double()
                yield parts.finish(left @ parts.right.t())
        yield ((parts.left @ parts.right.t()).float() * (parts.rows[:, None] * parts.columns).float()).half()
    if judge.lab.id == "gptq":
        q, zeros, scales = (part.t() for part in levels(judge.problem))
        half_q, half_zero = (q * scales).half().double(), (zeros * scales).half().double()
        for w in (half_q - half_zero, half_q - zeros * scales, q * scales - half_zero):
            for rounded in (w, w.half().double()):
                yield (parts.left @ rounded.t()).float().half()
    if judge.lab.id in ("w4a16", "w8a16", "gptq"):
        w = parts.scaled.right
        cut = (w.float().view(torch.int32) & ~0x1FFF).view(torch.float32).double()
        for rounded in (w.half().double(), cut):
            yield (parts.left @ rounded.t()).float().half()


RIGHT = {"fp32 sums": fp32_sums, "permitted": other_roundings}


def atomics(judge: Judge, slices: int, orders: int, *, together: bool) -> Iterator[torch.Tensor]:
    """fp16 atomics of `slices` slices, contiguous or interleaved, in random orders: one a launch, or one an element."""
    parts = operands(judge.lab.id, judge.problem)
    K = judge.case.K
    generator = generator_for(judge.seed, judge.case.name, slices, together)
    edges = [round(i * K / slices) for i in range(slices + 1)]
    contiguous = [torch.arange(start, stop) for start, stop in itertools.pairwise(edges)]
    interleaved = [
        torch.cat([torch.arange(k, min(k + 16, K)) for k in range(16 * i, K, 16 * slices)]) for i in range(slices)
    ]
    kinds = [
        torch.stack([parts.finish(parts.left[:, ks] @ parts.right[:, ks].t()) for ks in kind])
        for kind in (contiguous, interleaved)
    ]
    for number in range(orders):
        partial = kinds[number % 2]
        if together:
            partial = partial[torch.randperm(slices, generator=generator)]
        else:
            partial = partial.gather(0, torch.rand(partial.shape, generator=generator).argsort(dim=0))
        total = partial[0]
        for one in partial[1:]:
            total = total + one
        yield total


# ---------------------------------------------------------------- what slices add


@dataclass(frozen=True)
class Slice:
    """What one program of each tile adds to Y: fp16 [M, N], and when it loaded each k first, int [K]; 0 for never."""

    value: torch.Tensor
    ranks: torch.Tensor


def partitions(K: int, slices: int) -> Iterator[list[torch.Tensor]]:
    """Ways to give each k to one of so many slices, as bool [slices, K]: contiguous, every so many steps of 16, steps by chance."""
    step = torch.arange(K) // 16
    by_chance = torch.randint(slices, (int(step[-1]) + 1,), generator=generator_for(SEED, "partition", K, slices))
    for owner in (step * slices // (step[-1] + 1), step % slices, by_chance[step]):
        yield [owner == number for number in range(slices)]


def honest_slices(judge: Judge, masks: Sequence[torch.Tensor]) -> list[Slice]:
    """Each the products of its own k, summed exactly and rounded once."""
    parts = operands(judge.lab.id, judge.problem)
    return [Slice(parts.finish(parts.left[:, mask] @ parts.right[:, mask].t()), mask.long()) for mask in masks]


def bought(judge: Judge, y: torch.Tensor, slices: int) -> Iterator[tuple[str, list[Slice]]]:
    """Y, summed in fp16 by one program, with slices that are to widen the tolerance, so many together."""
    K, ks = judge.case.K, torch.arange(judge.case.K)
    whole, nothing = torch.ones(K, dtype=torch.long), torch.zeros(K, dtype=torch.long)
    parts = operands(judge.lab.id, judge.problem)
    signs = 1 - 2 * (torch.arange(y.numel()).view(y.shape) % 2).half()
    ways = {
        "crumbs": (torch.full_like(y, 6e-8), nothing), "thousandths": ((y.float() * 1e-3).half(), whole),
        "as large": (y * signs, nothing),
    }
    for name, (way, ranks) in ways.items():
        yield name, [Slice(y, whole), *(Slice(way if number % 2 else -way, ranks) for number in range(1, slices // 2 * 2 - 1))]
    yield "shares of one sum", [Slice((y.float() / slices).half(), whole)] * slices
    few = [ks // 16 == number for number in range(slices - 1)]
    some = honest_slices(judge, few)
    rest = sum((parts.finish(parts.left[:, mask] @ parts.right[:, mask].t()).float() for mask in few), torch.zeros_like(y.float()))
    yield "a tile each", [Slice((y.float() - rest).half(), (~torch.stack(few).any(dim=0)).long()), *some]


def followed(judge: Judge, slices: Sequence[Slice]) -> Outcome:
    """A launch that added these, one after the other, as the interpreter reports it; where a slice is 0 it added nothing."""
    count, (M, N) = len(slices), slices[0].value.shape
    y = torch.zeros(M, N, dtype=torch.float16)
    for one in slices:
        y = y + one.value
    ranks = torch.stack([one.ranks for one in slices]).numpy().astype(np.uint16)
    slice_of = np.repeat(np.arange(count, dtype=np.int32), M * N)
    place = np.tile(np.arange(M * N, dtype=np.int32), count)
    values = torch.stack([one.value for one in slices]).numpy().reshape(-1)
    some = values != 0
    sizes = np.array([count, some.sum(), judge.case.K], dtype=np.int64)
    record = b"".join(array.tobytes() for array in (sizes, ranks, slice_of[some], place[some], values[some]))
    return Outcome(judge.case.name, 0, "ran", y=y, additions=count, contributions=record)


def rounded_additions(slices: Sequence[Slice], claimed: int) -> float | None:
    """What a GPU's second launch tells of launches that add these (labs/offsets.py)."""
    y = torch.zeros_like(slices[0].value)
    for one in slices:
        y = y + one.value
    again = offsets.start(y, claimed)
    for one in reversed(slices):
        again = again + one.value
    return offsets.additions(y, again, claimed)


@cache
def measured(lab_id: str, name: str) -> dict[str, float]:
    """One case's row of the table: the lowest score of each wrong thing, the highest of each right one.

    What fails under every tolerance is scored under the widest, the rest under that of one slice.
    """
    lab = get_lab(lab_id)
    case = lab.case(name)
    wide, narrow = Judge(lab, case, permitted_slices(lab, case)[-1]), Judge(lab, case)
    score_wide, score = wide.scorer(), narrow.scorer()
    found = {head: min(map(score_wide, wrong(wide))) for head, wrong in ALWAYS_WRONG.items()}
    for head, wrong in WRONG_ONCE_ROUNDED.items():
        found[head] = min(map(score, wrong(narrow)), default=math.nan)
    for head, right in RIGHT.items():
        found[head] = max(map(score, right(narrow)), default=math.nan)
    return found


def table(labs: Sequence[Lab]) -> str:
    """The margins of every case of these labs as Markdown."""
    lines = []
    heads = [*ALWAYS_WRONG, *WRONG_ONCE_ROUNDED, *RIGHT]
    for lab in labs:
        lines += [f"\n### {lab.id}\n", "| case | slices | " + " | ".join(heads) + " |", "|---" * (len(heads) + 2) + "|"]
        for case in lab.cases:
            if case.name in lab.blind:
                lines.append(f"| `{case.name}` | | {lab.blind[case.name]}" + " |" * len(heads))
                continue
            row = measured(lab.id, case.name)
            cells = ["" if math.isnan(row[head]) else f"{row[head]:.2g}" for head in heads]
            lines.append(f"| `{case.name}` | {permitted_slices(lab, case)[-1]} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the table, or writes it between its marks in docs/tolerance.md."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="write it into docs/tolerance.md")
    torch.set_num_threads(1)
    text = table(list(all_labs().values()))
    if not parser.parse_args().write:
        print(text)
        return
    document = DOCUMENT.read_text(encoding="utf-8")
    before, after = document[: document.index(BEGIN) + len(BEGIN)], document[document.index(END) :]
    DOCUMENT.write_text(f"{before}\n{text}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
