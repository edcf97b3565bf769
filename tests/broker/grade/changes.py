"""Changes of messages, for mutants: a path leads to a field in all elements of the arrays on its way."""

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
    """A field always has this value."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            setattr(holder, name, value)

    return change


def swap(path: str, old: Any, new: Any) -> Change:
    """One value becomes another one."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            if getattr(holder, name) == old:
                setattr(holder, name, new)

    return change


def shift(path: str, by: int) -> Change:
    """A number is off by so much, unless it stands for nothing."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            value = getattr(holder, name)
            if value >= 0:
                setattr(holder, name, value + by)

    return change


def lose(path: str, which: Callable[[Any], object] | None = None) -> Change:
    """An array loses its last element, or those of some kind."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            elements = list(getattr(holder, name) or ())
            kept = elements[:-1] if which is None else [each for each in elements if not which(each)]
            setattr(holder, name, kept)

    return change


def double(path: str) -> Change:
    """An array has its last element twice."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            elements = list(getattr(holder, name) or ())
            setattr(holder, name, elements + elements[-1:])

    return change


def made(path: str, make: Callable[[Any], Any]) -> Change:
    """A field is made of what it was."""

    def change(message: Any, request: Any) -> None:
        for holder, name in _holders(message, path):
            setattr(holder, name, make(getattr(holder, name)))

    return change


def asked(change: Change) -> Callable[[Any], None]:
    """The same for a request."""
    return lambda request: change(request, request)


def flipped(at: int, by: int = 1) -> Callable[[Any], Any]:
    """Records with one byte of their first batch changed."""

    def change(records: Any) -> Any:
        changed = bytearray(records or b"")
        if len(changed) > at:
            changed[at] ^= by
        return changed

    return change


def codec_of(records: Any) -> int:
    """The codec of the first batch of records in format 2; 0 for other ones."""
    data = bytes(records or b"")
    return data[22] & 7 if len(data) > 61 and data[16] == 2 else 0


def of_codec(codec: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A change of records whose first batch has this codec."""
    return lambda records: change(records) if codec_of(records) == codec else records


def first_batch(records: Any) -> Any:
    """The first batch of records."""
    data = bytes(records or b"")
    return data[: 12 + int.from_bytes(data[8:12], "big")]


def without_first_batch(records: Any) -> Any:
    """The records behind the first batch."""
    data = bytes(records or b"")
    return data[12 + int.from_bytes(data[8:12], "big") :]


def signed(change: Callable[[bytearray], None]) -> Callable[[Any], Any]:
    """A change of the first batch, with the checksum that fits."""
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
