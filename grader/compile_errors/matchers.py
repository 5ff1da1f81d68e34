"""What a pattern cannot find: causes that stand in the kernel's text and not in the compiler's words.

Each function is named by rows of messages.toml. It takes the setting and the words so far, and answers with words for the
braces of the row and the place of the cause, or None where the error is another.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from grader.compile_errors import names, table
from grader.compile_errors.setting import Setting, jitted, shortened, targets, unparsed

Words = Mapping[str, str]


class Found:
    """Words for the braces of a row, and the place that it is about: None for the fault's own."""

    def __init__(self, at: ast.AST | None = None, /, **words: str) -> None:
        self.at = at
        self.words = words


def called(node: ast.AST | None) -> str:
    """The last name of what a call calls: "dot" of tl.dot(a, b); nothing for what is no call."""
    return unparsed(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""


def _parts(setting: Setting) -> Iterator[ast.AST]:
    return (part for function in jitted(setting.tree) for part in ast.walk(function))


# ---- names


def undefined_name(setting: Setting, words: Words) -> Found:
    name = words["name"]
    uses = [part for part in ast.walk(setting.node or setting.tree) if isinstance(part, ast.Name) and part.id == name]
    use = next((part for part in uses if isinstance(part.ctx, ast.Load)), None)
    at = setting.at(use)
    cause, step = names.undefined(name, setting.tree, at.function, at.fault.line, setting.fault.scope)
    return Found(use, cause=cause, next=step)


def constant(setting: Setting, words: Words) -> Found:
    made = _made(setting, words["name"])
    return Found(value=shortened(unparsed(made.value)) if made is not None else "...")


def annotated_constant(setting: Setting, words: Words) -> Found | None:
    return constant(setting, words) if isinstance(_made(setting, words["name"]), ast.AnnAssign) else None


def _made(setting: Setting, name: str) -> ast.Assign | ast.AnnAssign | None:
    made = (part for part in setting.tree.body if isinstance(part, ast.Assign | ast.AnnAssign))
    return next((part for part in made if any(isinstance(t, ast.Name) and t.id == name for t in targets(part))), None)


def missing_attribute(setting: Setting, words: Words) -> Found | None:
    """A function that triton.language lacks, or a method that a tensor lacks."""
    holder = _holder(setting, words["attribute"])
    if holder is None:
        return None
    owner = "tl" if words["module"].startswith("triton.language") else shortened(unparsed(holder.value))
    cause, step = names.attribute(owner, words["attribute"])
    return Found(holder, cause=cause, next=step)


def number_there(setting: Setting, words: Words) -> Found | None:
    """What a tensor has, asked of a number that is known while compiling."""
    holder = _holder(setting, words["attribute"])
    if holder is None or words["attribute"] not in names.tensor_names():
        return None
    owner = shortened(unparsed(holder.value))
    return Found(
        holder, owner=owner, step=f"tl.cast({owner}, dtype)" if words["attribute"] == "to" else f"just `{owner}`"
    )


def attribute_there(setting: Setting, words: Words) -> Found | None:
    holder = _holder(setting, words["attribute"])
    return None if holder is None else Found(holder, owner=shortened(unparsed(holder.value)))


def _holder(setting: Setting, attribute: str) -> ast.Attribute | None:
    parts = (part for part in ast.walk(setting.node or setting.tree) if isinstance(part, ast.Attribute))
    return next((part for part in parts if part.attr == attribute), None)


def own_parameter(setting: Setting, words: Words) -> Found | None:
    own = setting.function and any(argument.arg == words["name"] for argument in setting.function.args.args)
    return Found() if own else None


# ---- functions


def not_called(setting: Setting, words: Words) -> Found | None:
    """tl.program_id * BLOCK, tl.dot(x, helper): a function of triton.language or of the student's own among the operands."""
    if "'JITFunction' object" in setting.fault.message and isinstance(setting.node, ast.Call):
        own = {part.name for part in setting.tree.body if isinstance(part, ast.FunctionDef)}
        if name := next((part.id for part in setting.node.args if isinstance(part, ast.Name) and part.id in own), None):
            return Found(name=name, first="...")
    found = [unparsed(operand) for operand in setting.operands() if "<function" in setting.type_of(operand)]
    return (
        Found(name=found[0], first="0" if re.search("program_id|num_programs", found[0]) else "...") if found else None
    )


def returned_nothing(setting: Setting, words: Words) -> Found | None:
    """A helper without a `return`, whose result is used: the last call of one up to the place."""
    silent = {function.name: function for function in jitted(setting.tree) if not any(_returned(function))}
    calls = [part for part in ast.walk(setting.function or setting.tree) if called(part) in silent]
    before = [part for part in calls if part.lineno <= (setting.fault.line or 1 << 30)]  # type: ignore[attr-defined]
    if not before:
        return None
    call = max(before, key=lambda part: part.lineno)  # type: ignore[attr-defined]
    last = silent[called(call)].body[-1]
    named = isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name)
    return Found(call, name=called(call), result=unparsed(last.targets[0]) if named else "...")  # type: ignore[attr-defined]


def _returned(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """What a function returns."""
    return (part.value for part in ast.walk(function) if isinstance(part, ast.Return) and part.value is not None)


def recursion(setting: Setting, words: Words) -> Found | None:
    """A helper that calls itself; Triton stops at its name, which it has not finished, or deep inside it without a word."""
    function, fault = setting.function, setting.fault
    if function is None or called(setting.node) != function.name:
        return None
    silent = _inside(setting, function) and not fault.message
    return Found() if silent or re.search(r"KeyError|Recursion", fault.kind) else None


def recursion_after_return(setting: Setting, words: Words) -> Found | None:
    function = setting.function
    if function is None or not recursion(setting, words) or not _inside(setting, function):
        return None
    branches = [part for part in function.body if isinstance(part, ast.If) and not part.orelse]
    return Found() if any(isinstance(part.body[-1], ast.Return) for part in branches) else None


def _inside(setting: Setting, function: ast.FunctionDef) -> bool:
    return any(function.lineno <= line <= (function.end_lineno or 0) for line in setting.fault.callers)


def call_of(setting: Setting, words: Words) -> Found:
    """The first call of the function {name}, where Triton names no line."""
    return Found(next((part for part in _parts(setting) if called(part) == words["name"]), None))


# ---- syntax


def construct(setting: Setting, words: Words) -> Found:
    cause, step = table.construct(words["kind"])
    return Found(cause=cause, next=step)


def starred(setting: Setting, words: Words) -> Found | None:
    """An unpacking with *, at which Triton stops without words."""
    at = next((part for part in ast.walk(setting.node or ast.Pass()) if isinstance(part, ast.Starred)), None)
    return Found(at) if at is not None else None


def double_assignment(setting: Setting, words: Words) -> Found:
    return Found(
        next((part for part in _parts(setting) if isinstance(part, ast.Assign) and len(part.targets) > 1), None)
    )


def nearest_choice(setting: Setting, words: Words) -> Found | None:
    """The `a if condition else b` that is nearest to the line that Triton names."""
    choices = [part for part in _parts(setting) if isinstance(part, ast.IfExp)]
    node = min(choices, key=lambda part: abs(part.lineno - (setting.fault.line or part.lineno)), default=None)
    return Found(node) if node else None


def nested_unpacking(setting: Setting, words: Words) -> Found | None:
    """(a, b), (c, d) = f(), g(): Triton unpacks one level, and names no line."""
    for part in _parts(setting):
        left = part.targets[0] if isinstance(part, ast.Assign) else None
        if isinstance(left, ast.Tuple) and any(isinstance(target, ast.Tuple | ast.List) for target in left.elts):
            return Found(part)
    return None


def unequal_unpacking(setting: Setting, words: Words) -> Found | None:
    """a, b, c = helper(): more or fewer names than values."""
    node = setting.node
    if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Tuple):
        return None
    helper = next((part for part in jitted(setting.tree) if part.name == called(node.value)), None)
    values = list(_returned(helper)) if helper else [node.value]
    counts = [len(value.elts) for value in values if isinstance(value, ast.Tuple)]
    found = f"{counts[0]} value{'s' if counts[0] != 1 else ''}" if counts else "fewer values"
    return Found(names=str(len(node.targets[0].elts)), found=found, helper=called(node.value) or "the right side")


def block_pointer_in_while(setting: Setting, words: Words) -> Found:
    """A block pointer that a while loop carries, which Triton's passes cannot rewrite: where it is moved."""
    loops = [part for part in _parts(setting) if isinstance(part, ast.While)]
    moved = [part for loop in loops for part in ast.walk(loop) if called(part) == "advance"]
    return Found(next(iter([*moved, *loops]), None))


def while_condition(setting: Setting, words: Words) -> Found:
    loops = (
        part for part in ast.walk(setting.tree) if isinstance(part, ast.While) and part.lineno == setting.fault.line
    )
    test = next((loop.test for loop in loops), None)
    text = shortened(unparsed(test))
    return Found(test, tested=f": `{text}`" if text else "", name=text or "k")


def joined_numbers(setting: Setting, words: Words) -> Found | None:
    """`a and b` of numbers: Triton takes them for conditions (int1), which they are not."""
    node = setting.node
    if not isinstance(node, ast.BoolOp):
        return None
    word, sign = ("and", "&") if isinstance(node.op, ast.And) else ("or", "|")
    parts = [f"({unparsed(part)}{'' if isinstance(part, ast.Compare) else ' != 0'})" for part in node.values]
    return Found(word=word, sign=sign, compared=shortened(f" {sign} ".join(parts)))


# ---- configs and decorators


def config_keyword(setting: Setting, words: Words) -> Found:
    """triton.Config(num_warp=4) or triton.Config(BLOCK_M=64)."""
    keywords = (part for part in ast.walk(setting.node or setting.tree) if isinstance(part, ast.keyword))
    near = names.suggest(words["word"], ("num_warps", "num_stages", "maxnreg"))
    return Found(next((part for part in keywords if part.arg == words["word"]), None), near=near or "")


def no_config(setting: Setting, words: Words) -> Found:
    """configs=[{"BLOCK_M": 16}]: the first entry that is no triton.Config."""
    calls = (part for part in ast.walk(setting.tree) if isinstance(part, ast.Call) and called(part) == "autotune")
    lists = [word.value for call in calls for word in call.keywords if word.arg == "configs"]
    entries = [entry for written in lists for entry in getattr(written, "elts", [written])]
    return Found(next((entry for entry in entries if called(entry) != "Config"), None))


def bare_decorator(setting: Setting, words: Words) -> Found | None:
    """@triton.autotune without brackets."""
    decorators = [part for function in setting.tree.body for part in getattr(function, "decorator_list", [])]
    bare = (part for part in decorators if isinstance(part, ast.Attribute) and part.attr in ("autotune", "heuristics"))
    found = next(bare, None)
    return Found(found, name=unparsed(found)) if found is not None else None


def no_call(setting: Setting, words: Words) -> Found | None:
    return None if isinstance(setting.node, ast.Call) else Found()


# ---- arguments


def unknown_keyword(setting: Setting, words: Words) -> Found | None:
    """A call with a keyword that its function does not have; Triton may complain of the argument that it misses."""
    node = setting.node
    if not isinstance(node, ast.Call):
        return None
    name = unparsed(node.func)
    own = names.parameters_of(name) if name.startswith(("tl.", "triton.language.")) else []
    if name in ("triton.autotune", "autotune"):
        own = ["configs", "key", "prune_configs_by", "reset_to_zero", "restore_value", "pre_hook"]
    word = next((word for word in node.keywords if own and word.arg and word.arg not in own), None)
    if word is None or word.arg is None:
        return None
    near = names.suggest(word.arg, own) or ("axis" if word.arg == "dim" and "axis" in own else "")
    return Found(word, word=word.arg, near=near, signature=f": {name}({', '.join(own)})")


def loose_sizes(setting: Setting, words: Words) -> Found | None:
    """tl.zeros(BLOCK_M, BLOCK_N, tl.int32): the sizes are one tuple."""
    node = setting.node
    if not isinstance(node, ast.Call) or called(node) not in ("zeros", "full"):
        return None
    sizes = [part for part in node.args if not isinstance(part, ast.Attribute | ast.Tuple | ast.List)]
    if len(sizes) < 2 or sizes != node.args[: len(sizes)]:
        return None
    shape = ", ".join(unparsed(part) for part in sizes)
    rest = "".join(f", {unparsed(part)}" for part in [*node.args[len(sizes) :], *node.keywords])
    return Found(written=shortened(f"{unparsed(node.func)}(({shape}){rest})"))


def fractional_size(setting: Setting, words: Words) -> Found | None:
    """tl.arange(0, BLOCK_K / 2), or a BLOCK_K that a config sets to 32.0 or to "32"."""
    for part in setting.node.args if isinstance(setting.node, ast.Call) else ():
        text, literal = unparsed(part), isinstance(part, ast.Constant)
        value = text if literal else setting.type_of(part).removeprefix("constexpr ")
        if not re.fullmatch(r"-?\d+", value) and re.fullmatch(r"-?\d[\d.e+-]*|'.*'", value):
            found = f"got {value}" if literal else f"`{shortened(text)}` is {value}"
            divided = shortened(text.replace(" / ", " // ")) if " / " in text else ""
            return Found(value=value, found=found, divided=divided)
    return None


def third_of_dot(setting: Setting, words: Words) -> Found | None:
    """tl.dot(a, b, tl.int32), or a shape or number there."""
    node = setting.node
    if not isinstance(node, ast.Call) or len(node.args) < 3 or called(node) != "dot":
        return None
    return Found(third=unparsed(node.args[2]))


def python_mathematics(setting: Setting, words: Words) -> Found:
    """math.ceil(K / BLOCK_K), math.exp(x) of what is known only at run time, as Triton writes it."""
    assert isinstance(setting.node, ast.Call)
    first, name = next(iter(setting.node.args), None), called(setting.node)
    if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Div) and name in ("ceil", "floor"):
        a, b = unparsed(first.left), unparsed(first.right)
        return Found(written=shortened(f"tl.cdiv({a}, {b})" if name == "ceil" else f"{a} // {b}"))
    return Found(written=shortened(f"tl.{name}({', '.join(unparsed(part) for part in setting.node.args)})"))


def cached_twice(setting: Setting, words: Words) -> Found | None:
    """A load or store with a cache modifier and an eviction policy; the assembler names no line."""
    for part in ast.walk(setting.tree):
        if isinstance(part, ast.Call) and {"cache_modifier", "eviction_policy"} <= {word.arg for word in part.keywords}:
            return Found(part, name=unparsed(part.func))
    return None


def no_value(setting: Setting, words: Words) -> Found | None:
    """acc += ... where acc is None."""
    empty = [name for name, kind in setting.fault.values if kind == "None"]
    if isinstance(setting.node, ast.AugAssign) and isinstance(setting.node.target, ast.Name):
        empty = empty or [setting.node.target.id]
    return Found(name=empty[0]) if empty else None
