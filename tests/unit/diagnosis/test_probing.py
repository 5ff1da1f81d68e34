"""Probing: what is read off an output is what the kernel does, and of right or random outputs nothing is read."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from grader.diagnosis import reasons
from grader.diagnosis.probing import outputs, pairs, probe, scales
from grader.gpu.devices import choose
from grader.judging.checking import check
from grader.labs import all_labs, get_lab
from grader.labs.probe import ScaleProbe, SubtractedProbe, paired, places, probe_of, scaled, shifts
from grader.labs.problems import generator_for, make_problem
from grader.pipeline.grading import GradeOptions, grade
from grader.running.interpreter import InterpretOptions, interpret
from tests.planting import base
from tests.probes import OPTIONS, described, probed
from tests.submissions import TESTS, all_mistakes, with_mistakes

PLAIN = {lab: base(lab).source for lab in with_mistakes()}
OWN = {"dds": ("one_block", "rectangular"), "gptq": ("one_tile", "groups_of_32")}
CASES = {lab: OWN.get(lab, ("one_tile", "all_tails")) for lab in all_labs()}
Y = "    y = acc.to(tl.float32) * x_scale[:, None] * w_scale[None, :]\n"


def edited(find: str, put: str, lab: str = "w8a8") -> str:
    assert PLAIN[lab].count(find) == 1
    return PLAIN[lab].replace(find, put)


def planted(lab: str, name: str) -> str:
    return next(mistake.source for mistake in all_mistakes() if (mistake.lab, mistake.name) == (lab, name))


# ---------------------------------------------------------------- outputs


def related(change, case="one_tile"):
    lab = get_lab("w8a8")
    reference = lab.reference(make_problem(lab, lab.case(case), 3), 1)
    return outputs.read(change(reference.y).to(torch.float16), reference)


@pytest.mark.parametrize(
    ("name", "words", "change"),
    [
        ("wrong_factor", "Y is 2 x the right Y", lambda y: 2 * y),
        ("wrong_factor", "Y is 0.5 x the right Y", lambda y: y / 2),
        ("wrong_factor", "Y is 0.00787 x the right Y", lambda y: y / 127),
        ("wrong_factor", "sign turned", lambda y: -y),
        ("negative_part_lost", "zero where it should be negative", lambda y: y.clamp(min=0)),
        ("sign_lost", "never negative", lambda y: y.abs()),
        ("cut_off", "between -6 and 6", lambda y: y.clamp(-6, 6)),
        ("constant_added", "the right Y + 3", lambda y: y + 3),
        ("rows_moved", "row 0 of Y holds row 1 of the right Y, and so on: 1 too high", lambda y: torch.cat([y[1:], y[-1:]])),
        ("columns_moved", "column 0 of Y holds column 63", lambda y: y.roll(1, dims=1)),
        ("rows_moved", "every wrong row is that one", lambda y: y[:1].expand_as(y)),
    ],
)
def test_what_an_output_is_to_the_right_one(name, words, change):
    said = related(change)
    assert said is not None
    assert said.name == name
    assert words in said.text


def test_nothing_is_read_off_right_or_random_outputs():
    torch.manual_seed(0)
    for change in (
        lambda y: y,
        lambda y: y + y.std() * torch.randn_like(y),
        lambda y: torch.randn_like(y),
        torch.zeros_like,
        lambda y: y * (1 + 0.05 * torch.rand_like(y)),
        lambda y: torch.where(torch.rand_like(y) < 0.9, 2 * y, y),
        lambda y: y + 3 * torch.arange(y.shape[1]),
        lambda y: y * (1 + 2.0**-10 * (torch.rand_like(y) - 0.5)),  # rounded to fp16 once more on the way
        lambda y: y * (1 + 2.0**-10 * (torch.rand_like(y) - 0.5)) + 1e-6,
    ):
        assert related(change) is None


# ---------------------------------------------------------------- pairs and scales, without a kernel


def made(change=lambda y, runs: y, *, few=False, M=24, N=40, K=48) -> pairs.Runs:
    generator = np.random.default_rng(4)
    x = generator.integers(17, 121, (6, M)).astype(float)
    w = generator.choice([-8, -7, -5, -3, -1, 1, 2, 4, 7], (6, N, K)) if few else generator.integers(20, 128, (6, N, K))
    runs = pairs.Runs(np.zeros((6, M, N)), x, w.astype(float), 2 * np.arange(M))
    return replace(runs, y=np.asarray(change(runs.right, runs), dtype=np.float16).astype(float))


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("Y[0, 0] took X[0, 0] x W[1, 0], expected X[0, 0] x W[0, 0]: the row of W (its output column) is 1 too high",
         lambda y, runs: runs.x[:, :, None] * np.roll(runs.w, -1, axis=1)[:, :, runs.k].transpose(0, 2, 1) * (np.arange(40) < 39)),
        ("the k of W is 1 too high", lambda y, runs: runs.x[:, :, None] * runs.w[:, :, runs.k + 1].transpose(0, 2, 1)),
        ("the first 16 k of W are used", lambda y, runs: runs.x[:, :, None] * runs.w[:, :, runs.k % 16].transpose(0, 2, 1)),
        ("Y[0, 0] is 3 x (X[0, 0] x W[0, 0])", lambda y, runs: 3 * y),
        ("counts 2 times for k = 0, 1 times for k = 12", lambda y, runs: None),
        ("never reaches Y[7, 0]: it is zero; so it is for k from 14 on", lambda y, runs: y * (runs.k < 14)[:, None]),
        ("so it is up to k = 4, while products from k = 6 on arrive", lambda y, runs: y * (runs.k > 5)[:, None]),
        ("holds, besides its own product, X[0, 0] x W[0, 2]",
         lambda y, runs: y + runs.x[:, :, None] * runs.w[:, :, np.minimum(runs.k + 2, 47)].transpose(0, 2, 1)),
    ],
)  # fmt: skip
def test_pairs(words, change):
    if words.startswith("counts"):
        runs = made(lambda y, runs: y * np.where(runs.k < 12, 2, np.where(runs.k < 16, 3, 1))[:, None])
        words = "counts 2 times for k = 0, 3 times for k = 12"
    else:
        runs = made(change)
    said = pairs.read(runs)
    assert said is not None
    assert words in said.text


def test_a_weight_that_counts_as_another():
    runs = made(few=True)
    held = np.where(runs.w == 7, -9, runs.w)
    said = pairs.read(replace(runs, y=runs.x[:, :, None] * held[:, :, runs.k].transpose(0, 2, 1)))
    assert said is not None
    assert said.text == "a weight of 7 counts as -9, in every place"


def test_no_pair_is_read_off_right_or_random_products():
    generator = np.random.default_rng(5)
    shape = (6, 24, 40)
    for change in (
        lambda y, runs: y,
        lambda y, runs: generator.integers(-900, 900, shape).astype(float),
        lambda y, runs: np.full(shape, np.nan),
        lambda y, runs: y * generator.uniform(0.9, 1.1, shape),
        lambda y, runs: np.sort(np.where(np.arange(40) < 30, y, 0), axis=2),
        lambda y, runs: 1e-3 * np.cumsum(runs.x[:, :, None] * runs.w[:, :, runs.k].transpose(0, 2, 1), axis=2),
    ):
        assert pairs.read(made(change)) is None


INPUT, WEIGHT = ScaleProbe("a", "m", "input scale", divides=True), ScaleProbe("b", "n", "weight scale")


def scale_runs(use):
    generator = np.random.default_rng(6)
    a, b = (1 + 2.0**-10 * generator.integers(1, 21, (6, size)) for size in (24, 40))
    runs = made()
    y = np.float16(runs.right / runs.x[:, :, None] * 13 * use(a, b)).astype(float)
    return scales.read(replace(runs, x=np.full((6, 24), 13.0), y=y), (INPUT, WEIGHT), (a, b))


@pytest.mark.parametrize(
    ("words", "use"),
    [
        (None, lambda a, b: a[:, :, None] * b[:, None, :]),
        ("token 1 used the input scale of token 0: every token gets the same", lambda a, b: a[:, :1, None] * b[:, None, :]),
        ("the index is 1 too high", lambda a, b: a[:, np.minimum(np.arange(24) + 1, 23), None] * b[:, None, :]),
        ("column 1 used the weight scale of column 0: the index of the token is used",
         lambda a, b: (a * b[:, :24])[:, :, None] * np.ones((1, 1, 40))),
        ("Y is not multiplied by the weight scale", lambda a, b: a[:, :, None] * np.ones((1, 1, 40))),
        ("Y is multiplied by the input scale twice", lambda a, b: a[:, :, None] ** 2 * b[:, None, :]),
        ("Y is divided by the weight scale", lambda a, b: a[:, :, None] / b[:, None, :]),
        ("the first 16 columns are used again and again", lambda a, b: a[:, :, None] * b[:, None, np.arange(40) % 16]),
        (None, lambda a, b: a[:, :, None] * b[:, None, :] * np.random.default_rng(1).uniform(0.97, 1.03, (6, 24, 40))),
    ],
)  # fmt: skip
def test_scales(words, use):
    said = scale_runs(use)
    assert (said is None) == (words is None)
    assert said is None or words in said.text


GROUPED = ScaleProbe("s", "n", "scale", group="size")


@pytest.mark.parametrize(
    ("words", "use"),
    [
        (None, lambda s, g: s[:, g]),
        ("used the scale of group 0 of column 0: every group gets the same", lambda s, g: s[:, 0 * g]),
        ("the index is 1 too high", lambda s, g: s[:, np.minimum(g + 1, 5)]),
        ("the first 16 columns are used again and again", lambda s, g: s[:, g][:, :, np.arange(40) % 16]),
        ("Y is not multiplied by the scale", lambda s, g: np.ones((1, 1, 1))),
    ],
)
def test_scales_of_groups(words, use):
    s = 1 + 2.0**-10 * np.random.default_rng(6).integers(1, 21, (6, 6, 40))
    runs = made()
    y = np.float16(runs.right / runs.x[:, :, None] * 13 * use(s, runs.k // 8)).astype(float)
    said = scales.read(replace(runs, x=np.full((6, 24), 13.0), y=y), (GROUPED,), (s.reshape(6, -1),), {"size": 8})
    assert (said is None) == (words is None)
    assert said is None or words in said.text


@pytest.mark.parametrize(
    ("words", "use"),
    [
        (None, lambda z, g: z[:, g]),
        ("1 less than the zero point is subtracted", lambda z, g: z[:, g] - 1),
        ("8 is subtracted from every weight", lambda z, g: 0 * z[:, g] + 8),
        ("nothing is subtracted", lambda z, g: 0 * z[:, g]),
        ("a zero point of 16 counts as 0", lambda z, g: z[:, g] % 16),
        ("used the zero point of group 0 of column 0: every group gets the same", lambda z, g: z[:, 0 * g]),
        ("group 0 of column 1 used the zero point of group 0 of column 0", lambda z, g: z[:, g][:, :, np.arange(40) // 8 * 8]),
        (None, lambda z, g: np.random.default_rng(8).integers(1, 17, (6, 24, 40))),
    ],
)
def test_zero_points(words, use):
    generator = np.random.default_rng(7)
    z, q = generator.integers(1, 17, (6, 6, 40)).astype(float), generator.integers(0, 16, (6, 40, 48)).astype(float)
    runs = made()
    w = q - np.repeat(z, 8, axis=1).transpose(0, 2, 1)
    y = 13.0 * (q[:, :, runs.k].transpose(0, 2, 1) - use(z, runs.k // 8))
    said = scales.read_subtracted(
        replace(runs, x=np.full((6, 24), 13.0), w=w, y=np.float16(y).astype(float)),
        SubtractedProbe("zero point", "size", lambda problem, generator: ({}, torch.zeros(1))), z, {"size": 8},
    )  # fmt: skip
    assert (said is None) == (words is None)
    assert said is None or words in said.text


# ---------------------------------------------------------------- labs


@pytest.mark.parametrize("lab", all_labs().values(), ids=lambda lab: lab.id)
def test_the_inputs_of_a_probe_are_one_product_each(lab):
    """By the lab's own reference; every k is hot once; the generic probe of a lab without one as well."""
    case = next(case for case in lab.cases if case.name == CASES[lab.id][1])
    problem = make_problem(lab, case, 1)
    hot = torch.cat([places(case.M, case.K, shift, generator_for(1, shift)) for shift in range(shifts(case.M, case.K))])
    assert set(hot.tolist()) == set(range(case.K))
    k = places(case.M, case.K, 1, generator_for(1))
    for known in (probe_of(lab, case), probe_of(replace(lab, id="no_such_lab"), case)):
        if lab.id == "w8a8" and not known.scales:
            continue  # X is divided by a scale there, which a lab without a probe cannot say
        for make in (paired, scaled):
            each = make(known, problem, k, generator_for(2))
            expected = each.value[:, None] * known.dense(each.problem)[:, k].t()
            for scale in known.scales:
                values = each.problem.tensors[scale.tensor].double().flatten()
                expected = expected * values[scale.own(k, case.N, each.problem.scalars)]
            reference = lab.reference(each.problem, 1)
            assert ((reference.y - expected).abs() <= 2.0**-10 * expected.abs()).all()
            assert each.problem.tensors["x_ptr"].stride() == problem.tensors["x_ptr"].stride()


# ---------------------------------------------------------------- kernels


KERNELS = {
    "sign": ("w8a8", edited(Y, Y + "    y = tl.abs(y)\n"), "sign_lost", "never negative"),
    "rows turned": ("w8a8", edited(Y, Y + "    y = tl.flip(y, 0)\n"), "rows_moved", "row 0 of Y holds row 15"),
    "token scale": ("w8a8", planted("w8a8", "one_scale_for_all_tokens"), "wrong_scale", "token 1 used the input scale of token 0"),
    "last k": ("w8a8", planted("w8a8", "last_k_block_dropped"), "products_left_out", "products up to k = 189 arrive"),
    "nibbles": ("w4a16", planted("w4a16", "nibble_order_reversed"), "wrong_pair", "expected X[0, 6] x W[0, 6]"),
    "seven": ("w4a16", planted("w4a16", "seven_negative"), "weight_counted_otherwise", "a weight of 7 counts as -9"),
    "table": ("gptq", (TESTS / "styles/gptq_gather_table.py").read_text(encoding="utf-8").replace("& 0xF) - 1)", "& 0xF))"),
              "weight_counted_otherwise", "a weight of -8 counts as -7"),
    "signed": ("gptq", planted("gptq", "signed"), "weight_counted_otherwise", "a weight of 1 counts as -15"),
    "group": ("gptq", planted("gptq", "one_scale_for_all_groups"), "wrong_scale", "every group gets the same"),
    "wraps": ("gptq", planted("gptq", "zero_signed"), "subtracted_otherwise", "9 counts as -7"),
    "zeros": ("gptq", planted("gptq", "zero_lowest_nibble_only"), "wrong_zero_point", "used the zero point of group 0 of column"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_says_what_it_does(name):
    lab, text, expected, words = KERNELS[name]
    found = probed(text, lab, CASES[lab])
    assert found is not None
    assert found.reading.name == expected
    assert words in found.reading.text
    assert not any(character.isdigit() and " 0" in found.reading.general for character in found.reading.general)


@pytest.mark.slow
@pytest.mark.parametrize("lab", PLAIN)
def test_a_right_kernel_is_accused_of_nothing(lab):
    """Asked as if it had failed, a probe finds the right elements and scales everywhere."""
    found = probed(PLAIN[lab], lab, CASES[lab], forced=True)
    assert found is None or found.reading.name == "sum_of_products"


def test_the_budget_ends_a_probe(monkeypatch):
    """Once the time is over no launch begins, and nothing is said."""
    lab = get_lab("w8a8")
    text = planted("w8a8", "one_scale_for_all_tokens")
    source, bundle = described(text, "w8a8")
    problems = {"all_tails": make_problem(lab, lab.case("all_tails"), 1)}
    outcomes = interpret(lab, source, bundle, problems, [("all_tails", 0)], OPTIONS)
    checked = [check(lab, problems["all_tails"], outcomes[0], bundle)]

    def start(**_):
        raise AssertionError("a launch began")

    assert probe(lab, source, bundle, problems, outcomes, 1, replace(OPTIONS, cancelled=lambda: True, start=start)) is None
    monkeypatch.setattr(reasons, "TELL_SECONDS", -1.0)
    monkeypatch.setattr(reasons, "diagnose", lambda *_: [None])
    found = reasons.reasons(lab, source, bundle, problems, outcomes, checked, outcomes, 1, InterpretOptions(1, start=start))
    assert found.diagnoses == [None]


@pytest.mark.parametrize(("number", "words"), [(math.nan, "Y is NaN in every element"), (math.inf, "Y is infinite in every element")])
def test_an_output_without_a_number_is_said_to_be_one_where_it_was_stored(number, words):
    lab = get_lab("w8a8")
    reference = lab.reference(make_problem(lab, lab.case("one_tile"), 3), 1)
    y = torch.full(reference.y.shape, number, dtype=torch.float16)
    said = outputs.read(y, reference, written=True)
    assert said is not None
    assert words in said.text
    assert outputs.read(y, reference) is None


def test_a_case_without_an_access_out_of_bounds_is_probed_when_another_has_one(tmp_path):
    """X is taken in another order than the bytes of its words, and past its end where a tile of words is partial."""
    path, lab = tmp_path / "w8a16.py", get_lab("w8a16")
    text = (TESTS / "styles" / "w8a16_words.py").read_text(encoding="utf-8")
    assert text.count("(4 * (first + word) + byte)") == 1
    path.write_text(text.replace("(4 * (first + word) + byte)", "(4 * first + WORDS * byte + word)"), encoding="utf-8")
    lab = replace(lab, cases=tuple(case for case in lab.cases if case.name in ("one_tile", "all_tails", "every_config")))
    report = grade(path, [lab], GradeOptions(choose("cpu")[0], jobs=1, capabilities=(90,), facts=False))
    verdict = report.labs[lab.id]
    assert any("past the last element of x" in test.message for test in verdict.tests if test.kind == "memory")
    said = {test.name: test.diagnosis or "" for test in verdict.tests if test.kind == "correctness"}
    assert "] took X[" in said["one_tile"], said
