"""The only language between the sandbox and the grader: frames of size-limited, strict JSON and raw bytes. Never pickle.

frame = b"KLAB" + uint32 header length + uint32 number of blobs + uint64 length of each blob + header + blobs

A header is an object; in it every number is finite, every whole number has fewer than 64 bits, every text is Unicode,
and nothing is nested deeper than MAX_DEPTH. `integer`, `number`, `text` and `items` say for one value whether
it is what is expected there.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

MAGIC = b"KLAB"
MAX_HEADER_BYTES = 8 << 20
MAX_BLOBS = 64
MAX_BLOB_BYTES = 256 << 20
MAX_DEPTH = 32
MAX_INTEGER = 2**63
MAX_TEXT = 1 << 20


class WireError(ValueError):
    """Bytes that are no frame, a frame over its limits, or a value that is not what is expected."""


def encode(header: dict[str, Any], blobs: Sequence[bytes | memoryview] = ()) -> list[bytes | memoryview]:
    """A frame as buffers to be written in order. Raises WireError for a header that `decode` would refuse."""
    _check_document(header)
    text = json.dumps(header, allow_nan=False).encode()
    prefix = struct.pack("<4sII", MAGIC, len(text), len(blobs)) + b"".join(
        struct.pack("<Q", memoryview(blob).nbytes) for blob in blobs
    )
    if len(text) > MAX_HEADER_BYTES:
        raise WireError(f"{len(text)} bytes of text; expected at most {MAX_HEADER_BYTES}")
    return [prefix, text, *blobs]


def decode(read: Callable[[int], bytes]) -> tuple[dict[str, Any], list[bytes]]:
    """The next frame. `read(n)` returns exactly n bytes or raises EOFError. Raises WireError for anything else."""
    magic, header_length, blob_count = struct.unpack("<4sII", read(12))
    if magic != MAGIC or header_length > MAX_HEADER_BYTES or blob_count > MAX_BLOBS:
        raise WireError("not a frame")
    lengths = struct.unpack(f"<{blob_count}Q", read(8 * blob_count))
    if sum(lengths) > MAX_BLOB_BYTES:
        raise WireError("a frame over its size limit")
    header = _parsed(read(header_length))
    return header, [read(length) for length in lengths]


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode(), parse_constant=_no_number, object_pairs_hook=_object)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError(f"a header that is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise WireError("a header that is not an object")
    _check_document(header)
    return header


def _no_number(name: str) -> None:
    raise WireError(f"{name} in a header; expected finite numbers")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise WireError("a header with two values of one name")
    return found


def _check_document(value: Any, path: str = "", depth: int = 0) -> None:
    """Raises WireError with the place of the first value that may not travel."""
    place = path.removeprefix(".") or "the header"
    if depth > MAX_DEPTH:
        raise WireError(f"{place[:80]} is nested deeper than {MAX_DEPTH}")
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise WireError(f"{place} has a name that is a {type(key).__name__}; expected text")
            text(key, name=f"a name in {place}")
            _check_document(inner, f"{path}.{key}"[-200:], depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            _check_document(inner, f"{path}[{index}]"[-200:], depth + 1)
    elif isinstance(value, str):
        text(value, name=place, limit=MAX_HEADER_BYTES)
    elif isinstance(value, bool) or value is None:
        pass
    elif isinstance(value, int):
        integer(value, name=place)
    elif isinstance(value, float):
        number(value, name=place)
    else:
        raise WireError(f"{place} is a {type(value).__name__}; expected a number, text, list or object")


def integer(value: Any, low: int = -MAX_INTEGER + 1, high: int = MAX_INTEGER - 1, *, name: str = "a value") -> int:
    """A whole number from low to high, both included; a bool is none. Raises WireError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise WireError(f"{name} is a {type(value).__name__}; expected a whole number")
    if not low <= value <= high:
        shown = str(value) if value.bit_length() < 128 else f"a number of {value.bit_length()} bits"
        raise WireError(f"{name} is {shown}; expected a whole number from {low} to {high}")
    return value


def number(value: Any, low: float = -math.inf, high: float = math.inf, *, name: str = "a value") -> float:
    """A finite number from low to high, both included, as a float. Raises WireError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise WireError(f"{name} is a {type(value).__name__}; expected a number")
    if isinstance(value, int):
        integer(value, name=name)
    if not math.isfinite(value):
        raise WireError(f"{name} is {value}; expected a finite number")
    if not low <= value <= high:
        raise WireError(f"{name} is {value:g}; expected a number from {low:g} to {high:g}")
    return float(value)


def text(value: Any, *, limit: int = MAX_TEXT, name: str = "a value") -> str:
    """A text of at most `limit` characters that can be written as UTF-8. Raises WireError."""
    if not isinstance(value, str):
        raise WireError(f"{name} is a {type(value).__name__}; expected text")
    if len(value) > limit:
        raise WireError(f"{name} has {len(value)} characters; expected at most {limit}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WireError(f"{name} holds half of a character (a lone surrogate); expected Unicode text") from None
    return value


def items(value: Any, *, limit: int = 1 << 16, name: str = "a value") -> list[Any]:
    """A list of at most `limit` values. Raises WireError."""
    if not isinstance(value, list):
        raise WireError(f"{name} is a {type(value).__name__}; expected a list")
    if len(value) > limit:
        raise WireError(f"{name} has {len(value)} values; expected at most {limit}")
    return value
