"""The student's module, loaded: its configs, heuristics, grid and constants as data.

This is the one place where a student's Python runs, in a sandbox that does nothing else; nothing it says is trusted.
"""

from __future__ import annotations

import enum
import inspect
import re
import traceback
import types
from typing import Any

from grader.interpreter.generated_module import executed, see_gpu

OPTION_LIMITS = {"num_warps": (1, 32), "num_stages": (1, 16), "num_ctas": (1, 1), "maxnreg": (16, 255)}
"""A config's compile options: the least and the most that may be asked for. maxnreg may be left out."""
MAX_CONFIGS = 16
MAX_CONSTANTS = 64


class ContractError(ValueError):
    """The kernel is no kernel of this lab; the message is one sentence for the student."""


def load(path: str, kernel: str, grid: str | None, capability: int) -> StudentModule:
    """Executes the selected statements and finds the kernel in them."""
    see_gpu(capability)
    module = executed(path, "kernel_module")
    return StudentModule(module, getattr(module, kernel), getattr(module, grid) if grid else None, kernel)


class StudentModule:
    """A kernel's layers: autotuner (configs), heuristics (computed constexprs) and the jit function below them."""

    def __init__(self, module: Any, kernel: Any, grid: Any, name: str) -> None:
        self.module, self.name, self.grid = module, name, grid
        self.configs: list[Any] | None = None
        self.heuristics: dict[str, Any] = {}
        self.misplaced: str | None = None
        while type(kernel).__name__ in ("Autotuner", "Heuristics"):
            if hasattr(kernel, "configs"):
                self.misplaced = _no_list(kernel.configs)
                self.configs = [kernel.configs] if self.misplaced else list(kernel.configs)
            else:
                self.heuristics.update(kernel.values)
            kernel = kernel.fn
        self.jit = kernel

    @property
    def parameters(self) -> list[Any]:
        return list(inspect.signature(self.jit.fn).parameters.values())

    def report(self, names: list[str]) -> dict[str, Any]:
        """What the jit functions' text refers to: the kernel's own jit function, and each name that the module binds."""
        bound = {name: report(getattr(self.module, name)) for name in names if hasattr(self.module, name)}
        return {"kernel": report(self.jit), "names": bound}

    def describe(self, contract: list[str], problems: list[dict[str, Any]]) -> dict[str, Any]:
        """Configs, and for each problem and config its grid (when the student has one) and heuristics' values.

        contract: names of the lab's parameters. problems: {"name", "scalars": {...}, "constants": {...}}.
        """
        if self.configs is None:
            raise ContractError(
                f"{self.name} is not decorated with @triton.autotune once the file has run; put "
                '@triton.autotune(configs=[triton.Config({...})], key=["M", "N", "K"]) above @triton.jit'
            )
        if self.misplaced:
            raise ContractError(f"config 0 of {self.name} {self.misplaced}")
        own = {p.name: p for p in self.parameters[len(contract) :]}
        needed = [name for name, p in own.items() if p.default is p.empty and name not in self.heuristics]
        if not self.configs or (len(self.configs) == 1 and not self.configs[0].kwargs and needed):
            raise ContractError(
                f"@triton.autotune of {self.name} has no configs; give it 1 to 16, such as triton.Config({{'BLOCK_M': 64}})"
            )
        if len(self.configs) > MAX_CONFIGS:
            count = f"{len(self.configs)} configs, but at most {MAX_CONFIGS} are graded"
            raise ContractError(f"@triton.autotune of {self.name} has {count}; keep the best")
        if len(own) > MAX_CONSTANTS:
            count = f"{len(own)} parameters after the lab's, expected at most {MAX_CONSTANTS}"
            raise ContractError(f"{self.name} has {count}; compute in the kernel what follows from others")
        configs = [self._config(index, config, contract, own) for index, config in enumerate(self.configs)]
        self._computed([*contract, *own], own)
        launches = [
            self._launch(problem, number, config) for problem in problems for number, config in enumerate(configs)
        ]
        serialised = [{**config, "constants": _constants_as_data(config["constants"])} for config in configs]
        return {"configs": serialised, "launches": launches, "unspecialised": self._unspecialised()}

    def _config(self, index: int, config: Any, contract: list[str], own: dict[str, Any]) -> dict[str, Any]:
        """One config as data. own: the kernel's parameters after the lab's."""
        where = f"config {index} of {self.name}"
        if not isinstance(config.kwargs, dict):
            kind = type(config.kwargs).__name__
            raise ContractError(
                f"{where} begins with a {kind}; expected a dictionary: write triton.Config({{'BLOCK_M': 64}})"
            )
        given = dict(config.kwargs.items())  # read once: a subclass of dict can say something else each time
        for key, value in given.items():
            if key in contract:
                raise ContractError(f"{where} sets `{key}`, which the lab passes; leave it out of triton.Config")
            if key not in own:
                raise ContractError(
                    f"{where} sets `{key}`, which is not a parameter of {self.name}, whose own are {', '.join(own) or 'none'}; "
                    f"delete it from triton.Config, or write {key}: tl.constexpr after the last parameter of {self.name}"
                )
            _plain(value, f"{where} sets `{key}`")
        defaults = {name: _unwrapped(p.default) for name, p in own.items() if p.default is not p.empty}
        constants = {name: value for name, value in defaults.items() if name not in self.heuristics} | given
        if getattr(config, "ir_override", None):
            raise ContractError(f"{where} has an ir_override; only sizes, num_warps, num_stages and maxnreg count")
        missing = [name for name in own if name not in constants and name not in self.heuristics]
        if missing:
            raise ContractError(f"{where} leaves `{missing[0]}` without a value; add it to triton.Config({{...}})")
        for name, value in constants.items():
            _plain(value, f"{where}: the default sets `{name}`")
        return {"constants": constants, **_options(config, where)}

    def _computed(self, parameters: list[str], own: dict[str, Any]) -> None:
        """Raises ContractError for a heuristic that sets what is no parameter. own: the parameters after the lab's."""
        unknown = [str(name) for name in self.heuristics if name not in parameters]
        if unknown:
            step = f"write {unknown[0][:80]}: tl.constexpr after the last parameter of {self.name}"
            if unknown[0] in OPTION_LIMITS:
                step = "set it in each triton.Config"
            raise ContractError(
                f"@triton.heuristics of {self.name} sets `{unknown[0][:80]}`, which is not a parameter of {self.name}, "
                f"whose own are {', '.join(own) or 'none'}; delete it there, or {step}"
            )

    def _launch(self, problem: dict[str, Any], index: int, config: dict[str, Any]) -> dict[str, Any]:
        scalars = problem["scalars"]
        meta = {**problem["constants"], **config["constants"]}
        answer: dict[str, Any] = {"problem": problem["name"], "config": index}
        name: str | None = None
        try:
            heuristics: dict[str, Any] = {}
            for name, compute in self.heuristics.items():
                options = {option: config[option] for option in OPTION_LIMITS if option in config}
                value = compute({**scalars, **meta, **options, **heuristics})
                _plain(value, f"the heuristic for `{name}` sets it")
                heuristics[name] = value
            name = None
            answer["heuristics"] = _constants_as_data(heuristics)
            if self.grid is not None:
                grid = self.grid(scalars["M"], scalars["N"], scalars["K"], {**meta, **heuristics})
                answer["grid"] = _as_data(grid)
        except Exception as error:
            said = f"{type(error).__name__}: {error}"[:300]
            answer["fault"] = said.encode(errors="backslashreplace").decode()  # half characters do not travel
            answer["heuristic"], answer["line"] = name, _line_in(str(self.module.__file__), error)
        return answer

    def _unspecialised(self) -> dict[str, list[str]]:
        parameters = getattr(self.jit, "params", [])
        return {
            "value": [p.name for p in parameters if getattr(p, "do_not_specialize", False)],
            "alignment": [p.name for p in parameters if getattr(p, "do_not_specialize_on_alignment", False)],
        }


def _options(config: Any, where: str) -> dict[str, int]:
    """A config's compile options, each within its limits. Raises ContractError."""
    options = {}
    for option, (low, high) in OPTION_LIMITS.items():
        value = getattr(config, option, None)
        if option == "maxnreg" and value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ContractError(f"{where} has {option}={value!r}; expected a whole number from {low} to {high}")
        options[option] = value
    if options["num_warps"] & (options["num_warps"] - 1):
        raise ContractError(
            f"{where} has num_warps={options['num_warps']}; expected a power of two: write 1, 2, 4, 8 or 16"
        )
    return options


def _plain(value: Any, where: str) -> None:
    """Raises ContractError for what is no constant that a kernel can be compiled with and a report can tell."""
    if _is_dtype(value):
        return
    if type(value) not in (int, float, bool, str, type(None)):  # a subclass can say something else each time
        found = f"{where} to a {type(value).__name__}, expected a number, bool, str or dtype such as tl.float32"
        raise ContractError(f"{found}; {_as_plain(value)}")
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise ContractError(f"{where} to {value}; expected a finite number: write float('inf') in the kernel itself")
    if isinstance(value, int) and not abs(value) < 2**63:
        raise ContractError(f"{where} to a number of {len(bin(value)) - 2} bits; expected at most 63")
    if isinstance(value, str) and (len(value) > 200 or not value.isprintable()):
        raise ContractError(f"{where} to text that is long or cannot be printed; expected a short name")


def _as_plain(value: Any) -> str:
    """What to write in a config instead of a value that is no plain one."""
    if isinstance(value, enum.Enum):
        return "put .value after it"
    if isinstance(value, int | float | str):
        return "make it plain with int(...), float(...) or str(...)"
    if callable(value):
        return "leave that parameter out, and call the function by its name in the kernel"
    return "give each number in it a parameter of its own"


def _line_in(path: str, error: BaseException) -> int | None:
    """The last line of the file that an error came through."""
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
    return lines[-1] if lines else None


def _no_list(configs: Any) -> str | None:
    """What stands where a list of configs belongs, and what to write; None for a list."""
    if type(configs).__name__ == "Config":
        return "stands alone; expected a list: write configs=[triton.Config({...})]"
    if callable(configs):
        return "is a function, not a config; expected the list that it returns: call it, with ()"
    return None


def _is_dtype(value: Any) -> bool:
    import triton.language as tl

    return type(value) is tl.dtype


def _unwrapped(value: Any) -> Any:
    """What a constexpr holds; anything else as it is."""
    import triton.language as tl

    return value.value if type(value) is tl.constexpr else value


def _constants_as_data(constants: dict[str, Any]) -> dict[str, Any]:
    """Constants as data."""
    return {name: {"dtype": str(value)} if _is_dtype(value) else value for name, value in constants.items()}


def _as_data(grid: Any) -> Any:
    """What a grid function returned, as JSON: a list of numbers, or a description of what it is instead."""
    if isinstance(grid, (tuple, list)) and len(grid) <= 8:
        return [part if type(part) in (int, float, bool) and abs(part) < 2**63 else repr(part)[:60] for part in grid]
    return repr(grid)[:100]


def report(value: Any, depth: int = 0) -> dict[str, Any]:
    """One value as data: a constant, a constexpr, a dtype, a tuple, a function by its first line, or where Triton has it.

    What is none of these is told by its type. Floats are text, since JSON knows no infinity.

    Not split: a list of kinds, a line each.
    """
    import triton.language as tl

    kind = type(value).__name__
    if isinstance(value, float):
        return {"float": repr(float(value))}
    if isinstance(value, int) and not abs(value) < 2**63:
        bits = len(bin(value)) - 2
        raise ContractError(
            f"the kernel uses a whole number of {bits} bits, expected at most 63; compute it in the kernel"
        )
    if isinstance(value, str) and (half := re.search("[\ud800-\udfff]", value)):
        raise ContractError(
            f"the kernel uses a text with half of a character, {half[0]!a}; write the whole character, or none"
        )
    if value is None or isinstance(value, (bool, int, str)):
        return {"constant": value}
    if isinstance(value, tl.constexpr):
        return {"constexpr": report(value.value, depth + 1)}
    if isinstance(value, tl.dtype) and not value.is_ptr() and not value.is_block():
        return {"dtype": str(value)}
    if isinstance(value, (tuple, list)) and len(value) <= 64 and depth < 3:
        return {"tuple": [report(part, depth + 1) for part in value]}
    if isinstance(value, types.ModuleType):
        return {"module": value.__name__}
    function = getattr(value, "fn", value)
    home, name = str(getattr(function, "__module__", "")), str(getattr(function, "__name__", ""))
    if kind in ("JITFunction", "ConstexprFunction") and home == "kernel_module":
        return _function_report(value, function, depth)
    if name and (isinstance(value, types.BuiltinFunctionType) or home.startswith("triton")):
        return {"object": [home, name]}
    if value in (range, min, max, len, int, float):
        return {"builtin": value.__name__}
    return {"other": kind}


def _function_report(value: Any, function: Any, depth: int) -> dict[str, Any]:
    """A jit or constexpr function of the submission, `value`, by the Python function that it was made of."""
    parameters, signature = getattr(value, "params", None) or [], inspect.signature(function).parameters
    return {
        "function": "jit" if type(value).__name__ == "JITFunction" else "constexpr",
        "line": function.__code__.co_firstlineno,
        "noinline": bool(getattr(value, "noinline", False)),
        "constexprs": [p.name for p in parameters if p.is_constexpr],
        "defaults": {name: report(p.default, depth + 1) for name, p in signature.items() if p.default is not p.empty},
    }
