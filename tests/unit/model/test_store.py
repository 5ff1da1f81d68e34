"""Weights and their record: what is saved is loaded, and what does not fit is refused."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file

from grader.unusable import Unusable
from model.perplexity import Quality
from model.store import WEIGHTS, load, load_origin, origin_of, save
from model.training import Course, Recipe
from tests.unit.model.small import tiny_model, tokens


def saved(tmp_path, model):
    path = tmp_path / "weights" / "base.safetensors"
    save(model, origin_of(model, Recipe(seed=3), Course(7, 1.5, 0.9), Quality(1.5, 1000), 5000, ("os.py",)), path)
    return path


def test_what_is_saved_is_loaded(tmp_path):
    model = tiny_model()
    path = saved(tmp_path, model)
    found = load(path)
    assert not found.training
    assert torch.equal(found(tokens()), model.half().float()(tokens()))
    assert load(path, dtype=torch.float16).head.weight.dtype == torch.float16
    origin = load_origin(path)
    assert (origin.recipe.seed, origin.course.steps, origin.differing) == (3, 7, ("os.py",))
    assert origin.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert origin.quality == Quality(1.5, 1000)


def test_what_is_missing_or_does_not_fit_is_refused(tmp_path):
    with pytest.raises(Unusable, match="run `make model`"):
        load(tmp_path / "none.safetensors")
    path = saved(tmp_path, tiny_model())
    record = path.with_suffix(".json").read_text()
    path.with_suffix(".json").write_text(record.replace('"width": 64', '"width": 128'))
    with pytest.raises(Unusable, match="does not fit"):
        load(path)
    path.with_suffix(".json").write_text("{}")
    with pytest.raises(Unusable, match="cannot be used"):
        load(path)
    path.with_suffix(".json").write_text(record)
    path.unlink()
    with pytest.raises(Unusable, match="is not there"):
        load(path)


def written(header: object, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"\x01", (1 << 40).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{]",
        written({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        written({"w": {"dtype": "PICKLE", "shape": [2], "data_offsets": [0, 8]}}, b"12345678"), written([], b""),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damaged):
    path = saved(tmp_path, tiny_model())
    path.write_bytes(damaged)
    with pytest.raises(Unusable, match=r"base\.safetensors is no safetensors file or is cut off"):
        load(path)


def test_the_committed_file_is_fp16_and_saving_what_it_holds_gives_its_bytes(tmp_path):
    """So that training again, or another version of the package, shows in no other way than by other numbers."""
    assert {tensor.dtype for tensor in load_file(WEIGHTS).values()} == {torch.float16}
    again = tmp_path / "base.safetensors"
    save(load(), load_origin(), again)
    assert again.read_bytes() == WEIGHTS.read_bytes()
    assert again.with_suffix(".json").read_bytes() == WEIGHTS.with_suffix(".json").read_bytes()
