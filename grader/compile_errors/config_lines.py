"""Which line of the text makes config number n, the grid, or a parameter?"""

from __future__ import annotations

import ast
import re

from grader.parsing import function_named, nodes


def config_node(tree: ast.Module, kernel: str, index: int) -> ast.AST | None:
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


def heuristic_node(tree: ast.Module, kernel: str, name: str) -> ast.AST | None:
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
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    return None


def part_of_config(node: ast.AST, message: str) -> ast.AST:
    """The key or keyword of a config that the message names between backticks or before "=", else the config."""
    names = set(re.findall(r"`(\w+)`", message)) | set(re.findall(r"\b(num_\w+|maxnreg)=", message))
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and part.value in names:
            return part
        if isinstance(part, ast.keyword) and part.arg in names:
            return part
    return node


def grid_return(tree: ast.Module, grid: str) -> ast.AST | None:
    """The last `return` of the grid's function, or what is assigned to its name."""
    node = function_named(tree, grid)
    return [node, *nodes(node, ast.Return)][-1] if node else _assigned(tree, grid)
