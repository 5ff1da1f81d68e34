"""Binaries of earlier runs: the same text gives the same binary, and nothing else ever does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from grader.building import BinaryCache, BuildOptions, compile_described, describe
from grader.building import binary_cache as module
from grader.labs import get_lab
from grader.reading import read
from grader.sandbox import Answer, Sandbox
from tests.submissions import TESTS

LAB = replace(get_lab("dds"), speed_cases=())


class Counted(Sandbox):
    compiled = 0

    def ask(self, header, blobs=(), **limits):
        Counted.compiled += header["op"] == "compile" or (header["op"], header["capability"]) == ("allocate", 80)
        return super().ask(header, blobs, **limits)


@pytest.fixture
def described():
    path = TESTS / "styles" / "dds_plain.py"
    source = read(path, [LAB]).labs["dds"]
    return source, describe(LAB, source, BuildOptions((80, 90), "check", 1))


def built(described, cache):
    Counted.compiled = 0
    source, bundle = described
    answer = compile_described(LAB, source, bundle, BuildOptions((80, 90), "check", 1, None, Counted, cache=cache))
    return answer, Counted.compiled


def test_the_second_time_nothing_is_compiled_and_all_is_the_same(described, tmp_path):
    cache = BinaryCache(tmp_path / "cache")
    first, compiled = built(described, cache)
    assert compiled == 2 * len(first.configs)
    second, again = built(described, cache)
    assert again == 0
    assert second == first
    assert built(described, None) == (first, compiled)


@pytest.mark.slow
def test_a_file_that_is_not_whole_is_compiled_again(described, tmp_path):
    cache = BinaryCache(tmp_path)
    first, compiled = built(described, cache)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert built(described, cache) == (first, compiled)


def test_a_binary_that_is_none_is_no_binary(described, tmp_path):
    """What lies in the folder is looked at like an answer that just came."""
    cache = BinaryCache(tmp_path)
    built(described, cache)
    for file in tmp_path.iterdir():
        file.write_bytes(file.read_bytes().replace(b"\x7fELF", b"\x7fFLE"))
    answer, compiled = built(described, cache)
    assert compiled == 0
    assert answer.status == "build_error"
    assert "unusable" in answer.message


def test_text_kernel_request_and_compiler_are_the_key(described, tmp_path, monkeypatch):
    made = described[1].made
    cache, request, answer = BinaryCache(tmp_path), {"op": "compile", "constants": {"BLOCK_M": 16}}, Answer({"a": 1}, [b"x"])
    cache.keep(made, request, answer)
    assert cache.answer(made, request) == answer
    assert cache.answer(replace(made, text=made.text + " "), request) is None
    assert cache.answer(replace(made, kernel="other"), request) is None
    assert cache.answer(made, {**request, "constants": {"BLOCK_M": 32}}) is None
    monkeypatch.setattr(module, "_compiler", lambda: "triton of another version")
    assert cache.answer(made, request) is None


def test_the_folder_stays_small_and_one_that_cannot_be_used_keeps_nothing(described, tmp_path, monkeypatch):
    made = described[1].made
    monkeypatch.setattr(module, "MAX_FILES", 8)
    cache = BinaryCache(tmp_path / "cache")
    for number in range(20):
        cache.keep(made, {"number": number}, Answer({"number": number}, []))
    assert len(list((tmp_path / "cache").iterdir())) <= 8
    assert cache.answer(made, {"number": 19}) is not None
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    nowhere = BinaryCache(file)
    nowhere.keep(made, {}, Answer({}, []))
    assert nowhere.answer(made, {}) is None


def test_all_that_runs_beside_the_compiler_is_part_of_the_key(monkeypatch, tmp_path):
    folder = Path(module.__file__).with_name("sandboxed")
    assert set(folder.glob("*.py")) == set(module.COMPILING)
    keys = set()
    for at in range(len(module.COMPILING) + 1):
        changed = [tmp_path / path.name for path in module.COMPILING]
        for number, (path, copy) in enumerate(zip(module.COMPILING, changed, strict=True)):
            copy.write_bytes(path.read_bytes() + b"#" * (number == at))
        monkeypatch.setattr(module, "COMPILING", tuple(changed))
        keys.add(module._compiler.__wrapped__())
        monkeypatch.undo()
    assert len(keys) == len(module.COMPILING) + 1
