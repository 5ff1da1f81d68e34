"""Ways of writing the same right kernel that students bring along: each is read, built and graded in full."""

from __future__ import annotations

from dataclasses import replace

import pytest

from grader.gpu.devices import choose
from grader.labs import get_lab
from grader.pipeline.grading import GradeOptions, grade
from tests.submissions import TESTS
from tests.versions import triton_before

BASE = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
TUNE = "@triton.autotune"
FLOOR = "tl.floor(x + 0.5)"
AT = "    # dequantise\n"
CAPABILITY = "import torch\nS = 3 if torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 9 else 2\n"
TARGET = "def is_cuda():\n    return triton.runtime.driver.active.get_current_target().backend == 'cuda'\n\n\nS = 3 if is_cuda() else 0\n"
PRUNE = "def prune(configs, nargs, **kwargs):\n    return [c for c in configs if c.kwargs['BLOCK_M'] <= nargs['M']] or configs\n\n\n"
EVEN_K = "@triton.heuristics({'EVEN_K': lambda args: args['K'] % args['BLOCK_K'] == 0})\n"
DEFAULTS = "ACC: tl.constexpr = tl.int32, GROUP: tl.constexpr = GROUP,\n"
TILES = (
    "from dataclasses import dataclass\nfrom enum import IntEnum\n\n\nclass Rows(IntEnum):\n    FEW = 16\n\n\n"
    "@dataclass(frozen=True)\nclass Tile:\n    m: int\n    n: int = 32\n\n"
    "    @property\n    def area(self):\n        return self.m * self.n\n\n\nTILES = [Tile(m=int(Rows.FEW))]\n\n\n"
)
TUPLES = (
    "import collections\nfrom operator import itemgetter\n\nTile = collections.namedtuple('Tile', 'm n')\n"
    "TILES = collections.OrderedDict(sorted({'small': Tile(16, 32)}.items(), key=itemgetter(0)))\n\n\n"
)
AGAIN = """
    kind = tl.float32
    for part in tl.static_range(2):
        acc += 0
    if pid >= 0:
        for part in tl.static_range(3):
            acc += 0
        kind = tl.float16
    else:
        acc += tl.zeros((BLOCK_M, BLOCK_N), kind).to(tl.int32)
    for turn in range(0, 2):
        for part in tl.static_range(2):
            acc += part * 0
"""
NAMESAKE = "unit = tl.constexpr(1)\n\n\n@triton.jit\ndef once(v):\n    return v * unit\n\n\n"
CONDITIONAL = """
    if BLOCK_M >= 16:
        unit = pid * 0 + 1
    for turn in range(0, 2):
        if BLOCK_M >= 16:
            acc = once(acc) * unit
"""
RETURNS = """
@triton.jit
def known(FLAG: tl.constexpr):
    if FLAG:
        return -7
    else:
        return -8


@triton.jit
def chosen(at):
    if at >= 0:
        return -7
    return -8


@triton.jit
def pair():
    return -7, 1


"""

IDIOMS = {
    "names_from_triton": BASE.replace("import triton\n", "import triton\nfrom triton import autotune, jit, Config\n")
    .replace("@triton.autotune", "@autotune").replace("@triton.jit", "@jit").replace("triton.Config", "Config"),
    "libdevice_module": BASE.replace("import triton\n", "import triton\nimport triton.language.extra.libdevice as ld\n")
    .replace(FLOOR, "ld.rint(x)"),
    "libdevice_through_tl": BASE.replace(FLOOR, "tl.extra.cuda.libdevice.rint(x)"),
    "lambda_grid": BASE + "\nW8A8_MM_grid = lambda M, N, K, META: "
    "(triton.cdiv(M, META['BLOCK_M']) * triton.cdiv(N, META['BLOCK_N']),)\n",
    "pruned_configs": BASE.replace(TUNE, PRUNE + TUNE)
    .replace('key=["M", "N", "K"],', 'key=["M", "N", "K"], prune_configs_by={"early_config_prune": prune},'),
    "capability": BASE.replace(TUNE, CAPABILITY + TUNE).replace("num_stages=3", "num_stages=S"),
    "current_target": BASE.replace(TUNE, TARGET + TUNE).replace("num_stages=3", "num_stages=S"),
    "heuristics": BASE.replace("@triton.jit\n", EVEN_K + "@triton.jit\n")
    .replace("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,\n"),
    "heuristic_of_a_default": BASE.replace("@triton.jit\n", EVEN_K + "@triton.jit\n")
    .replace("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr = False,\n"),
    "constexpr_constant": BASE.replace(TUNE, "QMAX = tl.constexpr(127)\n" + TUNE).replace(", 127.0)", ", QMAX)"),
    "constexpr_constant_first": BASE.replace(TUNE, "UNIT = tl.constexpr(1.0)\n" + TUNE)
    .replace("y = acc.to(tl.float32)", "y = (UNIT * acc).to(tl.float32)"),
    "do_not_specialize": BASE.replace("@triton.jit\n", "@triton.jit(do_not_specialize=['M'])\n"),
    "asserts_and_prints": BASE.replace(AT, "    tl.static_assert(BLOCK_M >= 16, f'{BLOCK_M}')\n    tl.device_print('pid', pid)\n"),
    "pipelined_range": BASE.replace("in range(0, tl.cdiv(K, BLOCK_K))", "in tl.range(0, tl.cdiv(K, BLOCK_K), num_stages=2)"),
    "dtypes_as_constants": BASE.replace("BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr, OUT: tl.constexpr, " + DEFAULTS)
    .replace('"BLOCK_M": ', '"OUT": tl.float16, "BLOCK_M": ').replace("y.to(tl.float16)", "y.to(OUT)")
    .replace("dtype=tl.int32", "dtype=ACC").replace(TUNE, "GROUP = tl.constexpr(8)\n" + TUNE),
    "and_or_not_of_masks": BASE.replace("mask=(offs_m[:, None] < M) & (offs_k", "mask=offs_m[:, None] < M and (offs_k")
    .replace("mask=(offs_k[:, None] < k_left) & (offs_n[None, :] < N)", "mask=not (offs_k[:, None] >= k_left or offs_n[None, :] >= N)")
    .replace("    # dequantise\n", "    x_scale = tl.sqrt(x_scale * x_scale)\n")
    .replace("tl.minimum(tl.maximum(x, -128.0), 127.0)", "tl.clamp(x, -128.0, 127.0, propagate_nan=tl.PropagateNan.ALL)"),
    "element_type": BASE.replace("y.to(tl.float16)", "y.to(y_ptr.dtype.element_ty)"),
    "constexpr_sizes": BASE.replace("    M, N, K,\n", "    M: tl.constexpr, N: tl.constexpr, K: tl.constexpr,\n")
    .replace("stride_ym, stride_yn,", "stride_ym: 'tl.constexpr', stride_yn: tl.constexpr,"),
    "star_import": BASE.replace("import triton\n", "import triton\nfrom triton.language import *\n"),
    "tiles_in_a_dataclass": BASE.replace(TUNE, TILES + TUNE).replace('"BLOCK_M": 16, ', '"BLOCK_M": TILES[0].m, '),
    "tiles_in_a_namedtuple": BASE.replace(TUNE, TUPLES + TUNE).replace('"BLOCK_M": 16, ', '"BLOCK_M": TILES["small"].m, '),
    "names_used_again": BASE.replace(AT, AGAIN + AT),
    "name_of_a_constant": BASE.replace(TUNE, NAMESAKE + TUNE).replace(AT, CONDITIONAL + AT),
    "constants_of_helpers": BASE.replace(TUNE, RETURNS + TUNE)
    .replace(AT, "    acc *= (known(True) // 2 + 5) * (chosen(pid) // 2 + 4) * (pair()[0] // 2 + 5)\n" + AT),
    "main_block": BASE + "\nif __name__ == '__main__':\n    import torch\n    print(torch.randn(3))\n",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", IDIOMS)
def test_idiom_is_graded_in_full(name, tmp_path):
    assert IDIOMS[name] != BASE
    if name == "constants_of_helpers" and triton_before("3.7"):
        pytest.skip("before Triton 3.7 what a helper returns is no constant, and -7 // 2 is -3")
    path = tmp_path / "w8a8.py"
    path.write_text(IDIOMS[name], encoding="utf-8")
    lab = get_lab("w8a8")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in ("odd_m", "every_config")))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False)).labs["w8a8"]
    assert report.status == "graded", report.message
    assert report.correctness_points == report.correctness_max
