"""Whole models, tiny and on the CPU: what each way computes, what is said where it fails, how a record is shown. Nothing is timed."""

from __future__ import annotations

import copy
import inspect
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from typer.testing import CliRunner

from bench.__main__ import app
from bench.precompiling import sentence
from bench.whole import decoder as decoding
from bench.whole import encoder as encoding
from bench.whole import measuring
from bench.whole.llama import DecoderLayer, DecoderSizes
from bench.whole.model_drawings import draw_models
from bench.whole.pages import load_models, models_page
from bench.whole.recording import record_of, with_spans
from bench.whole.unfused import UnfusedLinear
from bench.whole.vit import EncoderSizes, ImageAttention, VisionEncoder, from_windows, to_windows
from grader.gpu.devices import gpus
from grader.labs import all_labs
from grader.model import Device
from grader.reporting.whole_models import (
    ModelEntry,
    ModelRecord,
    from_json,
    load_model_record,
    markdown,
    not_measured,
    shown,
    to_json,
)
from grader.unusable import Unusable
from model.layers import relative_error, weight_bytes
from model.swap import Swapped, options_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]
TINY = EncoderSizes(blocks=2, width=64, heads=2, image=64, window=3, global_blocks=(1,))
TINY_DECODER = DecoderSizes(width=128, hidden=384, heads=2, context=24)
CPU = torch.device("cpu")
ROOT = Path(__file__).parents[3]
WAYS = {way.name: way for way in encoding.WAYS}
QUANTISED = [name for name in WAYS if name.startswith("int8")]


@torch.no_grad()
def run_at(sizes, backend):
    """At the tiny width random weights change little of what a block adds to; larger ones let every product show."""
    run = encoding.run_of(sizes, CPU, batch=2, backend=backend)
    for layer in run.plain.modules():
        if isinstance(layer, torch.nn.Linear):
            layer.weight *= 5.0
    return replace(run, expected=run.plain(run.images[:1]))


@pytest.fixture(scope="module")
def run():
    return run_at(TINY, "aot_eager")


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---------------------------------------------------------------- the encoder


@pytest.mark.parametrize("side", [4, 6, 7])
def test_windows_cover_the_map_once_and_come_back(side):
    x = normal(2, side, side, 5)
    windows = to_windows(x, 3)
    across = -(-side // 3)
    assert windows.shape == (2 * across**2, 3, 3, 5)
    assert torch.equal(from_windows(windows, 2, side), x)
    assert torch.equal(windows[1, :, : min(3, side - 3)], x[0, :3, 3:6])
    assert windows.sum().item() == pytest.approx(x.sum().item(), abs=1e-3)


@torch.no_grad()
def test_relative_positions_are_added_as_the_paper_says():
    torch.manual_seed(0)
    attention = ImageAttention(replace(TINY, relative_positions=True), 3)
    query = normal(2, 2, 9, 32)
    bias = attention._positions(query)
    for here, there in [(0, 0), (1, 8), (7, 2), (8, 0)]:
        (h, w), (k, l) = divmod(here, 3), divmod(there, 3)
        expected = query[:, :, here] @ attention.rows[h - k + 2] + query[:, :, here] @ attention.columns[w - l + 2]
        torch.testing.assert_close(bias[:, :, here, there], expected)
    x = normal(2, 3, 3, 64, seed=1)
    split = attention.qkv(x).view(2, 9, 3, 2, 32).permute(2, 0, 3, 1, 4)
    scores = (split[0] @ split[1].transpose(-1, -2) / 32**0.5 + attention._positions(split[0])).softmax(-1)
    expected = attention.proj((scores @ split[2]).transpose(1, 2).reshape(2, 3, 3, 64))
    torch.testing.assert_close(attention(x), expected, rtol=1e-4, atol=1e-5)


def test_the_full_size_is_that_of_vit_h():
    with torch.device("meta"):
        model = VisionEncoder(EncoderSizes())
        whole = VisionEncoder(EncoderSizes(relative_positions=True))
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert 630 < millions < 640
    assert [block.window for block in model.blocks].count(0) == 4
    assert whole.blocks[7].attention.rows.shape == (127, 80)
    assert whole.blocks[0].attention.rows.shape == (27, 80)


@pytest.mark.parametrize("name", WAYS)
def test_every_way_agrees_with_fp32_within_what_its_format_loses(name, run):
    found = encoding.prepare(WAYS[name], run)
    assert found.entry.status == "timed", found.entry.message
    low, high = (4e-3, 0.03) if name in QUANTISED else (1e-5, 0.02 if "bf16" in name else 0.002)
    assert low < found.entry.error < high
    assert found.entry.peak_bytes is None


@torch.no_grad()
def test_three_steps_and_the_fused_kernel_are_the_same_layer(run):
    """Given the same they differ by roundings of fp16; within a model these make quanta flip, so that whole models differ by more."""
    three, fused = (WAYS[name].build(run.plain, "eager") for name in ("int8, three steps", "int8, fused"))
    for name in ("attention.qkv", "attention.proj", "mlp.lin1", "mlp.lin2"):
        plain, ours, theirs = (model.blocks[0].get_submodule(name) for model in (run.plain, fused, three))
        x = normal(40, plain.in_features)
        assert relative_error(ours(x.half()), theirs(x.half())) < 0.001
        assert relative_error(ours(x.half()), plain(x)) > 0.004


@torch.no_grad()
def test_with_relative_positions_ways_agree_too():
    run = run_at(replace(TINY, relative_positions=True), "eager")
    without = copy.deepcopy(run.plain)
    for block in without.blocks:
        block.attention.rows.zero_()
    assert relative_error(without(run.images[:1]), run.expected) > 1e-4
    assert all(encoding.prepare(WAYS[name], run).entry.error < 0.03 for name in ("fp16", "int8, three steps", "int8, fused"))


def test_weights_take_the_bytes_of_their_format(run):
    fp16, unfused, fused = (WAYS[name].build(run.plain, "eager") for name in ("fp16", "int8, three steps", "int8, fused"))
    linear = sum(layer.weight.numel() for layer in run.plain.modules() if isinstance(layer, torch.nn.Linear))
    assert weight_bytes(fp16) - weight_bytes(fused) == pytest.approx(linear, rel=0.05)
    assert weight_bytes(unfused) == weight_bytes(fused)
    assert sum(isinstance(layer, Swapped) for layer in fused.modules()) == 8


def test_compiling_around_the_kernel_leaves_one_graph(run):
    """The launch is one operation, so that what is around it can be fused across it."""
    model = WAYS["int8, fused"].build(run.plain, "eager")
    encoding.as_one_operation(model)
    explained = torch._dynamo.explain(model.blocks[0])(normal(2, 4, 4, 64).half())
    assert explained.graph_break_count == 0
    launches = [op for graph in explained.graphs for op in graph.graph.nodes if "launch" in str(op.target)]
    assert len(launches) == 4


def failing(error):
    def step(model):
        raise error

    return step


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20 GiB.\nmore"), "OutOfMemoryError: CUDA out of memory"),
        (ValueError("found 3 rows"), "ValueError: found 3 rows"),
        (RuntimeError(""), "RuntimeError: no reason given"),
    ],
)
def test_what_fails_becomes_an_entry(run, error, words):
    way = encoding.Variant("it", "fails", steps=(failing(error),))
    entry = encoding.prepare(way, run).entry
    assert (entry.status, entry.contestant, entry.batch) == ("failed", "it", 2)
    assert entry.message.startswith(words)
    assert "\n" not in entry.message


def test_a_wrong_model_is_not_timed(run):
    def broken(model):
        torch.nn.init.zeros_(model.blocks[0].mlp.lin2.weight)
        torch.nn.init.ones_(model.blocks[0].mlp.lin2.bias)

    entry = encoding.prepare(encoding.Variant("it", "is wrong", steps=(broken,)), run).entry
    assert entry.status == "failed"
    assert "away from those of fp32" in entry.message


def test_what_is_not_compiled_says_why(run):
    way = WAYS["fp16, torch.compile"]
    assert encoding.prepare(way, run, compiling=False).entry.message == "nothing was compiled in this run"
    late = replace(run, seconds=-1.0)
    assert encoding.prepare(way, late).entry.message == "the -1 seconds for compiling were over"
    assert encoding.prepare(WAYS["fp16"], late).entry.status == "timed"


# ---------------------------------------------------------------- three steps


@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_three_steps_are_the_product_of_rounded_operands(bias):
    torch.manual_seed(0)
    linear = torch.nn.Linear(48, 40, bias=bias)
    layer, in_halves, x = UnfusedLinear(linear), UnfusedLinear(copy.deepcopy(linear).half()), normal(2, 10, 48, seed=1)
    x[0, 3] = 0.0

    def rounded(rows):
        scale = rows.abs().amax(-1, keepdim=True).clamp(min=1e-30) / 127
        return (rows / scale).round() * scale

    expected = F.linear(rounded(x).double(), rounded(linear.weight).double(), linear.bias.double() if bias else None)
    torch.testing.assert_close(layer(x).double(), expected, rtol=1e-5, atol=1e-5)
    found = in_halves(x.half())
    assert found.dtype == torch.float16
    assert relative_error(found, layer(x)) < 0.02


def test_what_int_mm_does_not_take_is_refused():
    with pytest.raises(ValueError, match="found a weight 12 x 16, expected multiples of 8"):
        UnfusedLinear(torch.nn.Linear(16, 12))
    with pytest.raises(ValueError, match="found 16 rows, expected 17 or more"):
        UnfusedLinear(torch.nn.Linear(16, 16))(normal(16, 16))


# ---------------------------------------------------------------- the decoder


@torch.no_grad()
def test_the_decoder_layer_is_the_last_row_of_full_attention():
    """All places computed at once, causally, give the last place what the cache gives it."""
    torch.manual_seed(0)
    sizes = DecoderSizes(width=32, hidden=48, heads=2, context=5)
    layer = DecoderLayer(sizes)
    x = normal(3, 5, 32)
    normed = layer.attention_norm(x)
    angles = torch.arange(5)[:, None] * 10_000.0 ** (-torch.arange(0, 16, 2) / 16)

    def turned(y):
        first, second = y.chunk(2, dim=-1)
        return torch.cat((first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()), dim=-1)

    query, key, value = (one(normed).view(3, 5, 2, 16).transpose(1, 2) for one in (layer.q, layer.k, layer.v))
    mixed = F.scaled_dot_product_attention(turned(query), turned(key), value, is_causal=True).transpose(1, 2).reshape(3, 5, 32)
    after = x + layer.o(mixed)
    expected = after + layer.down(F.silu(layer.gate(layer.mlp_norm(after))) * layer.up(layer.mlp_norm(after)))
    keys, values = turned(key).clone(), value.clone()
    keys[:, :, -1:], values[:, :, -1:] = 7.0, 7.0
    torch.testing.assert_close(layer(x[:, -1:], keys, values), expected[:, -1:], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(keys, turned(key))


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("lab", all_labs())
def test_every_lab_can_be_the_decoders_layer(lab, batch):
    plain = decoding.plain_decoder(TINY_DECODER, CPU, 2)
    changed = decoding.contestant(lab, plain)
    error = relative_error(decoding.first_layer(changed, batch), decoding.first_layer(plain, batch))
    smaller = weight_bytes(changed.layers[0]) < 0.7 * weight_bytes(plain.layers[0])
    assert error < (0.7 if "sparsity" in options_of(lab) else 0.2)
    assert (error > 1e-4) is smaller, "a format costs some exactness and saves bytes, or does neither"
    assert decoding._error(lab, changed, plain, batch) == 0.0
    assert sum(isinstance(module, Swapped) for module in changed.modules()) == 14
    x = normal(batch, 1, 128).half()
    assert torch.isfinite(changed(x, changed.caches(batch, x))).all()
    assert all_labs()[lab].layer in decoding.about(lab)


@pytest.mark.parametrize("lab", all_labs())
def test_the_sizes_of_7b_suit_every_lab(lab):
    """K = 11008 too: the layers are made without memory, and refuse what their format does not take."""
    sizes = DecoderSizes()
    made = type(decoding.contestant(lab, decoding.plain_decoder(TINY_DECODER, CPU, 1)).layers[0].down.layer)
    options = {"group_size": 128} if "group_size" in inspect.signature(made).parameters else {}
    for K, N in ((sizes.width, sizes.width), (sizes.width, sizes.hidden), (sizes.hidden, sizes.width)):
        assert made(K, N, device=torch.device("meta"), **options).in_features == K
    with pytest.raises(ValueError, match=made.__name__):
        made(sizes.width, sizes.hidden + 4, device=torch.device("meta"), **options)


# ---------------------------------------------------------------- the clock


class Event:
    def __init__(self, at_ms):
        self.at_ms = at_ms

    def elapsed_time(self, end):
        return end.at_ms - self.at_ms


class Contestant:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def prepare(self):
        self.log.append(f"before {self.name}")

    def replay(self):
        self.log.append(self.name)

    def inspect(self):
        self.log.append(f"after {self.name}")


def test_rounds_go_through_all_and_back(monkeypatch):
    log, clock = [], iter(range(1, 1000))

    def replayed(one):
        one.replay()
        return Event(0.0), Event(1e-6 * next(clock))

    monkeypatch.setattr(measuring, "timed_replay", replayed)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    spans = measuring.interleaved([Contestant(name, log) for name in "abc"], 2)
    assert [one for one in log if len(one) == 1] == list("abccbaabccba")
    assert log[:3] == ["before a", "a", "after a"]
    assert spans[0].pairs == tuple((1e-6 * out, 1e-6 * back) for out, back in ((1, 6), (7, 12)))
    assert spans[2].pairs == tuple((1e-6 * out, 1e-6 * back) for out, back in ((3, 4), (9, 10)))
    assert spans[1].median_ms == pytest.approx(6.5e-6)
    assert spans[2].faster_than(spans[0]).value == pytest.approx(1.0)


def test_an_entry_gets_the_times_of_one_pass():
    spans, baseline = measuring.Spans(((4.0, 6.0),)), measuring.Spans(((9.0, 11.0),))
    entry = with_spans(ModelEntry("a", "", 1, "failed"), spans, baseline, 4, "a note")
    assert (entry.time_us, entry.fastest_us, entry.slowest_us) == (1250.0, 1000.0, 1500.0)
    assert entry.ratio == pytest.approx(2.0)
    assert (entry.rounds, entry.message, entry.status) == (1, "a note", "timed")
    assert sentence(RuntimeError("x" * 500 + "\ny")) == "RuntimeError: " + "x" * 200


# ---------------------------------------------------------------- records and pages


def sample(which="encoder"):
    timed = ModelEntry("fp16", "as it is", 16, "timed", "", 250_000.0, 249_000.0, 260_000.0, 1.0, 0.99, 1.01, 9, 12 * 10**9, 10**9, 0.001)
    failed = ModelEntry("bf16", "the same", 16, "failed", "OutOfMemoryError: no memory")
    return ModelRecord(which, "NVIDIA H200", 90, "580.1", {"torch": "2.11.0"}, "2026-11-22 10:00 UTC", 99.0,
                       {"width": 64, "global_blocks": [1], "relative_positions": False}, (timed, failed))


OF_VERSION_9 = to_json(sample()).replace('"schema_version": 1', '"schema_version": 9')


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 9, "which": "encoder", "entries": []}', OF_VERSION_9])
def test_what_is_no_record_is_refused(text):
    with pytest.raises(Unusable, match="version 9, expected one of encoder.*measure again" if text == OF_VERSION_9 else "measure again"):
        from_json(text, "x.json")


def test_the_tables_hold_what_was_timed_and_why_the_rest_was_not():
    text = markdown(sample())
    assert "| fp16 | 250.0 (249.0 to 260.0) | 1.000 (0.990 to 1.010) | 12.00 | 1.00 | 0.001 |" in text
    assert "| *the lecture: dynamic int8* | 731.6 | 1.07 | 18.63 |" in text
    assert "- Not timed, because OutOfMemoryError: no memory: bf16, batch 16." in text
    assert "Width 64, global blocks 1, relative positions no." in text
    of_decoder = markdown(sample("decoder"))
    assert "| fp16 | 16 | 250000.0 (249000.0 to 260000.0) |" in of_decoder
    assert " | 2 | 1000.0 | 0.001 |" in of_decoder


def test_without_a_record_one_sentence_says_so(tmp_path):
    assert shown("decoder", tmp_path) == not_measured("decoder")
    assert "`python -m bench decoder` on a GPU writes `decoder_nvidia_h200.json` into `bench/results/`" in shown("decoder", tmp_path)
    path = tmp_path / "bench" / "results" / "encoder_nvidia_h200.json"
    path.parent.mkdir(parents=True)
    path.write_text(to_json(sample()), encoding="utf-8")
    assert load_model_record("encoder", tmp_path) == sample()
    assert shown("encoder", tmp_path) == markdown(sample())


def test_the_page_shows_what_was_measured_and_says_what_was_not(tmp_path):
    nothing = models_page({})
    assert nothing.count("Not measured yet") == 3
    assert "figures" not in nothing
    some = models_page({"encoder": sample(), "decoder": sample("decoder")})
    assert some.count("Not measured yet") == 1
    assert markdown(sample()) in some
    assert {name for name in ("encoder.svg", "decoder.svg") if f"../bench/figures/{name}" in some} == {"encoder.svg", "decoder.svg"}
    assert "What may set these numbers apart from the lecture's" in some
    assert load_models(tmp_path) == {}


def test_drawings_are_svg_and_the_same_each_time():
    models = {"encoder": sample(), "decoder": sample("decoder"), "encoder_positions": sample("encoder_positions")}
    drawn = draw_models(models)
    assert set(drawn) == {"encoder.svg", "decoder.svg"}
    assert all(ElementTree.fromstring(svg).tag.endswith("svg") for svg in drawn.values())
    assert draw_models(models) == drawn
    assert draw_models({}) == {}


def test_the_claims_notebook_judges_what_was_measured():
    """Its cell on the whole encoder, run on a record in which fusing saves time and memory only where the rest is compiled."""
    source = (ROOT / "notebooks" / "source" / "claims.py").read_text(encoding="utf-8")
    cell = next(part for part in source.split("# %%") if 'whole_model("encoder")' in part).partition("\n")[2]
    times = {"fp16": (100, 9), "int8, three steps": (120, 9), "int8, fused": (110, 10),
             "fp16, torch.compile": (90, 8), "int8, three steps, torch.compile": (95, 9),
             "int8, fused, torch.compile around it": (80, 8)}
    assert set(times) <= set(WAYS)
    first = sample().entries[0]
    entries = tuple(replace(first, contestant=name, time_us=us, ratio=100 / us, peak_bytes=peak) for name, (us, peak) in times.items())
    judged, drawn = {}, []
    given = {"whole_model": lambda which: replace(sample(), entries=entries), "verdict": judged.__setitem__,
             "pictures": SimpleNamespace(bars=lambda values, *words: values), "display": lambda *shown: drawn.extend(shown)}
    exec(cell, given)
    assert judged["Fusing saves time and memory in a whole encoder"] == {"eager": False, "compiled": True}
    faster = judged["Dynamic int8 makes a whole encoder faster than fp16, eager or compiled alike"]
    assert faster == {"int8, three steps": False, "int8, fused": False,
                      "int8, three steps, torch.compile": False, "int8, fused, torch.compile around it": True}
    assert len(drawn) == 2
    exec(cell, {**given, "whole_model": lambda which: None})
    assert len(drawn) == 2


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU, so this would measure")
@pytest.mark.parametrize("command", ["encoder", "decoder"])
def test_without_a_gpu_nothing_is_measured(command, tmp_path):
    done = CliRunner().invoke(app, [command, "--json", str(tmp_path / "x.json")])
    assert done.exit_code == 2
    assert "needs a GPU" in " ".join(done.output.split())
    assert not (tmp_path / "x.json").exists()


def test_a_record_names_machine_and_versions():
    device = Device("cuda", "NVIDIA H200", 90, "580.1", torch="2.11.0", triton="3.6.0", sandbox="none")
    record = record_of("encoder", device, {"width": 64}, sample().entries, 1.23)
    assert (record.gpu, record.driver, record.seconds) == ("NVIDIA H200", "580.1", 1.2)
    assert {"python", "torch", "triton"} == set(record.versions)
    assert record.date.endswith("UTC")
