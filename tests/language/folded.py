"""What do kernels without inputs store, compiled and interpreted? Compiled they need no GPU: LLVM has computed all of it.

    python -m tests.language.folded interpret|compile FILE

FILE gets, as JSON, the numbers that each kernel stores, in order; what cannot be computed before a launch, or has no value, is None.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from types import ModuleType

from tests.language.cases import HEADER
from tests.language.run import interpreted, load

START = "zero = tl.program_id(0) * 0\n"
"""A number that the compiler does not know before LLVM multiplies it."""

KERNELS = {
    "narrow_unsigned": "for b in range(zero.to(tl.uint8), zero.to(tl.uint8) + 200):\n    turns += 1",
    "narrow_and_wide": "for b in range(zero.to(tl.int64), zero.to(tl.uint32) + 4000000000, 1000000000):\n    turns += 1",
    "above_int32": "for b in range(0, 3000000000, 1000000000):\n    turns += 1",
    "between_two_above_int32": "for b in range(2147483650, 2147483660):\n    turns += 1",
    "across_the_sign": "for b in range(zero.to(tl.uint32) - 3, zero.to(tl.uint32) + 3):\n    turns += b.to(tl.int32)",
    "mixed_signs": "for b in range(zero - 5, zero.to(tl.uint32) + 5):\n    turns += b.to(tl.int32) * 7",
    "unsigned_64": "for b in range(zero.to(tl.uint64), zero.to(tl.uint64) - 1, 9223372036854775807):\n    turns += 1",
    "a_truth": "for b in range(zero == 0):\n    turns += 1",
    "backwards": "for b in range(zero + 5, -6, -2):\n    turns += b // 2 * 100 + 1",
    "backwards_above_int32": "for b in range(3000000000, 5, -1000000000):\n    turns += 1",
    "backwards_unsigned": "for b in range(zero.to(tl.uint32) + 3, zero.to(tl.uint32) - 3, -1):\n    turns += b.to(tl.int32) * 7 + 1",
    "a_step_below_zero_that_is_not_known": "step = zero - 2\nfor b in range(10, 0, step):\n    turns += 1",
}
UNDEFINED = {
    "a_shift_by_all_bits": "x << (zero + 32)",
    "a_shift_by_more": "(x + 1) >> ((x & 7) | 32)",
    "a_shift_of_bytes": "x.to(tl.int8) << ((x.to(tl.int8) & 7) | 8)",
    "a_shift_of_what_is_unsigned": "x.to(tl.uint64) >> (zero + 64).to(tl.uint64)",
    "a_shift_backwards": "x << (-1 - (x & 7))",
    "a_quotient": "x // (x & zero)",
    "a_remainder": "x % (x * 0)",
    "a_quotient_of_what_is_unsigned": "x.to(tl.uint32) // (x * 0).to(tl.uint32)",
    "a_float_too_large": "tl.full((), 3e9, tl.float32).to(tl.int32)",
    "one_of_two_floats": "tl.where(x > 0, 3e9, -5e9).to(tl.int32)",
    "a_float_below_zero": "tl.full((), -5.0, tl.float32).to(tl.uint32)",
    "no_number": "tl.full((), float('nan'), tl.float32).to(tl.int32)",
    "a_byte_too_large": "tl.full((), 300.0, tl.float32).to(tl.int8)",
}
"""What LLVM knows to have no value; x is a number that it does not know."""
LEFT_OVER = "tl.atomic_max(out.to(tl.pointer_type(tl.int32)), 0, mask=x < 0)"
"""What is left in shared memory, since no thread answers: 0 on an H200 that was asked."""


def _bodies() -> dict[str, str]:
    loops = {name: f"{START}turns = zero\n{body}\ntl.store(out, turns)" for name, body in KERNELS.items()}
    values = {**UNDEFINED, "left_over": LEFT_OVER}.items()
    return loops | {name: f"{START}x = tl.load(out).to(tl.int32)\ntl.store(out, {one})" for name, one in values}


def _module() -> ModuleType:
    text = HEADER
    for name, body in _bodies().items():
        text += f"@triton.jit\ndef {name}(out):\n" + "".join(f"    {line}\n" for line in body.split("\n")) + "\n\n"
    return load("folded_kernels", text)


def interpret() -> dict[str, list[int | None]]:
    """On the grader's corrected interpreter."""
    os.environ["TRITON_INTERPRET"] = "1"
    import torch

    from grader.interpreter import generated_module, language_shims
    from grader.interpreter.native_memory import poison

    generated_module.see_gpu(90)
    kernels, found = _module(), {}
    language_shims.install()
    for name in _bodies():
        out = torch.tensor([5])
        interpreted(getattr(kernels, name), (1,), {"out": out}, {})
        kinds = ("i1", "i4", "i8") if name not in KERNELS else ()
        found[name] = [None if one in [poison(kind) for kind in kinds] else one for one in out.tolist()]
    return found


def compile_all() -> dict[str, list[int | None]]:
    """Read from LLVM's text for an H200: the operands of its stores."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from grader.interpreter import generated_module

    generated_module.see_gpu(90)
    kernels, found = _module(), {}
    for name in _bodies():
        compiled = triton.compile(ASTSource(getattr(kernels, name), {"out": "*i64"}, {}), target=GPUTarget("cuda", 90, 32))
        stored = re.findall(r'asm sideeffect "[^"]*st\.global[^"]*", "[^"]*"\(i64 ([^,]*),', compiled.asm["llir"])
        known = [int(number) if re.fullmatch(r"-?\d+", number) else None for number in stored]
        found[name] = known if name in KERNELS else [None if one in ("poison", "undef") else one for one in stored]
    return found


if __name__ == "__main__":
    what, path = sys.argv[1:]
    Path(path).write_text(json.dumps(interpret() if what == "interpret" else compile_all()), encoding="utf-8")
