"""One config, one specialisation, one target: Triton to cubin, without a GPU."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any

from grader.building.sandboxed import ptx
from grader.building.sandboxed.error_report import StageFailed, keep_places
from grader.building.sandboxed.front_end import refuse
from grader.interpreter.generated_module import LoadedModule, constants, see_gpu

OWNS = (
    re.compile(
        r'\n@(?!\S+ = external addrspace\(3\) |\S+ = private unnamed_addr constant [^"]*c"__CUDA_(?:FTZ|PREC_SQRT|ARCH)\\00",)'
    ),
    re.compile(r"\ndeclare (?![^@\n]*@(?:llvm\.|__nvvm_reflect\())"),
    re.compile(
        r"\.(?:(?<!\w\.)|(?<=\\[0-9A-F]{2}\.))(?:global|local|const|extern|visible|weak|common|func|entry)(?![.:\w])"
    ),
    re.compile(r"global\.(?:c[agsv]|w[bt])\.(?![bv]\d)"),
    re.compile(r"volatile\.global\.(?![bv]\d)"),
)
"""In LLVM IR: a variable that is neither shared memory nor a question of libdevice's (building/cubin.py), a function that is not LLVM's
own, a declaration in inline PTX, and two words for one cache, which ptxas refuses. Each begins with a letter of its own: one of them
all takes fifty times as long."""
WORD = re.compile(r'"[^"]*"|versionMajor = \d|#[a-z_]+|[A-Za-z_!@][\w.$]*')
BESIDE = re.compile(r'("[^"]*")|%[\w.#:]+|\b(?:\d+x)+|(?m:^#loc.*$)')
"""In Triton's IR: what says of which kind an operation is, and what does not: names of values, sizes, places."""

TRANSLATED: set[frozenset[str]] = set()
"""Kinds of operations of which this process has made LLVM IR that was plain."""

ON_TILES = re.compile(
    r'(?m)^(?:[^=\n]*= | *)"?tt\.(?!func|splat|addptr|broadcast|expand_dims|make_range)\w.*tensor<.*|^ *}.*'
)
NAMES = re.compile(r"%[\w.#:]+|loc\([^)]*\)")
TILE = re.compile(r"tensor<((?:\d+x)+)")
MOST_A_THREAD = 1024
"""Elements of one tile that a thread may have before its local memory has to be known; a thread has at most 255 registers."""

REGISTERS, FEWEST = 65536, 168
"""Those of an SM, and with how many a thread every wgmma can be compiled: its sums alone may take 128."""


def compile_one(module: LoadedModule, request: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Compiles as the request says and returns (metadata and what PTX says, [cubin]). Raises what Triton raises.

    Triton's own loop over its stages keeps each result on disk, under a digest of the whole compiler; nobody would look there again.
    """
    stages, metadata, made, _alive = _stages(module, request)
    tiles = _tiles(made)
    results = {}
    for name, stage in stages.items():
        made = results[name] = stage(made, metadata)
    cubin = results["cubin"]
    answer = {
        "entry": metadata["name"],
        "num_warps": metadata["num_warps"],
        "shared_bytes": metadata["shared"],
        "tiles": tiles,
        "scratch_bytes_per_program": int(metadata.get("global_scratch_size") or 0),
        "ptx": ptx.read(results["ptx"], metadata["num_warps"]),
        **_resources(cubin),
    }
    return answer, [cubin]


def lower_one(module: LoadedModule, request: dict[str, Any]) -> dict[str, Any]:
    """Compiles as the request says, down to LLVM IR. Raises what Triton raises.

    Returns the shared memory in bytes, and "plain": nothing but one kernel can come of it. A global variable, a function outside
    (libdevice's bring variables with them), PTX that declares something or that ptxas may refuse, or a tile of which a thread has more
    than registers and a few spills can hold makes it not plain, and so do few registers; the cubin says what came of those.

    Where each of its operations is of a kind that became plain LLVM IR before, it is not made again: translation goes operation by
    operation. What follows, LLVM's optimiser, PTX and machine code, refuses next to nothing and takes more than half of the time.
    """
    stages, metadata, made, _alive = _stages(module, request)
    tiles = _tiles(made)
    made = stages["ttir"](made, metadata)
    a_thread = max((math.prod(map(int, sizes.split("x")[:-1])) for sizes in TILE.findall(str(made))), default=0)
    a_thread //= 32 * metadata["num_warps"]
    registers = min(metadata["maxnreg"] or 255, REGISTERS // (32 * metadata["num_warps"]))
    made = stages["ttgir"](made, metadata)
    kinds = {frozenset(WORD.findall(line)) for line in BESIDE.sub(r"\1", str(made)).splitlines()}
    plain = kinds <= TRANSLATED
    if plain:
        shared = _allocated(stages, metadata, made)
    else:
        with _not_optimised():
            plain = is_plain(stages["llir"](made, metadata))
        shared = metadata["shared"]
        TRANSLATED.update(kinds if plain else ())
    roomy = a_thread <= MOST_A_THREAD and registers >= FEWEST
    return {"shared_bytes": shared, "tiles": tiles, "plain": roomy and plain}


def allocate_one(module: LoadedModule, request: dict[str, Any]) -> dict[str, Any]:
    """Compiles as the request says, until shared memory is allocated, and returns its bytes. Raises what Triton raises.

    Where the front end's tiles are known to fit, it ends there, and the answer has no bytes.
    """
    stages, metadata, made, _alive = _stages(module, request)
    tiles = _tiles(made)
    if tiles in request.get("fitting", ()):
        return {"shared_bytes": 0, "tiles": ""}
    made = stages["ttgir"](stages["ttir"](made, metadata), metadata)
    return {"shared_bytes": _allocated(stages, metadata, made), "tiles": tiles}


def _tiles(made: Any) -> str:
    """A digest of what the front end's IR does with tiles, whatever it knows of addresses; none where a loop has stages of its own."""
    found = [NAMES.sub("", line) for line in ON_TILES.findall(str(made))]
    text = "\n".join(sorted(found))
    return "" if "tt.num_stages" in text else hashlib.sha256(text.encode()).hexdigest()


def _allocated(stages: dict[str, Any], metadata: dict[str, Any], made: Any) -> int:
    """Bytes of shared memory; a Triton that allocates it elsewhere goes on to LLVM IR."""
    from triton._C.libtriton import nvidia

    allocate = getattr(nvidia.passes.ttgpuir, "add_allocate_shared_memory_nv", None)
    if allocate is None:
        stages["llir"](made, metadata)
        return int(metadata["shared"])

    def last(passes: Any, *rest: Any) -> None:
        allocate(passes, *rest)
        passes.run(made, "allocate_shared_memory")
        raise _Allocated

    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv = last
    try:
        stages["llir"](made, metadata)
    except _Allocated:
        return int(made.get_int_attr("ttg.shared"))
    finally:
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv = allocate
    return int(metadata["shared"])


class _Allocated(Exception):
    """Shared memory is allocated; what comes after it is not wanted."""


def is_plain(llvm_ir: str) -> bool:
    """Whether nothing but one kernel can come of it."""
    return not any(pattern.search(f"\n{llvm_ir}") for pattern in OWNS)


@contextlib.contextmanager
def _not_optimised() -> Iterator[None]:
    """LLVM IR as it comes from Triton's own passes."""
    from triton._C.libtriton import llvm

    original = llvm.optimize_module
    llvm.optimize_module = lambda *_given, **_named: None
    try:
        yield
    finally:
        llvm.optimize_module = original


def read_one(module: LoadedModule, request: dict[str, Any]) -> dict[str, Any]:
    """Has Triton's front end read the kernel as the request says, without making code. Raises what Triton raises."""
    _stage, _metadata, _made, _alive = _stages(module, request)
    return {}


def _stages(module: LoadedModule, request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], Any, Any]:
    """The compiler's stages by name, the metadata that they fill, what the front end made, and what must live as long as that."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend
    from triton.compiler.compiler import Language

    keep_places()
    refuse()
    target = GPUTarget("cuda", request["capability"], 32)
    backend = make_backend(target)
    options = backend.parse_options(_options(request))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = _source(module, request)
    # for its key Triton reads what the kernel uses, and refuses assignments that it cannot follow there
    _ = source.fn.cache_key
    made = source.make_ir(
        target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.TRITON)
    stages = {name: _of_a_stage(stage) for name, stage in stages.items()}
    return stages, {"target": target, **options.__dict__}, made, context


def _of_a_stage(stage: Any) -> Any:
    """A stage whose errors say that they are of a stage: what the front end has against a kernel was said before."""
    from triton.runtime.errors import TritonError

    def run(made: Any, metadata: dict[str, Any]) -> Any:
        try:
            return stage(made, metadata)
        except (TritonError, _Allocated):  # the assembler's own words
            raise
        except Exception as error:
            raise StageFailed from error

    return run


def _source(module: LoadedModule, request: dict[str, Any]) -> Any:
    """The kernel with its signature, constants and specialisation, as Triton's compiler takes it."""
    from triton.compiler import ASTSource

    see_gpu(request["capability"])
    names = module.parameters
    signature = {name: request["signature"].get(name, "constexpr") for name in names}
    values = {(names.index(name),): value for name, value in constants(request["constants"]).items()}
    divisible = {(names.index(name),): [["tt.divisibility", 16]] for name in request["divisible"]}
    return ASTSource(fn=module.jit, signature=signature, constexprs=values, attrs=divisible)


def _options(request: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request["options"].items() if value is not None}


def _resources(cubin: bytes) -> dict[str, int]:
    """Registers a thread and bytes of local memory a thread, as NVIDIA's own tool reads them from the binary."""
    import triton.backends.nvidia

    tool = os.path.join(os.path.dirname(triton.backends.nvidia.__file__), "bin", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        printed = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, timeout=30)
    found = {key: int(value) for key, value in re.findall(r"\b(REG|STACK|LOCAL):(\d+)", printed.stdout)}
    return {"registers": found.get("REG", 0), "local_bytes": max(found.get("STACK", 0), found.get("LOCAL", 0))}
