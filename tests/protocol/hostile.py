"""Damaged data, and what reading it may raise and take."""

import random
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from minibroker_protocol.errors import DecodeError


@contextmanager
def at_most_allocated(limit: int) -> Iterator[None]:
    """Check that the block has never allocated `limit` bytes at a time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit


def damaged(whole: bytes | bytearray, dice: random.Random, count: int) -> Iterator[bytearray]:
    """Yield `count` copies of the data in which up to eight bytes have other values, often those of limits."""
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(dice.choice((1, 2, 8))):
            data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        yield data


def count_refused(read: Callable[[Any], object], samples: Iterable[Any], error: type[DecodeError] = DecodeError) -> int:
    """Return the number of samples for which `read` raises the error. Other errors are raised here."""
    refused = 0
    for sample in samples:
        try:
            read(sample)
        except error:
            refused += 1
    return refused
