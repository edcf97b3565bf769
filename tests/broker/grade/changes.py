"""Message changes for mutants. A path leads to a field in all elements of the arrays along it."""

from collections.abc import Callable, Sequence
from typing import Any

Change = Callable[[Any, Any], None]


def mapped(path: str, compute: Callable[[Any], Any]) -> Change:
    """Return a change that computes a field's value from its old value."""
    *steps, name = path.split(".")

    def change(message: Any, request: Any) -> None:
        holders = [message]
        for step in steps:
            holders = [element for holder in holders for element in (getattr(holder, step) or ())]
        for holder in holders:
            setattr(holder, name, compute(getattr(holder, name)))

    return change


def put(path: str, value: Any) -> Change:
    """Return a change that sets a field to this value."""
    return mapped(path, lambda _: value)


def swap(path: str, old: Any, new: Any) -> Change:
    """Return a change that replaces one value of a field with another."""
    return mapped(path, lambda value: new if value == old else value)


def shift(path: str, by: int) -> Change:
    """Return a change that adds `by` to a number, except for a negative number, which stands for no value."""
    return mapped(path, lambda number: number + by if number >= 0 else number)


def removed(path: str, which: Callable[[Any], object] | None = None) -> Change:
    """Return a change that removes an array's last element, or the elements for which `which` is true."""

    def remaining(elements: Sequence[Any] | None) -> list[Any]:
        elements = list(elements or ())
        return elements[:-1] if which is None else [element for element in elements if not which(element)]

    return mapped(path, remaining)


def duplicated(path: str) -> Change:
    """Return a change that repeats an array's last element."""
    return mapped(path, lambda elements: [*(elements or ()), *(elements or ())[-1:]])


def when(is_changed: Callable[[Any, Any], object], change: Change) -> Change:
    """Limit a change to messages for which `is_changed` is true."""
    return lambda message, request: change(message, request) if is_changed(message, request) else None


def flipped(at: int, by: int = 1) -> Callable[[Any], Any]:
    """Return a change of records that flips bits in one byte of their first batch."""

    def change(records: Any) -> Any:
        changed = bytearray(records or b"")
        if len(changed) > at:
            changed[at] ^= by
        return changed

    return change


def codec_of(records: Any) -> int:
    """Return the codec of the first batch if it has format v2, otherwise 0."""
    data = bytes(records or b"")
    return data[22] & 7 if len(data) > 61 and data[16] == 2 else 0


def of_codec(codec: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Limit a change of records to those whose first batch has this codec."""
    return lambda records: change(records) if codec_of(records) == codec else records


def first_batch(records: Any) -> Any:
    """Return the first batch of records."""
    data = bytes(records or b"")
    return data[: 12 + int.from_bytes(data[8:12], "big")]


def without_first_batch(records: Any) -> Any:
    """Return the records after the first batch."""
    data = bytes(records or b"")
    return data[12 + int.from_bytes(data[8:12], "big") :]


def signed(change: Callable[[bytearray], None]) -> Callable[[Any], Any]:
    """Return a change of the first batch that also updates its checksum."""
    from crc32c import crc32c  # noqa: PLC0415 - one mutant needs it

    def changed(records: Any) -> Any:
        data = bytearray(records or b"")
        if len(data) > 61 and data[16] == 2:
            change(data)
            end = 12 + int.from_bytes(data[8:12], "big")
            data[17:21] = crc32c(bytes(data[21:end])).to_bytes(4, "big")
        return data

    return changed


def stamped(data: bytearray) -> None:
    data[27:43] = (1_800_000_000_000).to_bytes(8, "big") * 2
