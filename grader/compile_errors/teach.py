"""From a sandbox's error to the paragraph that a student reads."""

from __future__ import annotations

import ast
import difflib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator

from grader.compile_errors.configs import config_node, grid_return, heuristic_node, part_of_config
from grader.compile_errors.excerpt import paragraph
from grader.compile_errors.fault import Fault
from grader.compile_errors.lessons import LESSONS, Lesson
from grader.compile_errors.names import suggest
from grader.compile_errors.setting import Setting, plain_types, shortened, unparsed
from grader.compile_errors.special import SPECIAL
from grader.compile_errors.told import Told
from grader.labs import all_labs
from grader.model import KernelSource

MAX_TYPES = 3
SILENT = ("module", "function", "JITFunction", "tuple", "type", "builtin_function_or_method", "None")


EXAMPLES = {
    "tl.arange": "write tl.arange(0, SIZE)",
    "tl.zeros": "write tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32), or tl.int32 for a sum of int8 products",
    "tl.full": "write tl.full((BLOCK_M, BLOCK_N), value, dtype=tl.float32)",
    "tl.store": "the value comes after the pointers: tl.store(ptrs, value, mask=...)",
    "tl.load": "write tl.load(ptrs, mask=..., other=0.0)",
    "tl.dot": "write tl.dot(a, b) with tiles [M, K] and [K, N]",
    "tl.where": "write tl.where(condition, a, b)",
    "tl.program_id": "write tl.program_id(0), or (1) for the second dimension of the grid",
    "tl.cdiv": "write tl.cdiv(size, BLOCK)",
    "tl.sum": "write tl.sum(x, axis=1)",
    "tl.maximum": "write tl.maximum(a, b), or tl.max(x, axis=1) to reduce one tile",
    "tl.minimum": "write tl.minimum(a, b), or tl.min(x, axis=1) to reduce one tile",
    "triton.autotune": 'add key=["M", "N", "K"]',
    "tl.atomic_add": "write tl.atomic_add(ptrs, value, mask=...)",
}


def teach(fault: Fault, source: KernelSource) -> str:
    """Place, line and caret, what was found and expected, and a next step: at most six lines."""
    setting = Setting(fault, source)
    told = next((answer for special in SPECIAL if (answer := special(setting))), None)
    return _written(told or _from_table(setting) or _unknown(setting))


def teach_config(source: KernelSource, index: int, sentence: str) -> str:
    """A sentence about config number `index`, at the place where the text makes it; "found, expected; next step"."""
    setting = Setting(Fault("", sentence), source)
    node = config_node(setting.tree, source.kernel, index)
    cause, step = _parts(sentence)
    unknown = re.search(r"`(\w+)`, which is no parameter", cause)
    if unknown and (near := suggest(unknown[1], re.findall(r"\w+", cause.partition("whose own are")[2]))):
        step = f"did you mean `{near}`? If not, {step}"
    at = setting.at(part_of_config(node, sentence) if node else None)
    return _written(Told(at, cause, step or "correct this config", quiet=True))


def teach_launch(
    source: KernelSource, grid: str, index: int, sentence: str, keys: Collection[str], scalars: Collection[str], line: int | None = None
) -> str:
    """Why config number `index` cannot be launched, where the text says so: in a heuristic, the grid or the config.

    keys: what the config sets; scalars: the lab's parameters that are numbers; line: where the grid raised.
    """
    if computed := re.match(r"the heuristic for `(\w+)` raised", sentence):
        return _teach_heuristic(source, computed[1], sentence, (*scalars, *keys))
    return teach_grid(source, grid, sentence, keys, line) if source.grid else teach_config(source, index, sentence)


def _teach_heuristic(source: KernelSource, name: str, sentence: str, keys: Collection[str]) -> str:
    setting = Setting(Fault("", sentence), source)
    node = heuristic_node(setting.tree, source.kernel, name)
    cause, step = sentence, "correct the function that computes it"
    if key := re.search(r"KeyError: '(\w+)'", sentence):
        near = suggest(key[1], keys)
        cause = f"the heuristic for `{name}` asks for '{key[1]}', and its argument holds {', '.join(keys)}"
        step = f"did you mean '{near}'?" if near else "use one of these"
        parts = ast.walk(node) if node is not None else ()
        node = next((part for part in parts if isinstance(part, ast.Constant) and part.value == key[1]), node)
    return _written(Told(setting.at(node), cause, step, quiet=True))


def teach_grid(source: KernelSource, grid: str, sentence: str, keys: Collection[str] = (), line: int | None = None) -> str:
    """A sentence about what the grid returned or raised, at the place in it; `keys`: what `meta` holds; `line`: where it raised."""
    setting = Setting(Fault("", sentence), source)
    raised = [part for part in ast.walk(setting.tree) if isinstance(part, ast.stmt) and part.lineno == line]
    node = raised[-1] if raised else grid_return(setting.tree, grid)
    if node is None:
        return sentence
    cause, step = _parts(sentence)
    if key := re.search(r"KeyError: '(\w+)'", sentence):
        near = suggest(key[1], keys) or min(keys, key=lambda known: _steps(known, key[1]), default="BLOCK_M")
        cause, step = f"meta has no '{key[1]}': it holds {', '.join(keys)}", f'did you mean meta["{near}"]?'
        node = next(
            (part for part in ast.walk(setting.tree) if isinstance(part, ast.Constant) and part.value == key[1]), node
        )
    elif "Cannot call @triton.jit" in sentence:
        cause, step, node = _language_in_grid(setting.tree, grid, node)
    elif "returned" in sentence and isinstance(node, ast.FunctionDef):
        cause, step = f"{grid} has no return, expected a tuple of one to three ints", _returned(node)
    elif isinstance(node, ast.Return) and node.value is not None and re.search(r"returned -?\d", sentence):
        step = "put it into brackets with a comma, which make it a tuple: return (programs,)"
    elif "positional argument" in sentence:
        cause, step = f"{grid} is called with M, N, K and meta", f"write def {grid}(M, N, K, meta):"
        node = next(
            part
            for part in setting.tree.body
            if isinstance(part, ast.FunctionDef | ast.Assign) and grid in unparsed(part)
        )
    return _written(Told(setting.at(node), cause, step or "correct the grid", quiet=True))


def _language_in_grid(tree: ast.Module, grid: str, node: ast.AST) -> tuple[str, str, ast.AST]:
    """(cause, next step, place) for tl.cdiv in a grid, or a grid under @triton.jit."""
    made = next((part for part in tree.body if isinstance(part, ast.FunctionDef) and part.name == grid), None)
    if made is not None and made.decorator_list:
        return f"{grid} is a kernel's function, expected an ordinary one", f"delete @{unparsed(made.decorator_list[0])} above it", made
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and unparsed(part.func).startswith("tl.")]
    called = unparsed(calls[0].func) if calls else "tl.cdiv"
    step = "write triton.cdiv(a, b)" if called == "tl.cdiv" else "use numbers, arithmetic and triton.cdiv(a, b)"
    return f"{called} works in kernels only, and a grid is ordinary Python", step, calls[0] if calls else node


def _returned(function: ast.FunctionDef) -> str:
    """What a grid without a return may have meant: its last line, if that is an expression."""
    ends_with_value = isinstance(function.body[-1], ast.Expr)
    return "write return in front of its last line" if ends_with_value else "end it with return and the tuple"


def _parts(sentence: str) -> tuple[str, str]:
    """ "found; expected what: next" as what was found and expected, and what to do."""
    cause, _, step = sentence.partition("; ")
    if step.startswith("expected "):
        expected, _, step = step.partition(": ")
        cause = f"{cause}, {expected}"
    return cause, step


def _steps(known: str, name: str) -> float:
    return -difflib.SequenceMatcher(None, known, name).ratio()


def _from_table(setting: Setting) -> Told | None:
    fault = setting.fault
    message = f"{fault.kind}: {plain_types(fault.message)}"
    kind = type(setting.node).__name__
    for lesson in LESSONS:
        if lesson.node and kind not in lesson.node:
            continue
        if found := re.search(lesson.pattern, message):
            return Told(setting, *_filled(lesson, found, setting), quiet=lesson.node == ("For",))
    return None


def _filled(lesson: Lesson, found: re.Match[str], setting: Setting) -> tuple[str, str]:
    groups = {name.rstrip("_"): value for name, value in found.groupdict().items() if value is not None}
    words: dict[str, str] = defaultdict(str, {**setting.words(), **groups})
    words.update(_about(words, setting))
    return lesson.cause.format_map(words), lesson.next_step.format_map(words)


def _about(words: dict[str, str], setting: Setting) -> dict[str, str]:
    """The braces that are worked out from others."""
    operands = setting.operands()
    a, b = words["a"], words["b"]
    subscripted = setting.type_of(words["subscripted"])
    return {
        **_about_values(setting, words["at"]),
        **_about_comparison(setting.node),
        "operand": _operand(words, operands, setting),
        "conversion": _conversion(operands, setting),
        "lab_dtype": _lab_dtype(setting),
        "inner": _inner_size(operands, setting),
        "deeper": _deeper(words, setting),
        "example": EXAMPLES.get(words["call"], "add it to the call"),
        "whole": f"found {a}" if a == b else f"found {a} and {b}",
        "a_pointer": "a pointer" if subscripted.startswith("pointer") else "one number",
        "what_lower": words["what"].lower(),
        "assertion": f": {words['words']}" if words["words"] else "",
        "shapes": f"{a} and {b}",
    }


def _about_values(setting: Setting, at: str) -> dict[str, str]:
    """What the values at the fault say: one that is known at run time only, a tile that is no power of two.

    at: which element of a shape Triton refused, where it says so.
    """
    values = setting.fault.values
    shapes = [part for part in setting.operands() if isinstance(part, ast.Tuple | ast.List)]
    if at and len(shapes) == 1 and int(at) < len(shapes[0].elts):
        values = ((unparsed(shapes[0].elts[int(at)]), "scalar"),)
    runtime = next((text for text, kind in values if kind.startswith("scalar") or ("[" in kind and "const" not in kind)), None)
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
    kernel = next((part for part in setting.tree.body if isinstance(part, ast.FunctionDef) and part.name == setting.source.kernel), None)
    return frozenset(
        argument.arg for argument in (kernel.args.args if kernel else ())
        if argument.annotation is not None and "constexpr" in ast.unparse(argument.annotation)
    )  # fmt: skip


def _about_comparison(node: ast.AST | None) -> dict[str, str]:
    """Why a comparison compares twice: & and | among its parts, or a chain."""
    wide = isinstance(node, ast.Compare) and any(
        isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr) for part in [node.left, *node.comparators]
    )
    if wide:
        return {"comparison": "& and | bind more tightly than < and ==, so this compares twice at once",
                "comparison_next": "put each comparison into brackets: (a < M) & (b < N)"}  # fmt: skip
    return {"comparison": "a kernel cannot compare twice at once (a < b < c)", "comparison_next": "write (a < b) & (b < c)"}


def _operand(words: dict[str, str], operands: list[ast.expr], setting: Setting) -> str:
    """The operand on the side that Triton names, else the pointer that it is about."""
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


def _inner_size(operands: list[ast.expr], setting: Setting) -> str:
    """ "; this tile is 16 x 8 x 32 (M x K x N)", from the types of the operands of a product."""
    shapes = [re.search(r"\[(\d+), (\d+)\]$", setting.type_of(part)) for part in operands[:2]]
    if len(shapes) < 2 or not shapes[0] or not shapes[1]:
        return ""
    return f": here M = {shapes[0][1]}, K = {shapes[0][2]}, N = {shapes[1][2]}"


def _deeper(words: dict[str, str], setting: Setting) -> str:
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


def _conversion(operands: list[ast.expr], setting: Setting) -> str:
    if len(operands) < 2:
        return "x.to(...)"
    dtypes = [setting.type_of(part).split(" ")[0] for part in operands[:2]]
    want = _lab_dtype(setting)
    short = "int8" if want == "tl.int8" else "fp16"
    turned = [shortened(unparsed(part)) for part, dtype in zip(operands, dtypes, strict=False) if dtype != short]
    loaded = short == "int8" and len(turned) == 1 and ".to(" not in turned[0]  # as it was, so that it has to be quantised
    first = ", once it is divided by its scale, rounded and clamped" if loaded else ""
    return (" and ".join(f"{_bracketed(text)}.to({want})" for text in turned) or "x.to(...)") + first


def _bracketed(text: str) -> str:
    """`x.to(tl.int8)` is replaced, `a + b` is bracketed before a method is called on it."""
    text = re.sub(r"\.to\([^()]*\)$", "", text)
    return text if re.fullmatch(r"[\w.\[\], :()]+", text) else f"({text})"


def _unknown(setting: Setting) -> Told:
    fault = setting.fault
    words = plain_types(fault.message).split(" at 0x")[0]
    words = re.split(r"(?<=[.!?])\s", words)[0][:200]
    if not fault.scope:  # Python ran this line: configs, the grid, or the kernel on the interpreter
        said = f"{fault.kind}: {words}" if words and words != fault.kind else fault.kind
        return Told(setting, said, "correct this line: Python stops at it")
    said = f"Triton refuses this: {words}" if words else f"Triton stops here ({fault.kind})"
    step = (
        "compare the types above with what this operation takes"
        if fault.values
        else "simplify this line until it compiles"
    )
    return Told(setting, said, step)


def _written(told: Told) -> str:
    fault, source = told.setting.fault, told.setting.source
    lines = source.module.split("\n")
    text = lines[fault.line - 1] if fault.line and fault.line <= len(lines) else ""
    end = fault.end_column if fault.end_line in (fault.line, None) else len(text.encode())
    place = source.locate(fault.line) if fault.line else source.path.name
    caller = f"; called in {source.locate(fault.callers[-1])}" if fault.callers and not told.quiet else ""
    return paragraph(
        place, told.cause + caller, told.next_step,
        text=text, column=fault.column, end_column=end, found="" if told.quiet else _types(told.setting),
    )  # fmt: skip


def _types(setting: Setting) -> str:
    """What the operands are: "x is fp32 [16, 32]; w is int8 [32, 64]"."""
    chosen = {unparsed(part) for part in setting.operands()}
    values = sorted(setting.fault.values, key=lambda pair: pair[0] not in chosen)
    useful = [
        (text, kind) for text, kind in values
        if kind and re.search(r"[^\W\d]", text) and kind not in SILENT and not kind.startswith("dtype")
    ]  # fmt: skip
    known = [pair for pair in useful if pair[0] in chosen] or useful
    return "; ".join(f"{shortened(text)} is {kind}" for text, kind in known[:MAX_TYPES])
