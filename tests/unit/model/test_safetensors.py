"""The reader and writer of weights: against the format's text, the package, and damaged files."""

from __future__ import annotations

import json

import pytest
import torch

from model.safetensors import BadWeights, read, write
from tests.unit.model.small import normal

TENSORS = {
    "b": normal(3, 5).half(), "a": normal(7), "c": torch.arange(6, dtype=torch.int8).view(2, 3), "scalar": torch.tensor(2.5),
    "empty": torch.zeros(0, 4), "brain": normal(2, 2).bfloat16(), "words": torch.tensor([-1, 2**31 - 1], dtype=torch.int32),
    "view": normal(4, 6).t(),
}  # fmt: skip


def test_what_is_written_is_read(tmp_path):
    write(tmp_path / "x.safetensors", TENSORS)
    found = read(tmp_path / "x.safetensors")
    assert set(found) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


def test_the_bytes_are_those_of_the_format(tmp_path):
    path = tmp_path / "x.safetensors"
    write(path, {"w": torch.tensor([[1.0, -2.0]])})
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    assert json.loads(data[8 : 8 + length]) == {"w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert data[8 + length :] == bytes.fromhex("0000803f000000c0")
    assert (8 + length) % 8 == 0


def test_the_package_reads_what_we_write_and_we_what_it_writes(tmp_path):
    package = pytest.importorskip("safetensors.torch", reason="safetensors is not installed, and nothing here needs it")
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    write(ours, TENSORS)
    package.save_file({name: tensor.contiguous() for name, tensor in TENSORS.items()}, theirs, metadata={"format": "pt"})
    for found in (package.load_file(ours), read(theirs)):
        assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


def test_equal_tensors_give_equal_bytes(tmp_path):
    write(tmp_path / "x", TENSORS)
    write(tmp_path / "y", dict(reversed(TENSORS.items())))
    assert (tmp_path / "x").read_bytes() == (tmp_path / "y").read_bytes()


def written(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"\x01", (1 << 40).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{]",
        written({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}, b"1234"),
        written({"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"12345678"),
        written({"w": {"dtype": "F32", "shape": [2], "data_offsets": [-8, 0]}}, b"12345678"),
        written({"w": {"dtype": "F32", "shape": [-1, -2], "data_offsets": [0, 8]}}, b"12345678"),
        written({"w": {"dtype": "PICKLE", "shape": [2], "data_offsets": [0, 8]}}, b"12345678"),
        written({"w": []}, b""), written([], b""), written({"w": {"dtype": "F32"}}, b""),
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused(tmp_path, damaged):
    path = tmp_path / "x.safetensors"
    path.write_bytes(damaged)
    with pytest.raises(BadWeights, match=r"x\.safetensors"):
        read(path)


def test_a_dtype_without_a_name_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"found w in torch\.complex64"):
        write(tmp_path / "x", {"w": torch.zeros(2, dtype=torch.complex64)})
