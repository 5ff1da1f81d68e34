"""What costs no points and is worth knowing: mistakes that only show outside the grader."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from itertools import islice

from grader.judging.access_text import is_masked
from grader.labs import Lab
from grader.model import KernelBundle, KernelSource, Outcome
from grader.parsing import function_named, nodes, parse

ZEROED_BY = {"reset_to_zero", "restore_value", "pre_hook"}
"""Arguments of triton.autotune that empty Y between trials, or may, and of triton.Config: a kernel with one of them is not spoken of."""


def remarks(source: KernelSource, bundle: KernelBundle, outcomes: Sequence[Outcome], output: str) -> tuple[str, ...]:
    """Sentences about a kernel that the grader launches otherwise than Triton does. output: the parameter that is Y."""
    adding = sorted({one.config for one in outcomes if one.additions})
    decorator = _autotune(source)
    if not adding or len(bundle.configs) < 2 or decorator is None or len(decorator.args) > 3:
        return ()
    if any(word.arg is None for word in decorator.keywords) or _zeroed(source):
        return ()
    which = f"config {adding[0]} adds" if len(adding) == 1 else f"configs {', '.join(map(str, adding))} add"
    return (
        f"{source.locate(decorator.lineno)}: no points lost, but outside the grader the first result for each size is wrong: Triton tries "
        f'every config on the same Y, and {which} to it in every trial; give triton.autotune reset_to_zero=["{output}"]',
    )


def seen_when_timed(lab: Lab, bundle: KernelBundle, outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """The first value that a heuristic gives a config in a timed case alone. outcomes: of the cases, which say nothing of such a launch."""
    ran = {
        (one.config, value)
        for one in outcomes
        if one.status == "ran"
        for value in bundle.launches[one.case, one.config].folded
    }
    contract, configs = {parameter.name for parameter in lab.parameters}, {config for config, _ in ran}
    timed = {case.name for case in lab.speed_cases if not case.hidden}
    unseen = (
        f"not seen here: a heuristic gives config {config} {name[:80]} = {str(value)[:40]} in {case}, and in none of the cases that it "
        "ran with; whether Y is right then is checked where it is timed, on a GPU"
        for (case, config), launch in bundle.launches.items()
        if case in timed and config in configs
        for name, value in launch.folded
        if name not in contract and (config, (name, value)) not in ran
    )
    return tuple(islice(unseen, 1))


def _zeroed(source: KernelSource) -> bool:
    """Whether the text passes one of them anywhere, by name or as the key of what is unpacked: configs may come from a function."""
    tree = parse(source.module)
    passed = {part.arg for part in nodes(tree, ast.keyword) if ast.unparse(part.value) != "None"}
    return bool(
        ZEROED_BY & (passed | {part.value for part in nodes(tree, ast.Constant) if isinstance(part.value, str)})
    )


def open_loads(source: KernelSource) -> list[int]:
    """The lines of loads that have a mask and no `other`."""
    calls = (node for node in nodes(parse(source.module), ast.Call) if ast.unparse(node.func) == "tl.load")
    masked = [call for call in calls if is_masked(call) and len(call.args) < 3]
    return [call.lineno for call in masked if not any(word.arg == "other" for word in call.keywords)]


def undefined(source: KernelSource, lines: Sequence[int], result: str) -> str:
    """That these loads leave a result to chance. result: what depends on them, in a word."""
    places = " and ".join(dict.fromkeys(source.locate(line) for line in lines))
    which = "this tl.load has" if len(lines) == 1 else "these loads have"
    return f"{places}: {which} a mask but no other=, so what the mask leaves out is undefined, and {result} depends on it; add other=0."


def _autotune(source: KernelSource) -> ast.Call | None:
    """The kernel's @triton.autotune(...) where it stands there in full."""
    function = function_named(parse(source.module), source.kernel)
    calls = [one for one in (function.decorator_list if function else ()) if isinstance(one, ast.Call)]
    return next((call for call in calls if ast.unparse(call.func) in ("triton.autotune", "autotune")), None)
