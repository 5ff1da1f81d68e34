"""What a cubin may hold: compiled here, without a GPU, for the oldest and the newest target of the labs."""

from __future__ import annotations

import itertools
import os
import struct

import pytest
import triton
import triton.language as tl
from triton._C.libtriton import llvm
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource
from triton.runtime.errors import PTXASError

from grader.building.cubin import MOST_LOCAL_BYTES, _local_bytes, _sections, fault

pytestmark = pytest.mark.slow


@triton.jit
def plain(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, tl.math.div_rn(x, x + 2.718281828) + tl.sqrt_rn(x), mask=offs < n)


@triton.jit
def described(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [n, 64], [64, 1], [16, 64]).load([0, 0])
    tl.store(y_ptr + tl.arange(0, 16)[:, None] * 64 + tl.arange(0, 64)[None, :], x)


@triton.jit
def printing(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.device_print("x", offs)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def rooted(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    tl.store(y_ptr + offs, tl.sqrt(x) + tl.rsqrt(x) + tl.extra.cuda.libdevice.pow(x, 2.5), mask=offs < n)


@triton.jit
def turning(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(y_ptr + offs, tl.sin(tl.load(x_ptr + offs)))


@triton.jit
def assembly(x_ptr, y_ptr, n, BLOCK: tl.constexpr, ASM: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    word = tl.inline_asm_elementwise(ASM, "=r,r", [offs], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y_ptr + offs, tl.load(x_ptr + offs) + word.to(tl.float32))


KEEP = "ld.{0}.u32 $0, [a]; st.{0}.u32 [a], $1; }}"
OWN = {
    "array": "{ .global .align 4 .b32 kept[64]; .reg .u64 a; mov.u64 a, kept; " + KEEP.format("global"),
    "array with values": "{ .global .align 4 .b32 kept[2] = {1, 2}; .reg .u64 a; mov.u64 a, kept; "
    + KEEP.format("global"),
    "one word": "{ .global .b32 kept; .reg .u64 a; mov.u64 a, kept; " + KEEP.format("global"),
    "found through a generic address": "{ .global .b32 kept; .reg .u64 a; mov.u64 a, kept; cvta.global.u64 a, a; "
    "ld.u32 $0, [a]; st.u32 [a], $1; }",
    "constants": "{ .const .align 4 .b32 kept[2] = {1, 2}; .reg .u64 a; mov.u64 a, kept; ld.const.u32 $0, [a]; }",
}
MALLOC = (
    "{ .extern .func (.param .b64 r) malloc (.param .b64 s); .param .b64 p; .param .b64 q; .reg .u64 a; mov.u64 a, 16; "
    "st.param.b64 [p], a; call.uni (q), malloc, (p); ld.param.b64 a, [q]; cvt.u32.u64 $0, a; add.u32 $0, $0, $1; }"
)
KEPT_FOR_A_LAUNCH = {
    "shared": "{ .shared .align 4 .b32 kept[64]; .reg .u32 a; mov.u32 a, kept; " + KEEP.format("shared"),
    "local": "{ .local .align 4 .b32 kept[64]; .reg .u64 a; mov.u64 a, kept; " + KEEP.format("local"),
}


def compiled(kernel, capability, asm=None):
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
    constants = {(3,): 128}
    if asm is not None:
        signature["ASM"], constants[4,] = "constexpr", asm
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs={})
    return triton.compile(source, target=GPUTarget("cuda", capability, 32))


def cubin(kernel, capability, asm=None):
    return compiled(kernel, capability, asm).asm["cubin"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TRITON_CACHE_DIR", os.fspath(tmp_path))


@pytest.mark.parametrize("capability", [80, 90, 120])
@pytest.mark.parametrize("kernel", [plain, described, rooted], ids=["plain", "described", "rooted"])
def test_ordinary_kernels_are_fine(kernel, capability):
    found = fault(cubin(kernel, capability), kernel.__name__)
    if found and "install Triton 3.7" in found:
        pytest.skip(found)
    assert found is None


@pytest.mark.parametrize("asm", KEPT_FOR_A_LAUNCH.values(), ids=KEPT_FOR_A_LAUNCH)
def test_memory_that_ends_with_the_launch_is_fine(asm):
    assert fault(cubin(assembly, 90, asm), "assembly") is None


@triton.jit
def spilling(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    """A tile of 64 values a thread more than there are registers, from the first line to the last."""
    offs = tl.arange(0, 32768)
    x = tl.load(x_ptr + offs)
    for _ in range(n):
        x = x * tl.sum(x) + 1.0
    tl.store(y_ptr + offs, x)


def indexed(size):
    """PTX that reads and writes an array in local memory at a place that only a launch knows."""
    place = "mov.u64 a, kept; mul.wide.u32 b, $1, 4; add.u64 a, a, b; "
    return f"{{ .local .align 4 .b8 kept[{size}]; .reg .u64 a, b; {place}" + KEEP.format("local")


@pytest.mark.parametrize("capability", [80, 90, 120])
@pytest.mark.parametrize("size", [1 << 10, MOST_LOCAL_BYTES, MOST_LOCAL_BYTES + 8, 500 << 10])
def test_local_memory_is_limited_as_shared_memory_is(capability, size):
    said = fault(cubin(assembly, capability, indexed(size)), "assembly")
    if size <= MOST_LOCAL_BYTES:
        assert said is None
    else:
        assert said.startswith(f"the kernel needs {size / 1024:.0f} KB of local memory per thread, expected at most 16 KB")


@pytest.mark.parametrize("capability", [80, 90, 120])
def test_local_memory_is_what_nvidias_tool_says(capability):
    """Spills, an array, and both."""
    from grader.building.sandboxed.triton_stages import _resources

    for kernel, asm in ((spilling, None), (plain, None), (assembly, indexed(6000))):
        binary = cubin(kernel, capability, asm)
        assert _local_bytes(_sections(binary)) == _resources(binary)["local_bytes"], kernel.__name__
    assert _local_bytes(_sections(cubin(spilling, capability))) > 0


@pytest.mark.parametrize("capability", [80, 90, 120])
@pytest.mark.parametrize("asm", OWN.values(), ids=OWN)
def test_memory_of_its_own_is_refused(asm, capability):
    assert "memory of its own" in fault(cubin(assembly, capability, asm), "assembly")


@pytest.mark.parametrize(
    ("kernel", "asm", "words"),
    [
        (assembly, MALLOC, "allocates device memory (malloc)"),
        (turning, None, "(__cudart_i2opi_f), a table that sin, cos and tan need"),
        (printing, None, "prints (tl.device_print)"),
    ],
)
def test_what_a_kernel_cannot_do_by_itself_is_refused_with_what_needs_it(kernel, asm, words):
    assert words in fault(cubin(kernel, 90, asm), kernel.__name__)


def lowered(kernel, capability, asm=None):
    """The IR that the optimiser has not seen, as lower_one makes it."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(llvm, "optimize_module", lambda *given, **named: None)
        patched.setenv("TRITON_CACHE_DIR", f"{os.environ['TRITON_CACHE_DIR']}/lowered")
        return compiled(kernel, capability, asm).asm["llir"]


@pytest.fixture
def is_plain():
    """What says of LLVM IR that a kernel's binary would be itself alone."""
    from grader.building.sandboxed import triton_stages

    return triton_stages.is_plain


@pytest.mark.parametrize("capability", [80, 90, 120])
def test_nothing_that_a_cubin_is_refused_for_looks_plain_in_llvm_ir(capability, is_plain):
    """A batch without a GPU does not make the binary of a kernel that looks so."""
    rest = "mov.u32 $0, 1; }"
    spaced = {
        "tab": "{ .global\t.align 4 .b32 kept; " + rest, "remark": "{ .global/**/.b32 kept; " + rest,
        "line": "{ .reg .u32 a;\n.global .b32 kept; " + rest, "label": "{ first:.global .b32 kept; " + rest,
    }
    refused = [(assembly, asm) for asm in (*OWN.values(), *spaced.values(), MALLOC)] + [(turning, None), (printing, None)]
    for kernel, asm in refused:
        assert fault(cubin(kernel, capability, asm), kernel.__name__) or asm in spaced.values(), asm
        assert not is_plain(lowered(kernel, capability, asm)), (kernel.__name__, asm)
    for kernel, asm in ((plain, None), (described, None), (assembly, KEPT_FOR_A_LAUNCH["shared"])):
        assert is_plain(lowered(kernel, capability, asm)), (kernel.__name__, asm)
    assert not is_plain(lowered(assembly, capability, KEPT_FOR_A_LAUNCH["local"]))  # its size has to be known


@triton.jit
def cached(x_ptr, y_ptr, n, LOAD: tl.constexpr, STORE: tl.constexpr, EVICT: tl.constexpr, VOLATILE: tl.constexpr):
    i = tl.arange(0, 128)
    x = tl.load(x_ptr + i, mask=i < n, cache_modifier=LOAD, eviction_policy=EVICT, volatile=VOLATILE)
    tl.store(y_ptr + i, x, mask=i < n, cache_modifier=STORE, eviction_policy=EVICT)


def test_what_ptxas_refuses_of_caches_is_not_plain(is_plain):
    """Every pair of words for caches: where ptxas refuses, LLVM IR must not do; where it takes them, LLVM IR is enough."""
    loads = itertools.product(("", ".ca", ".cg", ".cv"), ("",), ("", "evict_first", "evict_last"), (False, True))
    stores = itertools.product(("",), (".wb", ".cg", ".cs", ".wt"), ("", "evict_first", "evict_last"), (False,))
    refused = 0
    for load, store, evict, volatile in (*loads, *stores):
        words = {"LOAD": load, "STORE": store, "EVICT": evict, "VOLATILE": volatile}
        types = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"} | dict.fromkeys(words, "constexpr")
        source = ASTSource(cached, types, words)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(llvm, "optimize_module", lambda *given, **named: None)
            patched.setattr(CUDABackend, "make_cubin", lambda self, src, metadata, opt, capability: b"")
            patched.setenv("TRITON_CACHE_DIR", f"{os.environ['TRITON_CACHE_DIR']}/unoptimised")
            llvm_ir = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["llir"]
        try:
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
            taken = True
        except PTXASError:
            taken, refused = False, refused + 1
        assert is_plain(llvm_ir) == taken, words
    assert refused > 15


LEFT_OVER = (
    "{ .global .align 1 .b8 left[LENGTH] = {WORDS}; .reg .u64 a; .reg .u16 b; mov.u64 a, left; ld.global.u8 b, [a]; "
    "cvt.u32.u16 $0, b; add.u32 $0, $0, $1; }"
)


def left_over(text):
    return LEFT_OVER.replace("WORDS", ", ".join(map(str, text))).replace("LENGTH", str(len(text)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        *((text, "") for text in (b"__CUDA_FTZ\0", b"__CUDA_FTZ\0__CUDA_PREC_SQRT\0")),
        *((text, "memory of its own") for text in (
            b"__CUDA_FTX\0", b"__CUDA_FTZ", b"__CUDA_FTZ\0\0", b"__CUDA_FTZ\0__CUDA_FTZ\0", b"__CUDA_FTZ\0\0\0\0\0")),
    ],
    ids=["one", "two", "other", "shorter", "longer", "twice", "padded"],
)
def test_the_questions_of_libdevice_may_stay_and_no_other_string(text, words):
    found = fault(cubin(assembly, 90, left_over(text)), "assembly")
    assert words in found if words else found is None


@pytest.mark.parametrize("more", [".global .b32 kept;", ".global .align 4 .b32 kept[2] = {0, 1};"], ids=["zeros", "values"])
def test_the_strings_excuse_nothing_else(more):
    asm = left_over(b"__CUDA_FTZ\0").replace("mov.u64 a, left;", more + " mov.u64 a, kept; st.global.u32 [a], $1; mov.u64 a, left;")
    assert "memory of its own" in fault(cubin(assembly, 90, asm), "assembly")


def test_another_entry_is_refused():
    image = cubin(plain, 90)
    assert "the entries plain; expected W8A8_MM alone" in fault(image, "W8A8_MM")


def test_a_second_entry_is_refused():
    """The mark of an entry on the symbol of the code section, which every cubin has."""
    image = bytearray(cubin(plain, 90))
    entry = struct.pack("<BB", 0x12, 0x10)
    section = image.index(struct.pack("<BB", 0x03, 0x00), image.index(b".symtab"))
    image[section : section + 2] = entry
    assert "expected plain alone" in fault(bytes(image), "plain")


OTHER_MACHINE = struct.pack("<H", 62)


@pytest.mark.parametrize("broken", [*(lambda image, cut=cut: image[:cut] for cut in (0, 3, 64, 700, 2000)),
                                    lambda image: image[:18] + OTHER_MACHINE + image[20:]])
def test_what_is_no_cubin_is_refused(broken):
    assert "not a readable cubin" in fault(broken(cubin(plain, 90)), "plain")
