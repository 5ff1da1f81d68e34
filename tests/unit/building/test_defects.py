"""An error of the grader's own while a kernel is built is told as such, and costs nobody a point."""

from __future__ import annotations

from typing import ClassVar

import pytest

from grader.building import BuildOptions, build, describe, read_by_triton
from grader.building.compiler import NO_TIME_LEFT, Compiler
from grader.judging.scoring import refused
from grader.labs import get_lab
from grader.model import Refusal
from grader.reading import read
from grader.sandbox import Answer, MemoryCorrupted, Sandbox
from tests.submissions import TESTS


@pytest.fixture
def operations():
    from grader.building.sandboxed import operations

    return operations


def raised(error, path):
    """The error, raised below a line of the module at `path`."""
    scope = {"error": error}
    exec(compile("def kernel():\n    raise error", path, "exec"), scope)
    with pytest.raises(type(error)) as caught:
        scope["kernel"]()
    return caught.value


@pytest.mark.parametrize("operation", ["made", "compile", "read", "interpret"])
@pytest.mark.parametrize("error", [ImportError("cannot import name 'x'"), FileNotFoundError("no ptxas")])
def test_a_broken_environment_is_not_the_kernels(operations, tmp_path, operation, error):
    module = tmp_path / "kernel_module.py"
    module.write_text("def kernel():\n    raise error", encoding="utf-8")
    said = operations.error_answer(raised(error, str(module)), str(module), operation)
    assert (said["error"], said["line"]) == ("GraderDefect", None)
    assert type(error).__name__ in said["message"]


def test_a_students_own_import_is_the_students(operations, tmp_path):
    module = tmp_path / "kernel_module.py"
    module.write_text("def kernel():\n    raise error", encoding="utf-8")
    for operation, error in (("load", ImportError("no such thing")), ("compile", ValueError("no such tile"))):
        said = operations.error_answer(raised(error, str(module)), str(module), operation)
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
    assert refused(lab, answer, gpu=False).status == "not_graded"


class Spending(Sandbox):
    """A sandbox in which each request for machine code takes so many seconds, and the first module does not load."""

    seconds = 0.0
    asked: ClassVar[list[str]] = []

    def ask(self, header, blobs=(), **limits):
        self.asked.append(header["op"])
        if header["op"] == "made" and self.asked.count("made") == 1:
            return Answer({"error": "TypeError", "message": "no such thing", "line": None}, [])
        if header["op"] == "lower":
            self.spent += self.seconds
            return Answer({"shared_bytes": 0, "tiles": "", "plain": True}, [])
        return super().ask(header, blobs, **limits)


@pytest.mark.parametrize(("seconds", "lowered"), [(1.0, 2), (15.0, 1)])
def test_what_building_costs_is_counted_in_its_own_seconds_and_a_module_that_did_not_load_is_asked_nothing(
    monkeypatch, seconds, lowered
):
    monkeypatch.setattr(Spending, "seconds", seconds)
    monkeypatch.setattr(Spending, "asked", [])
    lab = get_lab("w8a8")
    source = read(TESTS / "styles" / "w8a8_plain.py", [lab]).labs["w8a8"]
    options = BuildOptions((90,), "check", 1, None, Spending)
    bundle = describe(lab, source, options)
    with Compiler(lab, source, options, seconds=10.0) as compiler:
        found, _ = compiler.lower(bundle, [(90, config, "one_tile") for config in bundle.configs])
    assert Spending.asked[-2 - lowered :] == ["made", "made", *["lower"] * lowered]
    assert [NO_TIME_LEFT in failure.message for failure in found.failures] == [False, *[True] * (2 - lowered)]
    assert not any(failure.ours for failure in found.failures)


@pytest.mark.parametrize(("printed", "raises", "said"), [
    ("LLVM ERROR: Illegal layout\nmodule.py:3:0: error: Failures have been detected\nmodule.py:3:0: note: Pipeline failed while "
     "executing [`Turns` on 'builtin.module'", RuntimeError("PassManager::run failed"), "LLVM ERROR: Illegal layout, in its pass Turns"),
    ("python: Turns.cpp:7: f(): Assertion `rank' failed.\n", RuntimeError("PassManager::run failed"), "Assertion `rank' failed."),
    ("", KeyError("ttg.target"), "KeyError: 'ttg.target'"),
    ("<unknown>:0: error: failed to legalize", RuntimeError("PassManager::run failed"), "RuntimeError: PassManager::run failed"),
    ("kernel_module.py:2:4: error: operand #1 must be a condition", RuntimeError("PassManager::run failed"), None),
])
def test_a_stage_that_names_no_line_says_nothing_of_the_kernel(tmp_path, monkeypatch, printed, raises, said):
    from grader.building.sandboxed import error_report, operations

    module = tmp_path / "kernel_module.py"
    module.write_text("def kernel():\n    pass", encoding="utf-8")
    monkeypatch.setattr(error_report.os, "pread", lambda *where: printed.replace("module.py:3", f"{module.name}:3").encode())
    failed = error_report.StageFailed()
    failed.__cause__ = raises
    answer = operations.error_answer(failed, str(module), "lower")
    kind, line = ("CompilerFailure", None) if said else ("RuntimeError", 2)
    assert (answer["error"], answer["line"]) == (kind, line)
    assert answer["message"] == (said or "operand #1 must be a condition")


class Failing(Sandbox):
    """A sandbox whose compiler fails where M is 1, or always: by its own word, or by a signal."""

    always = dies = False

    def ask(self, header, blobs=(), **limits):
        if header["op"] in ("compile", "lower", "allocate") and (self.always or header["constants"].get("M") == 1):
            if self.dies:
                raise MemoryCorrupted("it crashed (SIGABRT)")
            return Answer({"error": "CompilerFailure", "message": "LLVM ERROR: no", "line": None}, [])
        return super().ask(header, blobs, **limits)


@pytest.mark.parametrize("dies", [False, True])
def test_what_the_compiler_itself_fails_on_is_not_gradable_and_the_rest_is(monkeypatch, dies):
    monkeypatch.setattr(Failing, "dies", dies)
    lab = get_lab("w8a8")
    source = read(TESTS / "styles" / "w8a8_plain.py", [lab]).labs["w8a8"]
    bundle = build(lab, source, BuildOptions((80, 90), "verdict", 1, None, Failing))
    assert bundle.ungradable == set(bundle.refused) != set()
    for pair in bundle.ungradable:
        told = bundle.refusal(*pair)
        assert told.status == "unsupported"
        if not lab.hides(pair[0]):
            reason = "it crashed (SIGABRT)" if dies else "LLVM ERROR: no"
            said = (f"{source.path.name} line ", "not gradable here", f"{reason} (Triton ", "def W8A8_MM(")
            assert all(words in told.message for words in said)
    assert bundle.refusal(*next(pair for pair in bundle.launches if pair not in bundle.refused)) is None
    monkeypatch.setattr(Failing, "always", True)
    nothing = build(lab, source, BuildOptions((80, 90), "verdict", 1, None, Failing))
    assert (nothing.status, nothing.message.count("not gradable here")) == ("not_graded", 1)
