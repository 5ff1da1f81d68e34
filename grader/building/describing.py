"""describe: what a submission's Python says of its kernel - configs, grids, heuristics, constants - checked like any stranger's word.

The module runs in a sandbox of its own, which does nothing else. Hidden cases have another one: of what it says, the
launches of those cases are used and nothing reaches a student.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from grader.building import reports
from grader.building.module_generation import NotGenerated, dtypes, generated_module, referred_names
from grader.building.options import BuildOptions
from grader.building.sandboxed.student_module import MAX_CONFIGS, MAX_CONSTANTS, OPTION_LIMITS
from grader.building.sentences import describe_error
from grader.compile_errors import launch_message
from grader.compile_errors.excerpt import paragraph
from grader.compile_errors.setting import span
from grader.labs import Lab
from grader.labs.contract import taller
from grader.model import Case, Config, Constant, Dtype, GeneratedModule, KernelBundle, KernelSource, Launch, Refusal
from grader.parsing import function_named, nodes, parse
from grader.sandbox import LOST, SandboxDied, SandboxLost, SandboxTimeout
from grader.sandbox.inside import wire

MAX_MESSAGES = 8
"""Reasons why there is no launch that are told with the line; each reads the whole text."""
MAX_PROGRAMS = 1 << 24
GRID_LIMITS = (2**31 - 1, 65535, 65535)
DESCRIBE_SECONDS = 20.0
HIDDEN = "a hidden case could not be launched"
NO_ANSWER = "the sandbox gave an unusable answer"


class _NotDescribed(Exception):
    """Nothing can be made of a submission; refusal: why."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal


def describe(lab: Lab, source: KernelSource, options: BuildOptions) -> KernelBundle | Refusal:
    """The first half of building: configs, the launch of each case and the generated module, without a binary."""
    public = [case for case in lab.all_cases if not case.hidden]
    hidden = [case for case in lab.all_cases if case.hidden]
    asked = [*public, *(taller(case) for case in public if case.configs == "few")]
    try:
        answer = _asked(lab, source, asked, options)
        with _nothing_believed():
            bundle = _bundle(lab, source, asked, answer)
        graded = {case.name for case in public}
        bundle = replace(bundle, refused={pair: why for pair, why in bundle.refused.items() if pair[0] in graded})
        return _with_hidden(lab, source, hidden, bundle, options) if hidden else bundle
    except _NotDescribed as why:
        return why.refusal


def made_module(source: KernelSource, options: BuildOptions, *, prints: bool = False) -> GeneratedModule | Refusal:
    """The generated module of a kernel, such as a step's harness. prints: with the kernel's own, for the interpreter alone."""
    try:
        answer = _asked(None, source, [], options)
        with _nothing_believed():
            made = _made(source, answer, prints=prints)
    except _NotDescribed as why:
        return why.refusal
    return made


@contextmanager
def _nothing_believed() -> Iterator[None]:
    """What is raised where a sandbox's answer is read, as _NotDescribed: it may hold anything."""
    try:
        yield
    except (NotGenerated, reports.TooLarge) as why:
        raise _NotDescribed(Refusal("rejected", str(why))) from None
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        raise _NotDescribed(Refusal("crash", NO_ANSWER)) from None


def load_request(source: KernelSource, capability: int) -> dict[str, Any]:
    """The request that runs a submission's module; `capability` is what it sees as its GPU."""
    return {
        "op": "load",
        "module": source.module,
        "kernel": source.kernel,
        "grid": source.grid,
        "capability": capability,
    }


def _asked(lab: Lab | None, source: KernelSource, cases: Sequence[Case], options: BuildOptions) -> dict[str, Any]:
    """What a new sandbox says of the module and these cases. Raises _NotDescribed."""
    names = referred_names(source.module)
    if len(names) > reports.MAX_NAMES:
        count = f"{source.kernel} and what it needs refer to {len(names)} names"
        raise _NotDescribed(Refusal("rejected", f"{count}; use at most {reports.MAX_NAMES}"))
    request: dict[str, Any] = {"op": "describe", "names": names, "contract": None, "problems": []}
    if lab is not None:
        request["contract"] = [parameter.name for parameter in lab.parameters]
        request["problems"] = [
            {"name": case.name, "scalars": lab.scalars(case), "constants": dict(lab.constants)} for case in cases
        ]
    answer: dict[str, Any] = {}
    try:
        with options.start(confined=options.confined) as sandbox:
            for header in (load_request(source, max(options.capabilities)), request):
                said = sandbox.ask(header, timeout=DESCRIBE_SECONDS)
                if "error" in said.header:
                    raise _NotDescribed(Refusal("rejected", describe_error(source, said)))
                answer = said.header
    except SandboxLost:
        raise _NotDescribed(Refusal("not_graded", LOST)) from None
    except SandboxTimeout:
        late = f"the configs or {source.grid or 'the grid'} did not return within {DESCRIBE_SECONDS:.0f} s"
        raise _NotDescribed(Refusal("timeout", f"{late}; is there an endless loop outside the kernel?")) from None
    except SandboxDied as death:
        raise _NotDescribed(Refusal("crash", f"while the configs and the grid were evaluated: {death}")) from None
    except (KeyError, TypeError, ValueError):
        raise _NotDescribed(Refusal("crash", NO_ANSWER)) from None
    return answer


def _bundle(lab: Lab, source: KernelSource, cases: Sequence[Case], answer: dict[str, Any]) -> KernelBundle:
    """The bundle of an answer to these cases. Raises NotGenerated, and whatever an answer of another form does."""
    described = answer["configs"]
    if len(described) > MAX_CONFIGS:
        raise ValueError("more configs than are graded")
    configs = tuple(_config(index, config) for index, config in enumerate(described))
    made = _made(source, answer)
    own = _own_parameters(lab, made)
    if own is None:
        raise NotGenerated(
            f"{lab.kernel} does not have the lab's parameters once the file has run; use only Triton's decorators above it"
        )
    _check_tensors(lab, source, made)
    launches, refused = _launches(lab, source, cases, configs, own, answer)
    return KernelBundle(lab.id, configs, launches, refused, made)


def _with_hidden(
    lab: Lab, source: KernelSource, cases: Sequence[Case], bundle: KernelBundle, options: BuildOptions
) -> KernelBundle:
    """The bundle with the launches of hidden cases; why one of them has none stays unsaid. Raises _NotDescribed for a lost sandbox."""
    launches: dict[tuple[str, int], Launch] = {}
    own = _own_parameters(lab, bundle.made) or frozenset()
    try:
        answer = _asked(lab, source, cases, options)
        with _nothing_believed():
            launches, _ = _launches(lab, source, cases, bundle.configs, own, answer)
    except _NotDescribed as why:
        if why.refusal.status == "not_graded":
            raise
    pairs = {(case.name, config.index) for case in cases for config in bundle.configs}
    refused = dict.fromkeys(sorted(pairs - set(launches)), HIDDEN)
    return replace(bundle, launches={**bundle.launches, **launches}, refused={**bundle.refused, **refused})


def _made(source: KernelSource, answer: dict[str, Any], *, prints: bool = False) -> GeneratedModule:
    kernel = reports.parse(answer["functions"]["kernel"])
    if not isinstance(kernel, reports.FunctionReport):
        raise NotGenerated(
            f"{source.kernel} is not a function under @triton.jit once the file has run; put @triton.jit above it"
        )
    return generated_module(source, kernel, reports.parse_names(answer["functions"]["names"]), prints=prints)


def _kernel(made: GeneratedModule) -> ast.FunctionDef:
    function = function_named(parse(made.text), made.kernel)
    assert function is not None
    return function


def _own_parameters(lab: Lab, made: GeneratedModule) -> frozenset[str] | None:
    """The constexpr parameters that follow the lab's; None where a function with others than the lab's was put in the kernel's place."""
    kernel = _kernel(made)
    names = [argument.arg for argument in kernel.args.posonlyargs + kernel.args.args]
    expected = [parameter.name for parameter in lab.parameters]
    return frozenset(names[len(expected) :]) if names[: len(expected)] == expected else None


def _check_tensors(lab: Lab, source: KernelSource, made: GeneratedModule) -> None:
    """Raises NotGenerated where the kernel takes one of the lab's tensors for a constant, with which Triton launches nothing."""
    kernel = _kernel(made)
    tensors = {parameter.name for parameter in lab.parameters if parameter.type.startswith("*")}
    found = next((one for one in kernel.args.args if one.annotation is not None and one.arg in tensors), None)
    if found is None:
        return
    line = made.origin(kernel.lineno)
    written = next((node for node in nodes(parse(source.module), ast.FunctionDef) if node.lineno == line), kernel)
    place = next((one for one in written.args.args if one.arg == found.arg), found)
    cause = f"`{found.arg}` is annotated as tl.constexpr, but the lab passes a tensor"
    where = source.locate(place.lineno)
    raise NotGenerated(paragraph(where, cause, "remove the annotation", source=source.module, span=span(place)))


def _config(index: int, data: dict[str, Any]) -> Config:
    """One config within its limits. Raises ValueError, since the sandbox's own code has refused what a student can fix."""
    if not isinstance(data["constants"], dict) or len(data["constants"]) > MAX_CONSTANTS:
        raise ValueError("constants that are none")
    constants = {str(name): _configured(value) for name, value in data["constants"].items()}
    wanted = [name for name in OPTION_LIMITS if name != "maxnreg" or data.get(name) is not None]
    options = {name: wire.integer(data[name], *OPTION_LIMITS[name]) for name in wanted}
    warps = options["num_warps"]
    if warps & (warps - 1):
        raise ValueError("num_warps that is no power of two")
    return Config(index, constants, warps, options["num_stages"], options.get("maxnreg"))


def _configured(value: Any) -> Constant:
    """A config's or heuristic's value. Raises ValueError."""
    if not isinstance(value, dict):
        return reports.constant(value)
    if value["dtype"] not in dtypes():
        raise ValueError("a dtype that Triton does not have")
    return Dtype(value["dtype"])


def _launches(
    lab: Lab,
    source: KernelSource,
    cases: Sequence[Case],
    configs: Sequence[Config],
    own: frozenset[str],
    answer: dict[str, Any],
) -> tuple[dict[tuple[str, int], Launch], dict[tuple[str, int], str]]:
    """The launch of each case with each config, and why others have none. own: the parameters that configs and heuristics set."""
    scalars = {case.name: lab.scalars(case) for case in cases}
    names = {parameter.name for parameter in lab.parameters}
    unspecialised = {
        kind: [name for name in answer["unspecialised"][kind] if name in names] for kind in ("value", "alignment")
    }
    launches: dict[tuple[str, int], Launch] = {}
    refused: dict[tuple[str, int], str] = {}
    messages: dict[str, str] = {}
    if len(answer["launches"]) != len(cases) * len(configs):
        raise ValueError("more launches than there are, or fewer")
    for described in answer["launches"]:
        name, index = described["problem"], wire.integer(described["config"], 0, len(configs) - 1)
        result = _launch(lab, scalars[name], configs[index], described, unspecialised)
        if isinstance(result, Launch):
            if {*configs[index].constants, *described["heuristics"]} != own:
                raise ValueError("other constants than the kernel has parameters")
            launches[name, index] = result
        else:
            if result not in messages and len(messages) < MAX_MESSAGES:
                messages[result] = launch_message(source, lab, configs[index], result, _line(described))
            refused[name, index] = f"{configs[index]} on {name}: {messages.get(result, result)}"
    if set(launches) | set(refused) != {(case.name, config.index) for case in cases for config in configs}:
        raise ValueError("launches are missing")
    return launches, refused


def _launch(
    lab: Lab, scalars: dict[str, int], config: Config, described: dict[str, Any], unspecialised: dict[str, list[str]]
) -> Launch | str:
    """The launch of one problem with one config, or a sentence why there is none."""
    if "fault" in described:
        computed = described.get("heuristic")
        who = f"the heuristic for `{computed}`" if isinstance(computed, str) and computed.isidentifier() else lab.grid
        return f"{who[:80]} raised {str(described['fault'])[:300]}"
    heuristics = {str(name): _configured(value) for name, value in described["heuristics"].items()}
    if twice := heuristics.keys() & ({parameter.name for parameter in lab.parameters} | config.constants.keys()):
        return f"a heuristic sets `{min(twice)[:80]}`, which the lab or the config sets; give it a name of its own"
    meta: dict[str, Constant] = {**lab.constants, **config.constants, **heuristics}
    if "grid" in described:
        grid: Any = described["grid"]
        source = lab.grid
    else:
        source = f"the default grid {lab.default_grid_text}"
        try:
            grid = list(lab.default_grid(scalars["M"], scalars["N"], scalars["K"], meta))
        except (KeyError, ValueError) as error:
            reason = f"needs the meta parameter {error}" if isinstance(error, KeyError) else f"got {error}"
            return f"{source} {reason}; set it in the config or define {lab.grid}(M, N, K, meta)"
    fault = _grid_fault(source, grid)
    if fault:
        return fault
    dimensions = tuple(grid) + (1,) * (3 - len(grid))
    folded: list[tuple[str, Constant]] = sorted(heuristics.items())
    signature, divisible = [], []
    for parameter in lab.parameters:
        if parameter.type == "constexpr":
            continue
        if parameter.type != "int":
            signature.append((parameter.name, parameter.type))
            divisible.append(parameter.name)
            continue
        value = scalars[parameter.name]
        if value == 1 and parameter.name not in unspecialised["value"]:
            folded.append((parameter.name, 1))
            continue
        signature.append((parameter.name, "i32" if -(2**31) <= value < 2**31 else "i64"))
        if value % 16 == 0 and parameter.name not in unspecialised["value"] + unspecialised["alignment"]:
            divisible.append(parameter.name)
    return Launch((dimensions[0], dimensions[1], dimensions[2]), tuple(signature), tuple(divisible), tuple(folded))


def _line(described: dict[str, Any]) -> int | None:
    """Where a grid or heuristic raised, as a student's sandbox says it."""
    line = described.get("line")
    return line if isinstance(line, int) and not isinstance(line, bool) and 0 < line < 1 << 24 else None


def _grid_fault(source: str, grid: Any) -> str | None:
    shown = f"{source} returned {tuple(grid) if isinstance(grid, list) else grid}"[:300]
    if not isinstance(grid, list) or not 1 <= len(grid) <= 3:
        return f"{shown}; expected a tuple of one to three ints: write return (programs,)"
    if not all(isinstance(part, int) and not isinstance(part, bool) for part in grid):
        divided = any(isinstance(part, float) for part in grid)
        step = "use triton.cdiv(a, b) or a // b instead of a / b" if divided else "write an int for each dimension"
        return f"{shown}; expected whole numbers: {step}"
    if any(part < 1 for part in grid):
        return f"{shown}; expected at least one program in each dimension: use triton.cdiv(a, b), which rounds up"
    programs = math.prod(grid)
    if programs > MAX_PROGRAMS or any(part > limit for part, limit in zip(grid, GRID_LIMITS, strict=False)):
        return f"{shown}, {programs} programs; expected at most {MAX_PROGRAMS} (and 65535 in dimensions 2 and 3)"
    return None
