"""An error of the grader's own while a kernel is built is told as such, and costs nobody a point."""

from __future__ import annotations

import pytest

from grader.building import BuildOptions, build, read_by_triton
from grader.judging.rubric import load_rubric
from grader.judging.scoring import refused
from grader.labs import get_lab
from grader.model import Refusal
from grader.reading import read
from grader.sandbox import Answer, Sandbox
from tests.submissions import TESTS


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.syspath_prepend(str(TESTS.parent / "grader" / "sandbox" / "inside"))
    import worker

    return worker


def raised(error, path):
    """The error, raised below a line of the module at `path`."""
    scope = {"error": error}
    exec(compile("def kernel():\n    raise error", path, "exec"), scope)
    with pytest.raises(type(error)) as caught:
        scope["kernel"]()
    return caught.value


@pytest.mark.parametrize("operation", ["made", "compile", "read", "interpret"])
@pytest.mark.parametrize("error", [ImportError("cannot import name 'x'"), FileNotFoundError("no ptxas")])
def test_a_broken_environment_is_not_the_kernels(worker, tmp_path, operation, error):
    module = tmp_path / "kernel_module.py"
    module.write_text("def kernel():\n    raise error", encoding="utf-8")
    said = worker.told(raised(error, str(module)), str(module), operation)
    assert (said["error"], said["line"]) == ("GraderDefect", None)
    assert type(error).__name__ in said["message"]


def test_a_students_own_import_is_the_students(worker, tmp_path):
    module = tmp_path / "kernel_module.py"
    module.write_text("def kernel():\n    raise error", encoding="utf-8")
    for operation, error in (("load", ImportError("no such thing")), ("compile", ValueError("no such tile"))):
        said = worker.told(raised(error, str(module)), str(module), operation)
        assert (said["error"], said["line"]) == (type(error).__name__, 2)


class Defective(Sandbox):
    """A sandbox in which Triton cannot be imported once it is to compile or read."""

    def ask(self, header, blobs=(), **limits):
        if header["op"] in ("compile", "read"):
            return Answer({"error": "GraderDefect", "message": "compile: ImportError: no triton", "line": None}, [])
        return super().ask(header, blobs, **limits)


@pytest.mark.parametrize("made", [build, read_by_triton])
def test_a_defect_costs_nobody_a_point(made):
    lab = get_lab("dds")
    path = TESTS.parent / "solutions" / "dds.py"
    answer = made(lab, read(path, [lab]).labs["dds"], BuildOptions((90,), "check", 1, None, Defective))
    assert isinstance(answer, Refusal)
    assert answer.status == "not_graded"
    assert "the grader itself failed (compile: ImportError: no triton)" in answer.message
    assert refused(lab, answer, load_rubric(), gpu=False).status == "not_graded"
