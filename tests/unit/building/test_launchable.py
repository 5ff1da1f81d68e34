"""Without a GPU, what a GPU would have to launch is compiled as far as it takes to know that it could be."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import pytest

from grader.building import MOST_PROGRAMS, BuildOptions, assignments, compile_described, describe, with_binaries
from grader.building.compiler import HIDDEN
from grader.building.sm_limits import sm_limits
from grader.judging.scoring import facts_of
from grader.labs import get_lab
from grader.model import Config, GeneratedModule, KernelBundle, Launch
from grader.reading import read
from grader.sandbox import Sandbox
from tests.submissions import LABS, TESTS, exploits, style_file

pytestmark = pytest.mark.slow


class Noted(Sandbox):
    """A sandbox that notes what is compiled, how far, and the shared memory that came of it."""

    asked: ClassVar[list[tuple[str, str, int | None]]] = []

    def ask(self, header, blobs=(), **limits):
        answer = super().ask(header, blobs, **limits)
        if header["op"] in ("compile", "lower", "allocate"):
            parts = {key: value for key, value in header.items() if key not in ("op", "fitting")}
            self.asked.append((header["op"], repr(parts), answer.header.get("shared_bytes")))
        return answer


def built(lab, text, folder, scope="verdict") -> KernelBundle:
    path = folder / f"{lab.id}.py"
    path.write_text(text, encoding="utf-8")
    source = read(path, [lab]).labs[lab.id]
    Noted.asked.clear()
    options = BuildOptions((90,), scope, 1, None, Noted)
    described = describe(lab, source, options)
    assert isinstance(described, KernelBundle), described
    bundle = compile_described(lab, source, described, options)
    assert isinstance(bundle, KernelBundle), bundle
    return bundle


@pytest.mark.parametrize("scope", ["check", "verdict"])
@pytest.mark.parametrize("lab_id", LABS)
def test_every_specialisation_is_compiled_once_until_its_shared_memory_is_known(lab_id, scope, tmp_path):
    lab = get_lab(lab_id)
    bundle = built(lab, (TESTS / "styles" / f"{lab_id}_plain.py").read_text(encoding="utf-8"), tmp_path, scope)
    pairs = [(case, index) for case, indices in assignments(lab, bundle).items() for index in indices]
    assert not bundle.refused
    assert len({(index, bundle.launches[case, index].key) for case, index in pairs}) == len(
        {request for _, request, _ in Noted.asked}
    )
    assert [operation for operation, _, _ in Noted.asked].count("compile") == (
        len(bundle.configs) if scope == "check" else 1
    )


ODD_CONFIGS = """configs=[
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}, num_warps=4),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=4, maxnreg=32),
        triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64}, num_warps=4, maxnreg=200),
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64}, num_warps=8),
        triton.Config({"BLOCK_M": 256, "BLOCK_N": 256, "BLOCK_K": 64}, num_warps=16),
        triton.Config({"BLOCK_M": 512, "BLOCK_N": 128, "BLOCK_K": 32}, num_warps=32),
        triton.Config({"BLOCK_M": 512, "BLOCK_N": 256, "BLOCK_K": 32}, num_warps=32),
    ],"""


def test_a_batch_says_of_every_config_what_make_grade_says(tmp_path):
    """Whether a config compiles decides with which the cases are run: ptxas refuses some, and a batch asks it about few."""
    lab = get_lab("w8a8")
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    begin = text.index("configs=[")
    text = text[:begin] + ODD_CONFIGS + text[text.index("],", begin) + 2 :]
    at_home, in_a_batch = (built(lab, text, tmp_path, scope) for scope in ("check", "verdict"))
    assert in_a_batch.working == at_home.working
    assert {failure.config for failure in in_a_batch.failures} == {failure.config for failure in at_home.failures}
    assert 1 <= len(at_home.failures) < 7


def test_a_config_of_other_text_is_translated_though_one_of_the_same_operations_was(tmp_path):
    """Only LLVM IR says that its variable is one: were its config's operations known without their strings, it would have no binary."""
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    line = "    pid_n = pid % num_pid_n\n"
    assert line in text
    asm = '"{ .local .b32 own; mov.b32 $0, $1; }" if BLOCK_N == 64 else "mov.b32 $0, $1;"'
    arguments = 'constraints="=r,r", args=[pid_n], dtype=tl.int32, is_pure=True, pack=1'
    bundle = built(get_lab("w8a8"), text.replace(line, f"{line}    pid_n = tl.inline_asm_elementwise({asm}, {arguments})\n"), tmp_path)
    assert {config for _, config, _ in bundle.binaries} == {0, 2}
    assert bundle.lowered == {0, 1}


LARGE = """
        triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128}, num_warps=8, num_stages=3),"""


def test_shared_memory_is_that_of_the_binary(tmp_path):
    """Each launch that was compiled until then only, compiled to the end; of tiles that were known to fit no bytes are said."""
    lab = get_lab("w8a8")
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    text = text.replace("configs=[", f"configs=[{LARGE}")
    built(lab, text, tmp_path)
    early = {request: shared for operation, request, shared in Noted.asked if operation == "allocate"}
    built(replace(lab, speed_cases=()), text, tmp_path, "all")
    late = {request: shared for operation, request, shared in Noted.asked if operation == "compile"}
    known = {request for request, shared in early.items() if not shared}
    assert len(early) > len(known) > 3
    assert all(early[request] == late[request] for request in early.keys() - known)
    assert all(late[request] <= sm_limits(90).shared_bytes_per_program for request in known)


DEEP = """@triton.heuristics({"DEEP": lambda args: args["BLOCK_K"] if args["M"] != 5 else 8192})
@triton.jit
def W8A8_MM"""


def test_of_a_hidden_case_no_word_and_no_number_is_told(tmp_path):
    lab = get_lab("w8a8")
    hidden = replace(lab.case("one_tile"), name="hidden_1", M=5, hidden=True, configs="one")
    text = (TESTS / "styles" / "w8a8_plain.py").read_text(encoding="utf-8")
    text = text.replace("@triton.jit\ndef W8A8_MM", DEEP).replace(
        "BLOCK_K: tl.constexpr,\n", "BLOCK_K: tl.constexpr, DEEP: tl.constexpr,\n"
    )
    text = text.replace("arange(0, BLOCK_K)", "arange(0, DEEP)").replace("cdiv(K, BLOCK_K)", "cdiv(K, DEEP)")
    bundle = built(replace(lab, cases=(*lab.cases, hidden)), text, tmp_path)
    ((pair, message),) = bundle.refused.items()
    assert pair[0] == "hidden_1"
    assert message.endswith(HIDDEN)
    assert not bundle.failures


TILES = [one for one in exploits() if one.number == 69 and "8192" not in one.name]
"""A tile of 8192 is refused for the same reason, and takes as long to compile as these together."""


@pytest.mark.parametrize("exploit", TILES, ids=lambda exploit: exploit.name)
def test_what_a_gpu_cannot_launch_the_interpreter_does_not_either(exploit, tmp_path):
    """A build for a GPU, which has binaries of all, refuses the launches that a build without one does: memory is judged on both."""
    lab = get_lab(exploit.lab)
    names = {*exploit.fails, next(case.name for case in lab.cases if case.configs == "all")}
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in names), speed_cases=())
    bundles = [built(lab, exploit.source, tmp_path, scope) for scope in ("all", "check")]
    whole, checked = ({pair for pair in bundle.launches if pair in bundle.refused} for bundle in bundles)
    assert whole == checked
    assert set(exploit.fails) <= {case for case, _ in whole}


@pytest.mark.parametrize(("style", "asked"), [("plain", ()), ("persistent", (0,))])
def test_persistent_kernels_alone_are_asked_for_more_tiles_than_programs(style, asked):
    lab = get_lab("w8a8")
    path = style_file(f"w8a8_{style}")
    described = describe(lab, read(path, [lab]).labs[lab.id], BuildOptions((90,), "verdict", 1, None))
    assert isinstance(described, KernelBundle), described
    assert assignments(lab, described, compiled=False)["persistent"] == asked


@pytest.mark.parametrize(("programs", "asked"), [((5000, 10), {(1,)}), ((5000, 6000), {(0,)}), ((10, 4096), {(0,), (1,)})])
def test_a_config_of_far_too_many_programs_gives_its_turn_away_and_runs_where_all_do(programs, asked):
    lab, configs = get_lab("w8a8"), tuple(Config(index, {}, 4, 2) for index in (0, 1))
    launches = {(case.name, index): Launch((count, 1, 1), (), (), ()) for case in lab.cases for index, count in enumerate(programs)}
    bundle = KernelBundle("w8a8", configs, launches, {}, GeneratedModule("", "", ()))
    runs = assignments(lab, bundle, compiled=False)
    assert {runs[case.name] for case in lab.cases if case.configs == "one"} == asked
    assert {runs[case.name] for case in lab.cases if case.configs == "all"} == {(0, 1)}


@pytest.mark.parametrize("lab_id", LABS)
def test_no_launch_of_a_solution_has_more_programs_than_the_interpreter_is_good_for(lab_id):
    """GPTQ's took a minute for 8192 programs of one row each."""
    lab = get_lab(lab_id)
    source = read(TESTS.parent / "solutions" / f"{lab_id}.py", [lab]).labs[lab_id]
    described = describe(lab, source, BuildOptions((90,), "verdict", 1, None))
    assert isinstance(described, KernelBundle), described
    asked = assignments(lab, described, compiled=False)
    assert max(math.prod(described.launches[case, index].grid) for case, indices in asked.items() for index in indices) <= MOST_PROGRAMS


@pytest.mark.parametrize("lab_id", LABS)
def test_cases_of_one_config_and_one_specialisation_share_a_binary(lab_id):
    """With that of the cases of all configs, where these have it. What is hidden changes nothing of what is public."""
    lab = get_lab(lab_id)
    source = read(TESTS.parent / "solutions" / f"{lab_id}.py", [lab]).labs[lab_id]
    hidden = replace(lab.case("odd_m"), name="hidden_1", hidden=True, configs="all")
    ran = []
    for cases in (lab.cases, (*lab.cases, hidden)):
        whole = replace(lab, cases=cases)
        described = describe(whole, source, BuildOptions((90,), "verdict", 1, None))
        assert isinstance(described, KernelBundle), described
        ran.append(assignments(whole, described, compiled=False))
    asked, with_hidden = ran
    assert {**with_hidden, **asked} == with_hidden
    single = {case.name for case in lab.cases if case.configs == "one"}
    every = {case.name: tuple(range(len(described.configs))) for case in lab.speed_cases}
    by_key = {}
    for name in single:
        by_key.setdefault(described.launches[name, 0].key, set()).update(asked[name])
    others = {name: indices for name, indices in {**every, **asked}.items() if name not in single}
    elsewhere = {(described.launches[name, index].key, index) for name, indices in others.items() for index in indices}
    alone = {key: {index for index in indices if (key, index) not in elsewhere} for key, indices in by_key.items()}
    assert max(map(len, alone.values())) == 1
    assert len(by_key) < len(single)


HEURISTIC = """@triton.heuristics({"WIDE": lambda args: 4 if args["M"] > 64 else 1})
@triton.jit
"""


def test_facts_are_those_of_the_binary_that_is_timed(tmp_path):
    """A heuristic gives the small case, which a verdict compiles, other values: nothing is said of these."""
    lab = get_lab("dds")
    text = (TESTS / "styles" / "dds_plain.py").read_text(encoding="utf-8")
    text = text.replace("@triton.jit\n", HEURISTIC).replace("BLOCK_M: tl.constexpr", "BLOCK_M: tl.constexpr, WIDE: tl.constexpr")
    text = text.replace("tl.program_id(0)", "(tl.program_id(0) * WIDE // WIDE)")
    bundle = built(lab, text, tmp_path, "check")
    assert facts_of(lab, bundle, 90) == {}
    options = BuildOptions((90,), "check", 1, None, Sandbox)
    whole = with_binaries(lab, read(tmp_path / "dds.py", [lab]).labs["dds"], bundle, options)
    timed = {index: bundle.launches[lab.timed, index].key for index in bundle.working}
    assert facts_of(lab, whole, 90) == {index: whole.binaries[90, index, key].facts for index, key in timed.items()}
