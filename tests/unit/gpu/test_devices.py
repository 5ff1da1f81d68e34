"""Which device grades, and the sentence when the one asked for cannot."""

from __future__ import annotations

import pytest

from grader.building import BuildOptions, build
from grader.gpu import devices
from grader.gpu.devices import Gpu, choose, cuda_problem
from grader.labs import get_lab
from grader.model import KernelSource, Refusal
from grader.reading import read
from grader.unusable import Unusable
from tests.submissions import TESTS

T4 = Gpu(0, "Tesla T4", 75, "580.0")


def test_a_gpu_below_8_0_is_named_with_the_way_out():
    problem = cuda_problem(T4)
    assert "Tesla T4 has compute capability 7.5" in problem
    assert "--device cpu" in problem


def test_auto_falls_back_to_the_cpu_with_a_note(monkeypatch):
    monkeypatch.setattr(devices, "gpus", lambda: [T4])
    device, note = choose("auto")
    assert device.kind == "cpu"
    assert "7.5" in note
    with pytest.raises(Unusable, match=r"7\.5"):
        choose("cuda")


def test_no_gpu_at_all(monkeypatch):
    monkeypatch.setattr(devices, "gpus", list)
    assert choose("auto")[1] is None
    with pytest.raises(Unusable, match="no NVIDIA GPU"):
        choose("cuda")


def test_int8_does_not_compile_for_7_5_and_says_so():
    lab = get_lab("w8a8")
    source = read(TESTS / "styles" / "w8a8_plain.py", [lab]).labs["w8a8"]
    assert isinstance(source, KernelSource)
    refusal = build(lab, source, BuildOptions((75,), "check", 1))
    assert isinstance(refusal, Refusal)
    assert refusal.status == "build_error"
    assert "compute capability 8.0 or later" in refusal.message
    assert "Traceback" not in refusal.message
