"""Any kernel runs watched: from the command line, from a test of a stranger's, with tensors of any type; what is wrong is said by line."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from grader.interpreter.child_process import launch
from tests.commands import ran
from tests.tables import each_row
from tests.unit.interpreter import watched_kernels

FILE = Path(watched_kernels.__file__)
TEXT = FILE.read_text(encoding="utf-8")
BLOCK, N = 64, 100
pytest_plugins = ["grader.interpreter.pytest_plugin"]


def line_of(kernel: str, words: str) -> int:
    """The line of a kernel in which some words stand."""
    begins = TEXT.index(f"def {kernel}(")
    return TEXT.count("\n", 0, TEXT.index(words, begins)) + 1


def run(kernel: str, *arguments: str) -> tuple[int, str]:
    """Exit status and output of the command."""
    done = ran(sys.executable, "-m", "grader", "run", f"{FILE}:{kernel}", *arguments, seconds=300)
    return done.returncode, done.stdout + done.stderr


def launched(kernel: str, **more):
    """A kernel of the file on a vector; what came of it, and the tensor it stored to."""
    x, out = torch.arange(float(N)), torch.arange(float(N)) + 7
    options = {"factor": 2.0, "BLOCK": BLOCK, **more}
    return launch(getattr(watched_kernels, kernel), (2,), x, out, N, **options), out


def test_a_right_kernel_gives_its_result_and_nothing_is_said():
    result, out = launched("right", empty=["out_ptr"])
    assert result.sentences == result.notes == ()
    torch.testing.assert_close(out, 2 * torch.arange(float(N)))


@pytest.mark.slow
@each_row
def test_what_is_wrong_is_said_with_its_line(kernel, line, words):
    result, _ = launched(kernel, seconds=2.0)
    found = [text for text in result.sentences if words in text]
    assert found, result.sentences
    number = int(re.search(r"watched_kernels\.py:(\d+)", found[0])[1])
    assert not line or number == line_of(kernel, line)


def test_what_was_never_stored_to_is_counted():
    result, _ = launched("half", empty=["out_ptr"])
    assert [text for text in result.sentences if f"{N // 2} of {N} elements of out_ptr were never stored to" in text]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.int64, torch.uint8])
def test_tensors_of_every_type_and_stride_come_back(dtype):
    x = torch.arange(2 * N).reshape(N, 2).to(dtype)
    out = torch.zeros(N, 2, dtype=dtype)
    result = launch(watched_kernels.half, (2,), x.flatten(), out.flatten(), 2 * N, 1.0, BLOCK=256)
    assert result.sentences == ()
    assert torch.equal(out.flatten()[:N], x.flatten()[:N])
    assert not out.flatten()[N:].any()


def test_a_gap_of_a_strided_view_is_no_element():
    x = torch.arange(2.0 * N)[::2]
    result = launch(watched_kernels.right, (2,), x, torch.zeros(N), N, 1.0, BLOCK=BLOCK)
    assert any("loads between the elements of x_ptr" in text for text in result.sentences)


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(TypeError, match="gets no factor"):
        launch(watched_kernels.right, (2,), torch.zeros(N), torch.zeros(N), N, BLOCK=BLOCK)
    with pytest.raises(TypeError, match="has no parameter BLOCKS"):
        launch(watched_kernels.right, (2,), torch.zeros(N), torch.zeros(N), N, 1.0, BLOCK=BLOCK, BLOCKS=3)
    with pytest.raises(TypeError, match="tensors of complex64 are not known here"):
        launch(watched_kernels.right, (2,), torch.zeros(N, dtype=torch.complex64), torch.zeros(N), N, 1.0, BLOCK=BLOCK)


def test_the_fixture_fails_the_test_with_the_sentences(watched):
    out = torch.empty(N)
    watched(watched_kernels.right, (2,), torch.ones(N), out, N, 3.0, BLOCK=BLOCK, empty=["out_ptr"])
    assert (out == 3).all()
    with pytest.raises(pytest.fail.Exception, match=r"watched_kernels.py:\d+: loads x_ptr\[100\]"):
        watched(watched_kernels.unmasked, (2,), torch.ones(N), out, N, 3.0, BLOCK=BLOCK)


def test_the_command_takes_tensors_from_its_line():
    vectors = ["x_ptr=fp32[100]", "out_ptr=empty:fp32[100]", "n=100", "factor=1.5", "BLOCK=64", "--grid", "2"]
    status, text = run("unmasked", *vectors)
    assert (status, text.count("\n")) == (1, 1)
    assert f"watched_kernels.py:{line_of('unmasked', 'tl.load(')}: loads x_ptr[100]" in text
    status, text = run("right", *vectors)
    assert (status, text) == (0, "nothing found: no access out of bounds, no race, no broken promise\n")


def test_the_command_takes_arguments_from_the_file():
    """An autotuner's config and heuristics as well."""
    assert run("tuned", "--config", "1")[0] == 0
    assert run("tuned", "--grid", "1")[0] == 0


@pytest.mark.slow
@each_row
def test_unusable_arguments_are_status_two(arguments, words):
    status, text = run(*arguments)
    assert status == 2
    assert words in text
