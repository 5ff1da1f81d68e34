"""Reads and writes weights in the safetensors format, which is eight bytes, a JSON header and the numbers.

    u64 little-endian: length of the header; header: {"NAME": {"dtype": "F16", "shape": [..], "data_offsets": [begin, end]}, ...};
    then the tensors, little-endian and row-major, offsets counted from the end of the header.

Source: https://huggingface.co/docs/safetensors. Nothing in a file is ever run, which is why weights are not kept as pickles.
A format this small needs no package; the tests read and write the same files with that package where it is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

DTYPES = {"F16": torch.float16, "F32": torch.float32, "BF16": torch.bfloat16, "I8": torch.int8, "I32": torch.int32}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
LARGEST_HEADER = 1 << 20
ALIGNMENT = 8


class BadWeights(ValueError):
    """A file that is not safetensors, or is cut off; the message names file and reason."""


def write(path: Path, tensors: Mapping[str, torch.Tensor]) -> None:
    """Writes the tensors in the order of their names. Raises ValueError for a dtype that is not in DTYPES."""
    header: dict[str, Any] = {}
    end = 0
    parts = []
    for name, tensor in sorted(tensors.items()):
        if tensor.dtype not in NAMES:
            raise ValueError(f"write: found {name} in {tensor.dtype}, expected one of {', '.join(DTYPES)}; convert it first")
        data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + len(data)]}
        end += len(data)
        parts.append(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read(path: Path) -> dict[str, torch.Tensor]:
    """Name and tensor of everything in the file. Raises BadWeights, and OSError when it cannot be read."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(LARGEST_HEADER, len(data) - 8):
        raise BadWeights(f"{path} is no safetensors file or is cut off: found {len(data)} bytes; fetch it again")
    try:
        header = json.loads(data[8 : 8 + length])
        numbers = memoryview(data)[8 + length :]
        return {name: _tensor(name, entry, numbers) for name, entry in header.items() if name != "__metadata__"}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise BadWeights(f"{path} has a header that cannot be used ({problem}); fetch it again") from None


def _tensor(name: str, entry: dict[str, Any], numbers: memoryview) -> torch.Tensor:
    dtype, shape, (begin, end) = DTYPES[entry["dtype"]], [int(side) for side in entry["shape"]], entry["data_offsets"]
    size = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or not 0 <= begin <= end <= len(numbers) or end - begin != size:
        raise ValueError(f"{name} of {size} bytes lies at {begin} to {end} of {len(numbers)}")
    if not size:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(numbers[begin:end]), dtype=dtype).reshape(shape)
