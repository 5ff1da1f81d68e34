"""Runs the table's kernels and writes what they stored.

    python -m tests.language.run interpret FILE    under the grader's interpreter
    python -m tests.language.run launch FILE [2/8] compiled, on this machine's GPU; the second of eight parts
    python -m tests.language.run compile           ahead of time for an H200, without a GPU; prints what does not compile

FILE is an .npz of `case/argument` arrays and of `case!` where a kernel raised; `about` says with what.
"""

from __future__ import annotations

import atexit
import importlib.util
import json
import math
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.language.cases import TORCH, arrays, cases, kind_of, module


def load(name: str, text: str) -> ModuleType:
    """The text as a module, in a file of its own, which Triton reads."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    path = Path(folder) / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def kernels_of_the_table() -> ModuleType:
    """All its kernels."""
    return load("language_kernels", module(list(cases().values())))


def run(kernels: ModuleType, device: str, describe: Any, part: str = "1/1") -> dict[str, np.ndarray]:
    """Launches every kernel of a part once; `describe` makes text of an exception."""
    import torch

    results: dict[str, np.ndarray] = {}
    first, parts = (int(number) for number in part.split("/"))
    for name, case in list(cases().items())[first - 1 :: parts]:
        if device == "cuda" and torch.cuda.get_device_capability() < (case.capability // 10, case.capability % 10):
            continue
        arguments = {}
        for key, value in arrays(case).items():
            if isinstance(value, np.ndarray):
                flat = torch.from_numpy(value.reshape(-1).view(np.uint8).copy()).to(device)
                value = flat.view(getattr(torch, TORCH[kind_of(case, key)])).reshape(value.shape)
            arguments[key] = value
        try:
            if device == "cuda":
                getattr(kernels, name)[case.grid](**arguments, **case.constants)
                torch.cuda.synchronize()
            else:
                interpreted(getattr(kernels, name), case.grid, arguments, case.constants)
        except Exception as error:
            results[f"{name}!"] = np.array(describe(error))
            continue
        for key, value in arguments.items():
            if key.startswith("out"):
                packed = value.contiguous().view(torch.uint8).cpu().numpy() if value.dim() else value
                results[f"{name}/{key}"] = packed.view(arrays(case)[key].dtype).reshape(-1)  # type: ignore[union-attr]
    return results


def interpreted(kernel: Any, grid: tuple[int, ...], arguments: dict[str, Any], constants: dict[str, Any]) -> None:
    """One launch under the grader's interpreter. arguments: numbers, and tensors of PyTorch's on the host."""
    from grader.interpreter import program_loop
    from grader.interpreter.guarded_tensor import is_tensor, kind_of

    given = {
        name: program_loop.pointer(kind_of(value), value.data_ptr()) if is_tensor(value) else program_loop.number(value)
        for name, value in arguments.items()
    }
    program_loop.run(kernel.rewrite(), grid, range(math.prod(grid)), {**given, **constants})


def about(device: str) -> dict[str, Any]:
    """With what it ran."""
    import torch
    import triton

    gpu = torch.cuda.get_device_name() if device == "cuda" else ""
    versions = {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "numpy": np.__version__,
        "cuda": torch.version.cuda,
    }
    return {**versions, "gpu": gpu, "date": time.strftime("%Y-%m-%d")}


def interpret(path: str) -> None:
    """Everything through the grader's corrected interpreter, and once more (`again:...`), when every operation has its plan (plans.py)."""
    os.environ["TRITON_INTERPRET"] = "1"
    from grader.interpreter import faults, generated_module, language_shims

    generated_module.see_gpu(90)
    kernels = kernels_of_the_table()
    language_shims.install()

    def described(error: Exception) -> str:
        return json.dumps(faults.describe(error, kernels.__file__ or ""))

    results = run(kernels, "cpu", described)
    results |= {f"again:{key}": value for key, value in run(kernels, "cpu", described).items()}
    np.savez_compressed(path, about=np.array(json.dumps(about("cpu"))), **results)  # type: ignore[arg-type]


def launch(path: str, part: str = "1/1") -> None:
    """Everything compiled and launched."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    results = run(kernels_of_the_table(), "cuda", lambda error: f"{type(error).__name__}: {error}"[:500], part)
    np.savez_compressed(path, about=np.array(json.dumps(about("cuda"))), **results)  # type: ignore[arg-type]


def compile_all() -> int:
    """Compiles everything for an H200; the number that did not compile."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.runtime import driver

    class Target:
        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 90, 32)

    driver.set_active(Target())
    failed = 0
    kernels = kernels_of_the_table()
    for name, case in cases().items():
        signature = {}
        for key, value in case.arguments.items():
            kind = kind_of(case, key) if isinstance(value, str) else ("i32" if abs(value) < 2**31 else "i64")
            signature[key] = f"*{kind}" if isinstance(value, str) else kind
        signature.update(dict.fromkeys(case.constants, "constexpr"))
        names = list(signature)
        constants = {(names.index(key),): value for key, value in case.constants.items()}
        if case.capability > 90:
            continue
        try:
            source = ASTSource(getattr(kernels, name), signature, constants)
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
        except Exception as error:
            failed += 1
            root: BaseException = error
            while root.__cause__ is not None:
                root = root.__cause__
            print(f"{name}: {type(root).__name__}: {str(root)[-300:]}", flush=True)
    print(f"{len(cases()) - failed} of {len(cases())} compile")
    return failed


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "compile":
        sys.exit(1 if compile_all() else 0)
    {"interpret": interpret, "launch": launch}[what](*rest)
