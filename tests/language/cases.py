"""What a small kernel is: its text, its arguments, what of the language it covers, and how near its results must come.

An entry of `whole` in tests/language/*.toml has its body as it is. One of `elementwise` stores an expression of x, y, z, which are loaded
as what it is `of`; `out` is the type of the result, the first's unless it is said. Arguments are written as `fp32[64]`: a type, a shape,
and how they are filled:
    fp32[64]      normal numbers          fp32[64]e     with NaN, infinities, zeros, limits, halves
    i32[64]       the type's whole range  i32[64]<10    0 .. 9               i32[64]=   0, 1, 2 ...
An argument named `out...` arrives zeroed (or with `start`) and is compared; a number is passed as it is.
"""

from __future__ import annotations

import re
import tomllib
import zlib
from ast import literal_eval
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

NUMPY = {
    "fp16": "f2", "fp32": "f4", "fp64": "f8", "bf16": "u2", "fp8e5": "u1", "fp8e4nv": "u1", "i1": "?", "i8": "i1", "u8": "u1",
    "i16": "i2", "u16": "u2", "i32": "i4", "u32": "u4", "i64": "i8", "u64": "u8",
}
TORCH = {
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "fp8e5": "float8_e5m2",
    "fp8e4nv": "float8_e4m3fn", "i1": "bool", "i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32",
    "u32": "uint32", "i64": "int64", "u64": "uint64",
}
KIND = re.compile(r"fp8e5|fp8e4nv|fp\d+|bf16|[iu]\d+")
SPEC = re.compile(r"(\w+)\[([\d,]+)\](e|=|<\d+)?$")
HEADER = """import triton
import triton.language as tl
from triton.language.extra import libdevice


"""


@dataclass(frozen=True)
class Case:
    """One kernel.

    covers: names as in "tl.exp tensor.exp". ulp: how many units in the last place the results may differ; 0 means bit for
    bit. near: an absolute distance allowed besides. unordered: compared after sorting. refused: the sentence with which the
    interpreter must say that it cannot run this. why: why the results may differ. capability, since, until: the first GPU
    and the Tritons that compile it. differs: the sentence for a result on which nothing may depend, since the compiler's is not
    what the language says. helpers: jit functions that stand before the kernel, once in a file. constants: as Python writes them.
    """

    name: str
    body: str
    covers: str
    arguments: dict[str, Any]
    ulp: int = 0
    near: float = 0.0
    unordered: bool = False
    refused: str = ""
    helpers: str = ""
    grid: tuple[int, ...] = (1,)
    why: str = ""
    capability: int = 80
    since: str = "3.6"
    until: str = "99.0"
    differs: str = ""
    constants: dict[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The kernel as text."""
        names = [*self.arguments, *(f"{name}: tl.constexpr" for name in self.constants)]
        body = "\n".join("    " + line if line else "" for line in self.body.strip("\n").split("\n"))
        before = self.helpers.strip("\n") + "\n\n\n" if self.helpers else ""
        return f"{before}@triton.jit\ndef {self.name}({', '.join(names)}):\n{body}\n"


@cache
def cases() -> dict[str, Case]:
    """Every kernel of the table that this Triton compiles, by its name."""
    installed = _release(version("triton"))
    return {name: case for name, case in all_cases().items() if _release(case.since) <= installed <= _release(case.until)}


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("+")[0].split(".")[:2])


@cache
def all_cases() -> dict[str, Case]:
    """Every kernel of tests/language/*.toml, by its name."""
    found: dict[str, Case] = {}
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for entry in (*map(_elementwise, data.get("elementwise", ())), *data["whole"]):
            assert entry["name"] not in found, entry["name"]
            helpers = data["helpers"] if entry.pop("helpers", False) else ""
            constants = {name: literal_eval(text) for name, text in entry.pop("constants", {}).items()}
            grid = tuple(entry.pop("grid", (1,)))
            found[entry["name"]] = Case(**entry, helpers=helpers, constants=constants, grid=grid)
    return found


def _elementwise(entry: dict[str, Any]) -> dict[str, Any]:
    """The whole kernel that stores an expression of x, y, z."""
    lines, arguments = ["i = tl.arange(0, 64)"], {}
    kinds = [KIND.match(kind) for kind in entry["of"]]
    for variable, kind in zip("xyz", kinds, strict=False):
        assert kind is not None
        arguments[f"{variable}_ptr"] = f"{kind[0]}[64]{kind.string[kind.end() :]}"
        lines.append(f"{variable} = tl.load({variable}_ptr + i)")
    arguments["out"] = f"{entry.get('out', kinds[0][0])}[64]"  # type: ignore[index]
    lines.append(f"tl.store(out + i, {entry['stores']})")
    rest = {key: value for key, value in entry.items() if key not in ("of", "out", "stores")}
    return {**rest, "arguments": arguments, "body": "\n".join(lines)}


def module(cases: list[Case]) -> str:
    """All kernels as the text of one module."""
    return HEADER + "\n\n".join(case.source for case in cases)


def arrays(case: Case) -> dict[str, np.ndarray | int]:
    """The arguments, the same each time: arrays in NumPy's form (bits for bfloat16 and fp8) and numbers."""
    made: dict[str, np.ndarray | int] = {}
    for name, spec in case.arguments.items():
        found = SPEC.match(spec) if isinstance(spec, str) else None
        if found is None:
            made[name] = spec
            continue
        kind, sizes, how = found.groups()
        shape = tuple(int(size) for size in sizes.split(","))
        seed = np.random.default_rng(zlib.crc32(f"{case.name}/{name}".encode()))
        made[name] = np.zeros(shape, NUMPY[kind]) if name.startswith("out") else _filled(seed, kind, shape, how or "")
    return made


def _filled(random: np.random.Generator, kind: str, shape: tuple[int, ...], how: str) -> np.ndarray:
    dtype, count = np.dtype(NUMPY[kind]), int(np.prod(shape))
    if how == "=":
        return np.arange(count).astype(dtype).reshape(shape)
    if how.startswith("<"):
        return random.integers(0, int(how[1:]), count).astype(dtype).reshape(shape)
    if kind == "i1":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    if kind[0] in "iu":
        limits = np.iinfo(dtype)
        values = random.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
        if how == "e":
            values[:6] = [limits.min, limits.max, 0, 1, limits.max - 1, limits.min + 1]
        return values.reshape(shape)
    if kind.startswith("fp8"):
        values = random.integers(0, 256, count).astype(np.uint8)
        return values.reshape(shape)
    values = (random.standard_normal(count) * 3).astype(np.float32)
    if how == "e":
        edges = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, -0.5, 1.5, 2.5, -1.5, 127.5, -128.5, 128.0, 200.0, 255.7, 256.3, 300.0,
                 -300.0, 32767.6, -32769.0, 65535.9, 70000.0, -1e9, 3e9, -3e9, 5e9, 1e20, -1e20, 1e-8, 6e-8, 1e-40, 0.1]
        values[: len(edges)] = np.array(edges, np.float32)[: len(values)]
    if kind == "bf16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).reshape(shape)
    with np.errstate(all="ignore"):
        return values.astype(dtype).reshape(shape)


def kind_of(case: Case, name: str) -> str:
    """The Triton type of an argument's elements."""
    return str(case.arguments[name]).partition("[")[0]
