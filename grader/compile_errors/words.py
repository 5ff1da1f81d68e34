"""What fills the braces of a message and has to be worked out from others."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from grader.compile_errors.setting import Setting, shortened, sizes_of, unparsed
from grader.compile_errors.table import example
from grader.labs import all_labs
from grader.parsing import function_named


def about(words: Mapping[str, str], setting: Setting) -> dict[str, str]:
    """The braces that are worked out from `words`, those at the place and of the row's groups."""
    a, b = words["a"], words["b"]
    return {
        **_about_values(setting, words["at"]),
        **_about_comparison(setting.node),
        **{name: _one_number(words[name]) for name in ("before", "after") if words[name]},
        "operand": _operand(words, setting) if "operand" not in words else words["operand"],
        "conversion": _conversion(setting),
        "lab_dtype": _lab_dtype(setting),
        "inner": _inner_size(setting),
        "deeper": _deeper(words, setting),
        "example": example(words["call"]),
        "whole": f"found {a}" if a == b else f"found {a} and {b}",
        "a_pointer": "a pointer" if words["subscripted_type"].startswith("pointer") else "a scalar",
        "what_lower": words["what"].lower(),
        "assertion": f": {words['words']}" if words["words"] else "",
    }


def _one_number(kind: str) -> str:
    """A value that is no tile. An argument equal to 1 has its value here in place of a type."""
    if re.fullmatch(r"-?\d+|True|False", kind):
        return f"the constant {kind}"
    return kind if "[" in kind or kind.startswith("pointer") else f"a scalar ({kind.removeprefix('scalar ')})"


def _about_values(setting: Setting, at: str) -> dict[str, str]:
    """What the values at the fault say: one that is known at run time only, a tile that is no power of two.

    at: which element of a shape Triton refused, where it says so.
    """
    values = setting.fault.values
    shapes = [part for part in setting.operands() if isinstance(part, ast.Tuple | ast.List)]
    if at and len(shapes) == 1 and int(at) < len(shapes[0].elts):
        values = ((unparsed(shapes[0].elts[int(at)]), "scalar"),)
    runtime = next(
        (text for text, kind in values if kind.startswith("scalar") or ("[" in kind and "const" not in kind)), None
    )
    tile = next((kind for _, kind in values if kind.startswith("constexpr") and not _power_of_two(kind)), None)
    passed = [text for text, kind in values if kind.startswith("scalar") and text in _annotated_constexpr(setting)]
    said = f"; the lab passes `{passed[0]}` at run time, whatever its annotation says" if passed else ""
    return {
        "not_constexpr": said or ("" if runtime is None else f"; `{shortened(runtime)}` is known only at run time"),
        "passed": said,
        "tile_found": "" if tile is None else f", found {tile.removeprefix('constexpr ')}",
    }


def _annotated_constexpr(setting: Setting) -> frozenset[str]:
    """The kernel's parameters that are constexpr by how they are annotated."""
    kernel = function_named(setting.tree, setting.source.kernel)
    arguments = kernel.args.args if kernel else []
    return frozenset(argument.arg for argument in arguments if "constexpr" in unparsed(argument.annotation))


def _about_comparison(node: ast.AST | None) -> dict[str, str]:
    """Why a comparison compares twice: & and | among its parts, or a chain."""
    wide = isinstance(node, ast.Compare) and any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr)
        for part in [node.left, *node.comparators]
    )
    if wide:
        cause, step = "& and | bind more tightly than < and ==, so this is a chained comparison", "(a < M) & (b < N)"
        return {"comparison": cause, "comparison_next": f"put each comparison into brackets: {step}"}
    return {
        "comparison": "a kernel cannot chain comparisons (a < b < c)",
        "comparison_next": "write (a < b) & (b < c)",
    }


def _operand(words: Mapping[str, str], setting: Setting) -> str:
    """The operand on the side that Triton names, else the pointer that it is about."""
    operands = setting.operands()
    if words["side"]:
        side = operands[1] if words["side"] == "rhs" and len(operands) > 1 else operands[0] if operands else None
        return _bracketed(shortened(unparsed(side)))
    pointer = next((text for text, kind in setting.fault.values if kind.startswith("pointer")), "")
    return shortened(pointer) or words["left"] or "ptr + offs"


def _power_of_two(kind: str) -> bool:
    number = re.search(r"\b(\d+)\b", kind)
    return not number or (int(number[1]) & (int(number[1]) - 1)) == 0


def _lab_dtype(setting: Setting) -> str:
    lab = all_labs().get(setting.source.lab_id)
    return "tl.int8" if lab is not None and lab.operand == "int8" else "tl.float16"


def _inner_size(setting: Setting) -> str:
    """ ": here M = 16, K = 8, N = 32", from the types of the operands of a product."""
    left, right = (sizes_of(setting.words[name]) for name in ("left_type", "right_type"))
    return f": here M = {left[0]}, K = {left[1]}, N = {right[1]}" if len(left) == len(right) == 2 else ""


def _deeper(words: Mapping[str, str], setting: Setting) -> str:
    """How the tiles of a product become large enough: by the size in the configs that its summed axis is counted by."""
    if not words["k"]:
        return ""
    sizes = {unparsed(length) for length in _lengths(setting) if re.search(r"(\b|_|B)K\b", unparsed(length))}
    part = re.fullmatch(r"(\w+) // (\d+)", next(iter(sizes), ""))
    if len(sizes) == 1 and part:
        least = int(words["k"]) * int(part[2])
        return f"make {part[1]} at least {least} in the configs: the summed axis has {part[0]} elements (BLOCK_M and BLOCK_N at least 16)"
    return f"make BLOCK_K at least {words['k']} (BLOCK_M and BLOCK_N at least 16) in the configs"


def _lengths(setting: Setting) -> Iterator[ast.expr]:
    """What the ranges of the function around the fault count to."""
    for part in ast.walk(setting.function or setting.tree):
        if isinstance(part, ast.Call) and unparsed(part.func).endswith("arange") and len(part.args) > 1:
            yield part.args[1]


def _conversion(setting: Setting) -> str:
    operands = setting.operands()
    if len(operands) < 2:
        return "x.to(...)"
    dtypes = [setting.type_of(part).split(" ")[0] for part in operands[:2]]
    want = _lab_dtype(setting)
    short = "int8" if want == "tl.int8" else "fp16"
    converted = [shortened(unparsed(part)) for part, dtype in zip(operands, dtypes, strict=False) if dtype != short]
    # as it was loaded, so that it has to be quantised
    loaded = short == "int8" and len(converted) == 1 and ".to(" not in converted[0]
    first = ", once it is divided by its scale, rounded and clamped" if loaded else ""
    return (" and ".join(f"{_bracketed(text)}.to({want})" for text in converted) or "x.to(...)") + first


def _bracketed(text: str) -> str:
    """`x.to(tl.int8)` is replaced, `a + b` is bracketed before a method is called on it."""
    text = re.sub(r"\.to\([^()]*\)$", "", text)
    return text if re.fullmatch(r"[\w.\[\], :()]+", text) else f"({text})"
