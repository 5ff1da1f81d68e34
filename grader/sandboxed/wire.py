"""The only language between the sandbox and the grader: frames of size-limited JSON and raw bytes. Never pickle.

frame = b"KLAB" + uint32 header length + uint32 number of blobs + uint64 length of each blob + header + blobs
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = b"KLAB"
MAX_HEADER_BYTES = 8 << 20
MAX_BLOBS = 64
MAX_BLOB_BYTES = 256 << 20


class WireError(ValueError):
    """Bytes that are no frame, or a frame over its limits."""


def encode(header: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """A frame as buffers to be written in order."""
    text = json.dumps(header).encode()
    prefix = struct.pack("<4sII", MAGIC, len(text), len(blobs)) + b"".join(
        struct.pack("<Q", memoryview(blob).nbytes) for blob in blobs
    )
    return [prefix, text, *blobs]


def decode(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The next frame. `read(n)` returns exactly n bytes or raises EOFError. Raises WireError for anything else."""
    magic, header_length, blob_count = struct.unpack("<4sII", read(12))
    if magic != MAGIC or header_length > MAX_HEADER_BYTES or blob_count > MAX_BLOBS:
        raise WireError("not a frame")
    lengths = struct.unpack(f"<{blob_count}Q", read(8 * blob_count))
    if sum(lengths) > MAX_BLOB_BYTES:
        raise WireError("a frame over its size limit")
    try:
        header = json.loads(read(header_length))
    except (ValueError, RecursionError) as error:
        raise WireError(f"a header that is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise WireError("a header that is not an object")
    return header, [read(length) for length in lengths]
