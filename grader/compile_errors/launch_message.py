"""What a student reads of a config, a heuristic or a grid that cannot be launched, at its place in the text."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Collection

from grader.compile_errors.fault import Fault
from grader.compile_errors.names import suggest
from grader.compile_errors.setting import Setting, targets, unparsed
from grader.compile_errors.table import Message
from grader.labs import Lab
from grader.model import Config, KernelSource
from grader.parsing import function_named, nodes


def config_message(source: KernelSource, index: int, sentence: str) -> str:
    """A sentence about config number `index`, at the place where the text makes it; "found, expected; next step"."""
    setting = Setting(Fault("", sentence), source)
    node = _config_node(setting.tree, source.kernel, index)
    cause, step = _parts(sentence)
    unknown = re.search(r"`(\w+)`, which is not a parameter", cause)
    if unknown and (near := suggest(unknown[1], re.findall(r"\w+", cause.partition("whose own are")[2]))):
        step = f"did you mean `{near}`? If not, {step}"
    at = setting.at(_part_of_config(node, sentence) if node else None)
    return at.message(cause, step or "correct this config", quiet=True)


def launch_message(source: KernelSource, lab: Lab, config: Config, sentence: str, line: int | None = None) -> str:
    """Why a config cannot be launched, where the text says so: in a heuristic, the grid or the config. line: where the grid raised."""
    if computed := re.match(r"the heuristic for `(\w+)` raised", sentence):
        scalars = (parameter.name for parameter in lab.parameters if parameter.type == "int")
        return _heuristic_message(source, computed[1], sentence, (*scalars, *config.constants))
    if source.grid:
        return _grid_message(source, lab.grid, sentence, tuple(config.constants), line)
    return config_message(source, config.index, sentence)


def _heuristic_message(source: KernelSource, name: str, sentence: str, keys: Collection[str]) -> str:
    setting = Setting(Fault("", sentence), source)
    node = _heuristic_node(setting.tree, source.kernel, name)
    cause, step = sentence, "correct the function that computes it"
    if key := re.search(r"KeyError: '(\w+)'", sentence):
        near = suggest(key[1], keys)
        cause = f"the heuristic for `{name}` asks for '{key[1]}', and its argument holds {', '.join(keys)}"
        step = f"did you mean '{near}'?" if near else "use one of these"
        parts = ast.walk(node) if node is not None else ()
        node = next((part for part in parts if isinstance(part, ast.Constant) and part.value == key[1]), node)
    return setting.at(node).message(cause, step, quiet=True)


def _grid_message(source: KernelSource, grid: str, sentence: str, keys: Collection[str], line: int | None) -> str:
    """A sentence about what the grid returned or raised, at the place in it; `keys`: what `meta` holds; `line`: where it raised."""
    setting = Setting(Fault("", sentence), source)
    raised = [part for part in ast.walk(setting.tree) if isinstance(part, ast.stmt) and part.lineno == line]
    node = raised[-1] if raised else _grid_return(setting.tree, grid)
    if node is None:
        return sentence
    cause, step, node = _about_grid(setting.tree, grid, node, sentence, keys)
    return setting.at(node).message(cause, step or "correct the grid", quiet=True)


def _about_grid(
    tree: ast.Module, grid: str, node: ast.AST, sentence: str, keys: Collection[str]
) -> tuple[str, str, ast.AST]:
    """(cause, next step, place) for a sentence about the grid; `node`: where it returned or raised."""
    if key := re.search(r"KeyError: '(\w+)'", sentence):
        name = key[1]
        nearest = max(keys, key=lambda known: difflib.SequenceMatcher(None, known, name).ratio(), default="BLOCK_M")
        near = suggest(name, keys) or nearest
        asked = next((part for part in nodes(tree, ast.Constant) if part.value == name), node)
        return f"meta has no '{name}': it holds {', '.join(keys)}", f'did you mean meta["{near}"]?', asked
    if "Cannot call @triton.jit" in sentence:
        return _language_in_grid(tree, grid, node)
    if "returned" in sentence and isinstance(node, ast.FunctionDef):
        return f"{grid} has no return, expected a tuple of one to three ints", _returned(node), node
    if "positional argument" in sentence:
        makers = (part for part in tree.body if isinstance(part, ast.FunctionDef | ast.Assign | ast.AnnAssign))
        made = next((part for part in makers if grid in unparsed(part)), node)
        return f"{grid} is called with M, N, K and meta", f"write def {grid}(M, N, K, meta):", made
    cause, step = _parts(sentence)
    if isinstance(node, ast.Return) and node.value is not None and re.search(r"returned -?\d", sentence):
        step = "write it as a tuple, with a comma: return (programs,)"
    return cause, step, node


def _language_in_grid(tree: ast.Module, grid: str, node: ast.AST) -> tuple[str, str, ast.AST]:
    """(cause, next step, place) for tl.cdiv in a grid, or a grid under @triton.jit."""
    made = function_named(tree, grid)
    if made is not None and made.decorator_list:
        step = f"delete @{unparsed(made.decorator_list[0])} above it"
        return f"{grid} is a kernel's function, expected an ordinary one", step, made
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and unparsed(part.func).startswith("tl.")]
    called = unparsed(calls[0].func) if calls else "tl.cdiv"
    step = "write triton.cdiv(a, b)" if called == "tl.cdiv" else "use numbers, arithmetic and triton.cdiv(a, b)"
    return f"{called} works in kernels only, and a grid is ordinary Python", step, calls[0] if calls else node


def _returned(function: ast.FunctionDef) -> str:
    """What a grid without a return may have meant: its last line, if that is an expression."""
    ends_with_value = isinstance(function.body[-1], ast.Expr)
    return "write return in front of its last line" if ends_with_value else "end it with return and the tuple"


def _parts(sentence: str) -> Message:
    """ "found; expected what: next" as what was found and expected, and what to do."""
    cause, _, step = sentence.partition("; ")
    if step.startswith("expected "):
        expected, _, step = step.partition(": ")
        cause = f"{cause}, {expected}"
    return Message(cause, step)


def _config_node(tree: ast.Module, kernel: str, index: int) -> ast.AST | None:
    """The n-th triton.Config(...) in the list of the kernel's autotune, or the list itself where it is computed."""
    configs = _configs(tree, kernel)
    if isinstance(configs, ast.Name):
        configs = _assigned(tree, configs.id) or configs
    if isinstance(configs, ast.List | ast.Tuple) and all(isinstance(part, ast.Call) for part in configs.elts):
        return configs.elts[index] if index < len(configs.elts) else configs
    return configs


def _configs(tree: ast.Module, kernel: str) -> ast.expr | None:
    node = function_named(tree, kernel)
    for decorator in node.decorator_list if node else ():
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith("autotune"):
            named = [word.value for word in decorator.keywords if word.arg == "configs"]
            return (named or decorator.args or [decorator])[0]
    return None


def _heuristic_node(tree: ast.Module, kernel: str, name: str) -> ast.AST | None:
    """What computes the heuristic `name`: its value in the dictionary of @triton.heuristics, or the decorator."""
    node = function_named(tree, kernel)
    decorators = node.decorator_list if node else []
    found = [part for part in decorators if ast.unparse(part).partition("(")[0].endswith("heuristics")]
    for part in (table for decorator in found for table in nodes(decorator, ast.Dict)):
        for key, value in zip(part.keys, part.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == name:
                return value
    return found[0] if found else None


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in reversed(tree.body):
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(
            isinstance(target, ast.Name) and target.id == name for target in targets(node)
        ):
            return node.value
    return None


def _part_of_config(node: ast.AST, message: str) -> ast.AST:
    """The key or keyword of a config that the message names between backticks or before "=", else the config."""
    names = set(re.findall(r"`(\w+)`", message)) | set(re.findall(r"\b(num_\w+|maxnreg)=", message))
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and part.value in names:
            return part
        if isinstance(part, ast.keyword) and part.arg in names:
            return part
    return node


def _grid_return(tree: ast.Module, grid: str) -> ast.AST | None:
    """The last `return` of the grid's function, or what is assigned to its name."""
    node = function_named(tree, grid)
    return [node, *nodes(node, ast.Return)][-1] if node else _assigned(tree, grid)
