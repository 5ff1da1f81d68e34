"""Where the tensors of a timed graph lie: one piece of memory, other places in every replay, poison wherever no tensor is.

Parameters and launches are at distances that nobody can foretell, and the launches run in another order each time, so
that a kernel knows its own pointers and no others. Between replays every byte is either renewed or poison; what a kernel
writes beside its tensors is seen before the next replay.
"""

from __future__ import annotations

import math
import random
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch

from grader.labs.guarded import GUARD_BYTES, POISON_BYTE

ALIGNMENT = 256
JITTER = 256
"""Each distance is one of so many, in steps of the alignment."""

INTEGERS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def poison(width: int) -> int:
    """The poison as an integer of `width` bytes."""
    return int.from_bytes(bytes([POISON_BYTE]) * width, "little")


@dataclass(frozen=True)
class Layout:
    """Shape, strides (in elements) and type of one parameter of one launch."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Layout:
        return cls(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    @cached_property
    def bytes(self) -> int:
        """From the first element to the last, gaps of a strided view included."""
        if 0 in self.shape:
            return 0
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (1 + last) * self.dtype.itemsize

    @cached_property
    def word(self) -> int:
        """Bytes of the widest integers that tile the tensor, eight where it has no gaps: they are copied the fastest."""
        dense = self.bytes == math.prod(self.shape) * self.dtype.itemsize
        return 8 if dense and self.bytes and self.bytes % 8 == 0 else self.dtype.itemsize

    def words(self, stack: torch.Tensor) -> torch.Tensor:
        """Some launches' tensors of this layout as integers: [launches, words] where `word` is 8, else the stack's shape."""
        if self.word != 8 or self.dtype.itemsize == 8:
            return stack.view(INTEGERS[self.dtype.itemsize])
        elements = self.bytes // self.dtype.itemsize
        flat = torch.as_strided(stack, (len(stack), elements), (stack.stride(0), 1), stack.storage_offset())
        return flat.view(torch.int64)


@dataclass(frozen=True)
class Places:
    """Where one replay's tensors begin: byte offset of launch 0 and distance of launches, by parameter; and their order."""

    first: Mapping[str, int]
    pitch: Mapping[str, int]
    order: tuple[int, ...]


class Arena:
    """Memory for the parameters of `launches` launches, on `device`."""

    def __init__(self, layouts: Mapping[str, Layout], launches: int, device: torch.device) -> None:
        self.layouts, self.launches = dict(layouts), launches
        size = sum(self._room(layout) for layout in layouts.values())
        self.memory = torch.empty(size, dtype=torch.uint8, device=device)
        self._as_integers = {width: self.memory.view(integers) for width, integers in INTEGERS.items()}
        self.clear()

    def _slot(self, layout: Layout) -> int:
        """Bytes from a launch's tensor to the next one's at least, a guard region between them included."""
        return -(-layout.bytes // ALIGNMENT) * ALIGNMENT + GUARD_BYTES

    def _room(self, layout: Layout) -> int:
        """Bytes of all of a parameter's tensors at the largest distances, with a guard region before and behind."""
        return GUARD_BYTES + self.launches * (self._slot(layout) + JITTER * ALIGNMENT) + JITTER * ALIGNMENT

    def clear(self) -> None:
        """Poison everywhere."""
        self.memory.fill_(POISON_BYTE)

    def draw(self) -> Places:
        """New places and a new order, from a seed of the operating system's entropy that is used once."""
        chance = random.Random(secrets.randbits(256))
        first, pitch, start = {}, {}, 0
        for name in chance.sample(list(self.layouts), len(self.layouts)):
            layout = self.layouts[name]
            first[name] = start + GUARD_BYTES + ALIGNMENT * chance.randrange(JITTER)
            pitch[name] = self._slot(layout) + ALIGNMENT * chance.randrange(JITTER)
            start += self._room(layout)
        return Places(first, pitch, tuple(chance.sample(range(self.launches), self.launches)))

    def words(self, places: Places, name: str) -> torch.Tensor:
        """All tensors of a parameter as `Layout.words` has them."""
        layout = self.layouts[name]
        if layout.word != 8:
            return self.bits(places, name)
        shape, strides = (self.launches, layout.bytes // 8), (places.pitch[name] // 8, 1)
        return torch.as_strided(self._as_integers[8], shape, strides, places.first[name] // 8)

    def bits(self, places: Places, name: str) -> torch.Tensor:
        """All tensors of a parameter as integers, [launches, *shape]."""
        layout = self.layouts[name]
        width = layout.dtype.itemsize
        strides = (places.pitch[name] // width, *layout.strides)
        return torch.as_strided(
            self._as_integers[width], (self.launches, *layout.shape), strides, places.first[name] // width
        )

    def tensors(self, places: Places, name: str) -> torch.Tensor:
        """All tensors of a parameter, [launches, *shape]."""
        return self.bits(places, name).view(self.layouts[name].dtype)

    def address(self, places: Places, name: str, launch: int) -> int:
        return self.memory.data_ptr() + places.first[name] + launch * places.pitch[name]

    def poison(self, places: Places, name: str) -> None:
        """Fills the tensors of a parameter, and no byte beside them."""
        words = self.words(places, name)
        words.fill_(poison(words.element_size()))

    def strayed(self) -> torch.Tensor:
        """bool scalar on the device: whether a byte is no poison, once all tensors have been poisoned."""
        return (self._as_integers[8] != poison(8)).any()

    def owner(self, places: Places) -> str:
        """The parameter next to the first byte that is no poison."""
        where = int((self.memory != POISON_BYTE).to(torch.uint8).argmax())

        def distance(name: str) -> int:
            begin = places.first[name]
            return max(begin - where, where - begin - self.launches * places.pitch[name], 0)

        return min(self.layouts, key=distance)
