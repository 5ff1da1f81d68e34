"""`python -m model`: from text to weights, a table and a card, and what is refused."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from grader.gpu.devices import gpus
from grader.labs import all_labs
from grader.unusable import Unusable
from model import __main__ as commands
from model import table as tables
from model.corpus import HeldOut
from model.methods import METHODS
from model.store import load_origin
from model.times import load_times

TEXT = b"".join(f"for n in range({n}): print(n + {n})\n".encode() for n in range(600))


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a command on a small text, on the CPU, with two methods."""
    import torch

    monkeypatch.setattr(commands, "training_text", lambda: TEXT)
    monkeypatch.setattr(commands, "held_out_text", lambda: HeldOut(TEXT[:1025], 3, ("os.py",)))
    monkeypatch.setattr(commands, "default_device", lambda: torch.device("cpu"))
    monkeypatch.setattr(tables, "METHODS", METHODS[:2])
    monkeypatch.setattr(commands, "tabulate", lambda *arguments, **named: tables.tabulate(*arguments, methods=METHODS[:2], **named))
    return lambda *arguments: CliRunner().invoke(commands.app, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_from_text_to_a_card(run, tmp_path, monkeypatch):
    weights, results, page = tmp_path / "w" / "base.safetensors", tmp_path / "results.json", tmp_path / "README.md"
    done = run("--threads", 1, "train", "--layers", 1, "--steps", 2, "--batch", 2, "--seed", 5, "--weights", weights)
    assert done.exit_code == 0, done.output
    assert "1 of 3 held-out files are not those of the record: os.py" in done.output
    origin = load_origin(weights)
    assert (origin.sizes.layers, origin.course.steps, origin.recipe.seed, origin.threads) == (1, 2, 5, 1)
    assert (origin.training_bytes, origin.differing) == (len(TEXT), ("os.py",))

    done = run("evaluate", "--weights", weights)
    assert done.exit_code == 0, done.output
    assert f"the record says {origin.quality.bits_per_byte:.4f} over {origin.quality.predicted}" in done.output
    assert f"{origin.quality.bits_per_byte:.3f}" in done.output.splitlines()[1]
    assert "the table is of other weights" in done.output

    done = run("table", "--weights", weights, "--out", results)
    assert done.exit_code == 0, done.output
    monkeypatch.setattr(commands, "load_results", lambda: tables.load(results))
    done = run("evaluate", "--weights", weights)
    printed = dict(re.findall(r"^(.+): perplexity ([\d.]+), the table says [\d.]+$", done.output, re.MULTILINE))
    assert printed == {row.method: f"{row.perplexity:.4f}" for row in tables.load(results).rows if row.lab or row.method == "fp16"}
    assert len(printed) == len(all_labs()) + 1

    done = run("card", "--weights", weights, "--out", page)
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert f"**{origin.quality.bits_per_byte:.3f} bits per byte" in text
    assert "1 thread" in text
    assert "trained on a CPU" in text
    assert "held-out files that differed: 1" in text
    assert "`python -m model --threads 1 train --layers 1 --steps 2 --batch 2 --learning-rate 0.002 --seed 5`" in text
    assert tables.markdown(tables.load(results), load_times()) in text


def test_without_weights_there_is_one_sentence(run, tmp_path):
    for command in ("evaluate", "table", "card"):
        done = run(command, "--weights", tmp_path / "none.safetensors")
        assert done.exit_code == 2
        assert "run `make model`" in " ".join(done.output.split())


def test_without_text_there_is_one_sentence(run, monkeypatch):
    def no_text():
        raise Unusable("found no Python sources")

    monkeypatch.setattr(commands, "training_text", no_text)
    done = run("train")
    assert done.exit_code == 2
    assert "found no Python sources" in done.output


@pytest.mark.skipif(bool(gpus()), reason="there is a GPU, so this would measure")
def test_without_a_gpu_no_layer_is_timed(run, tmp_path):
    done = run("times", "--out", tmp_path / "times.json")
    assert done.exit_code == 2
    assert "timing a layer needs a GPU" in " ".join(done.output.split())
    assert not (tmp_path / "times.json").exists()
