"""Message changes for mutants. A path leads to a field in all elements of the arrays along it."""

from collections.abc import Callable, Iterator
from typing import Any

Change = Callable[[Any, Any], None]


def _holders(message: Any, path: str) -> Iterator[tuple[Any, str]]:
    *steps, name = path.split(".")
    found = [message]
    for step in steps:
        found = [element for holder in found for element in (getattr(holder, step) or ())]
    for holder in found:
        yield holder, name


def put(path: str, value: Any) -> Change:
    """Return a change that sets a field to this value."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            setattr(holder, name, value)

    return change


def swap(path: str, old: Any, new: Any) -> Change:
    """Return a change that replaces one value of a field with another."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            if getattr(holder, name) == old:
                setattr(holder, name, new)

    return change


def shift(path: str, by: int) -> Change:
    """Return a change that adds `by` to a number unless it is negative, which stands for no value."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            value = getattr(holder, name)
            if value >= 0:
                setattr(holder, name, value + by)

    return change


def lose(path: str, which: Callable[[Any], object] | None = None) -> Change:
    """Return a change that removes an array's last element, or the elements for which `which` is true."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            elements = list(getattr(holder, name) or ())
            kept = elements[:-1] if which is None else [each for each in elements if not which(each)]
            setattr(holder, name, kept)

    return change


def double(path: str) -> Change:
    """Return a change that repeats an array's last element."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            elements = list(getattr(holder, name) or ())
            setattr(holder, name, elements + elements[-1:])

    return change


def made(path: str, make: Callable[[Any], Any]) -> Change:
    """Return a change that computes a field's value from its old value."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            setattr(holder, name, make(getattr(holder, name)))

    return change


def asked(change: Change) -> Callable[[Any], None]:
    """Convert a change of a response to a change of a request."""
    return lambda request: change(request, request)


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
