"""A layer of a GPTQ checkpoint, packed by other code: the lab reads the same weight out of it, and the layer takes its state dict."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from grader.labs import get_lab
from grader.labs.gptq.packing import levels
from grader.model import Problem
from tests.commands import ran
from tests.kernels.test_layers import TOO_NEW

ROOT = Path(__file__).parents[3]
K, N = 96, 24
GROUPS = [8, 32, 96]
SECONDS = 120


def packed(group_size):
    """(state dict, weight as nested lists [K][N]), bit by bit as the format is defined; each stored zero of 0 to 15 is in it."""
    generator = torch.Generator().manual_seed(group_size)
    groups = K // group_size
    q = torch.randint(0, 16, (K, N), generator=generator).tolist()
    stored = [[(5 * g + n) % 16 for n in range(N)] for g in range(groups)]
    scales = (0.01 + torch.rand(groups, N, generator=generator) / 16).half()
    qweight = torch.zeros(K // 8, N, dtype=torch.int64)
    for k in range(K):
        for n in range(N):
            qweight[k // 8, n] += q[k][n] * 16 ** (k % 8)
    qzeros = torch.zeros(groups, N // 8, dtype=torch.int64)
    for g in range(groups):
        for n in range(N):
            qzeros[g, n // 8] += stored[g][n] * 16 ** (n % 8)
    weight = [
        [(q[k][n] - (stored[k // group_size][n] + 1)) * float(scales[k // group_size, n]) for n in range(N)] for k in range(K)
    ]
    state = {
        "qweight": wrapped(qweight), "qzeros": wrapped(qzeros), "scales": scales,
        "g_idx": torch.tensor([k // group_size for k in range(K)], dtype=torch.int32),
    }
    return state, weight


def wrapped(words):
    """int64 of 32 unsigned bits as the int32 with the same bits."""
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


@pytest.mark.parametrize("group_size", GROUPS)
def test_the_lab_reads_the_weight_of_a_checkpoint(group_size):
    state, weight = packed(group_size)
    tensors = {"qweight_ptr": state["qweight"], "scales_ptr": state["scales"], "zeros_ptr": state["qzeros"]}
    q, zeros, scales = levels(Problem(tensors, {"group_size": group_size}))
    assert torch.equal((q - zeros) * scales, torch.tensor(weight, dtype=torch.float64))


def checked() -> dict[str, float]:
    """What the layer makes of such state dicts, with its kernel interpreted: runs in a process of its own."""
    sys.path.insert(0, str(ROOT / "solutions"))
    import gptq

    answers: dict[str, float] = {}
    x = torch.randn(5, K, generator=torch.Generator().manual_seed(1)).half()
    for group_size in GROUPS:
        state, weight = packed(group_size)
        layer = gptq.GPTQLinear(K, N, group_size=group_size)
        layer.load_state_dict(state)
        assert "g_idx" in state
        exact = x.double() @ torch.tensor(weight, dtype=torch.float64)
        assert torch.equal(gptq.naive(x, layer.qweight, layer.scales, layer.qzeros), exact.half())
        answers[str(group_size)] = float((layer(x).double() - exact).abs().max() / exact.abs().max())
    ordered = torch.nn.Sequential(gptq.GPTQLinear(K, N, group_size=32))
    state = {f"0.{name}": tensor for name, tensor in packed(32)[0].items()}
    ordered.load_state_dict(state)
    state["0.g_idx"] = state["0.g_idx"].flip(0)
    try:
        ordered.load_state_dict(state)
    except ValueError as error:
        answers["act-order"] = float("0.g_idx in another order" in str(error) and "desc_act=False" in str(error))
    answers["gptq_v2"] = float(refuses_zeros_as_they_are(gptq))
    return answers


def refuses_zeros_as_they_are(gptq) -> bool:
    """Names and shapes of gptq_v2 are the same: only the configuration tells it apart, or zeros of 8 throughout."""
    state, _ = packed(32)
    layer = gptq.GPTQLinear(K, N, group_size=32)
    symmetric = torch.full_like(state["qzeros"], gptq.SYMMETRIC_V2)
    with pytest.raises(ValueError, match="checkpoint_format='gptq_v2', expected 'gptq'"):
        gptq.GPTQLinear(K, N, group_size=32, checkpoint_format="gptq_v2")
    with pytest.raises(ValueError, match="found 8 for every zero in qzeros, as symmetric checkpoints in the format gptq_v2"):
        layer.load_state_dict({**state, "qzeros": symmetric})
    layer.load_state_dict({**state, "qzeros": symmetric - 0x11111111})
    return bool((layer.qzeros == 0x77777777).all())


@pytest.mark.slow
def test_the_layer_takes_the_state_dict_of_a_checkpoint():
    done = ran(sys.executable, __file__, seconds=SECONDS, TRITON_INTERPRET="1", PYTHONPATH=str(ROOT))
    if TOO_NEW in done.stderr:
        pytest.skip("Triton 3.6's own interpreter does not run with this NumPy")
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert answers.pop("act-order") == 1
    assert answers.pop("gptq_v2") == 1
    assert set(answers) == {str(size) for size in GROUPS}
    assert all(error < 2.0**-10 for error in answers.values()), answers


@pytest.mark.parametrize("tile", [16, 32, 64, 128])
def test_a_case_has_groups_that_end_inside_a_tile(tile):
    """A kernel that takes one group for each tile, or whole tiles for each group, is wrong in it: a group may be any multiple of 8."""
    cases = [case for case in get_lab("gptq").cases if case.configs == "all"]
    assert any(case.K > case.group_size > 0 and case.group_size % tile and tile % case.group_size for case in cases)


if __name__ == "__main__":
    print(json.dumps(checked()))
