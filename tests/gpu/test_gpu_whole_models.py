"""Whole models on a GPU at a tiny size: everything that is timed at the full one is timed here, and is right."""

from __future__ import annotations

import pytest

from bench.whole import decoder as decoders
from bench.whole import swapping
from bench.whole.decoder import BATCHES, decoder
from bench.whole.encoder import WAYS, encoder
from bench.whole.llama import DecoderSizes
from bench.whole.vit import EncoderSizes
from grader.gpu.devices import choose
from grader.labs import all_labs
from grader.reporting.whole_models import markdown
from model.swap import swap
from tests.tuning import keep_some_configs, tune_briefly

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.xdist_group("gpu")]


@pytest.fixture(autouse=True)
def tuned_briefly(monkeypatch):
    def swap_briefly(model, lab, **options):
        swap(model, lab, **options)
        keep_some_configs(model, lab)

    tune_briefly(monkeypatch)
    monkeypatch.setattr(swapping, "swap", swap_briefly)
    monkeypatch.setattr(decoders, "compile_ahead", lambda sizes: "")  # other processes, which would compile all configs


@pytest.mark.parametrize("relative_positions", [False, True])
def test_every_way_of_the_encoder_is_timed(relative_positions):
    sizes = EncoderSizes(blocks=2, width=64, heads=2, image=64, window=3, global_blocks=(1,), relative_positions=relative_positions)
    record = encoder(sizes, choose("cuda")[0], compiling=not relative_positions)
    left_out = [way.name for way in WAYS if way.compiled is not None and relative_positions]
    assert [(entry.contestant, entry.message) for entry in record.entries if entry.status == "failed"] == []
    assert [entry.contestant for entry in record.entries if entry.status == "skipped"] == left_out
    for entry in record.timed:
        assert entry.fastest_us <= entry.time_us <= entry.slowest_us
        assert entry.peak_bytes > entry.weight_bytes
        assert entry.error < 0.03
    assert record.timed[0].ratio == pytest.approx(1.0)
    assert record.gpu in markdown(record)


def test_every_lab_is_timed_as_a_decoder_layer():
    record = decoder(DecoderSizes(width=256, hidden=384, heads=2, context=32), choose("cuda")[0])
    assert [(entry.contestant, entry.batch, entry.message) for entry in record.entries if entry.status != "timed"] == []
    names = ("fp16", *all_labs())
    assert [(entry.contestant, entry.batch) for entry in record.entries] == [(name, batch) for batch in BATCHES for name in names]
    assert record.timed[0].ratio == pytest.approx(1.0)
    assert record.gpu in markdown(record)
