"""Generates the functions that go over the records of a v2 batch from one description of a record.

Such a function runs its loop once for each record, and a call per field would cost more than the field. So the usual
integers of one or two bytes are read in line, which takes seven lines each. `FIELDS` says what a record is; a
`RecordLoop` says what a function does with the fields; `source` writes the function:

    def add(data, position, count):
        \"\"\"The sum of the timestamp deltas.\"\"\"
        become(add, _ADD)
        return add(data, position, count)

    _ADD = RecordLoop("data, position, count", records="count", before="total = 0",
                      fields={"timestamp_delta": "total += (raw >> 1) ^ -(raw & 1)"}, after="return total")

The first call generates the body, and every later one runs it, at the price of a function written by hand.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from minibroker_protocol.errors import DecodeError, InvalidRecordError
from minibroker_protocol.records.varint import CONTINUES, finish_varint, finish_varlong

VARINT: Final = "finish_varint"
VARLONG: Final = "finish_varlong"
BYTE: Final = "byte"
BYTES: Final = "bytes"
HEADERS: Final = "headers"

FIELDS: Final = {
    "length": VARINT,
    "attributes": BYTE,
    "timestamp_delta": VARLONG,
    "offset_delta": VARINT,
    "key": BYTES,
    "value": BYTES,
    "headers": HEADERS,
}
"""The fields of a record in their order (Kafka's `DefaultRecord`; see `record`), and how each is written."""

NUMBER: Final = "(raw >> 1) ^ -(raw & 1)"
"""The integer whose raw value is in `raw`."""
_CO_GENERATOR: Final = 0x20
"""`inspect.CO_GENERATOR`. To import `inspect` would make the start longer."""
_NAMES: Final = {
    "DecodeError": DecodeError,
    "InvalidRecordError": InvalidRecordError,
    VARINT: finish_varint,
    VARLONG: finish_varlong,
}


class RecordLoop(NamedTuple):
    """Lines of Python that a function runs for each record.

    They have these variables at hand: `data` and `position`, the bytes and where the next field begins; `index`, the
    record's number; `raw`, the integer just read, or the length of bytes; `key` and `value`. `end`, where the record
    ends, is theirs to set behind the length.
    """

    parameters: str
    #: The arguments of `range` for the records' numbers; one alone is how many records there are.
    records: str
    #: The lines ahead of the loop.
    before: str
    #: By name, the lines behind each field. Fields that are not here are passed over, and those behind the last one of
    #: these are not read.
    fields: Mapping[str, str]
    #: The lines behind the last field.
    each: str = ""
    #: The lines behind the loop.
    after: str = ""
    #: The record ends where its length says, whatever is in the fields that were not read.
    skips_rest: bool = False
    #: What the lines name beside the variables.
    names: Mapping[str, object] = MappingProxyType({})


def become(function: Callable[..., Any], loop: RecordLoop) -> None:
    """Make the generated code the body of `function`. What it names is put beside the function.

    TypeError if only one of the two is a generator: Python 3.13 and newer warn of that.
    """
    name = function.__name__
    namespace: dict[str, Any] = {}
    exec(compile(source(name, loop), f"<{function.__module__}.{name}>", "exec"), namespace)  # noqa: S102 - our own text
    code = namespace[name].__code__
    if (code.co_flags ^ function.__code__.co_flags) & _CO_GENERATOR:
        raise TypeError(f"{name} and its generated body must both be generators, or neither")
    function.__globals__.update({**_NAMES, **loop.names})
    function.__code__ = code


def source(name: str, loop: RecordLoop) -> str:
    """The Python source of a loop's function, for readers and tests."""
    writer = _Writer()
    writer.lines(0, f"def {name}({loop.parameters}):")
    writer.lines(1, loop.before)
    writer.lines(1, "index = 0\ntry:")
    writer.lines(2, f"for index in range({loop.records}):")
    names = list(FIELDS)
    last = max(names.index(field) for field in loop.fields)
    for number, field in enumerate(names[: last + 1]):
        writer.field(field, FIELDS[field], loop.fields.get(field), stays=loop.skips_rest and number == last)
    writer.lines(3, loop.each)
    if loop.skips_rest:
        writer.lines(3, "position = end")
    writer.lines(1, _REFUSALS)
    writer.lines(1, loop.after)
    return "\n".join(writer.text) + "\n"


_REFUSALS: Final = """\
except IndexError:
    raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch") from None
except DecodeError as error:
    raise InvalidRecordError(f"record {index}: {error}") from None"""


class _Writer:
    """Lines of the function; `_passed` bytes lie between `position` and the next field."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._passed = 0

    def lines(self, depth: int, text: str) -> None:
        self.text += ["    " * depth + line for line in text.splitlines()]

    def field(self, name: str, kind: str, use: str | None, *, stays: bool) -> None:
        if kind is BYTE:
            self._passed += 1
        elif kind is HEADERS:
            self.lines(3, use or "")
        elif use is None and kind is not BYTES:
            self._pass_integer()
        else:
            self._integer(VARINT if kind is BYTES else kind, stays=stays)
            if kind is BYTES:
                self._bytes(name if use is not None else None)
            self.lines(3, use or "")

    def _integer(self, finish: str, *, stays: bool) -> None:
        """Read an integer into `raw`. With `stays` the caller does not need `position` afterwards."""
        at, self._passed = self._passed, 0
        following = f"position + {at + 1}" if stays else "position"
        self.lines(3, f"raw = data[position{f' + {at}' if at else ''}]")
        if not stays:
            self.lines(3, f"position += {at + 1}")
        self.lines(3, f"if raw >= {CONTINUES}:\n    byte = data[{following}]\n    if byte < {CONTINUES}:")
        self.lines(5, f"raw += (byte << 7) - {CONTINUES}")
        if not stays:
            self.lines(5, "position += 1")
        self.lines(4, f"else:\n    raw, {'_' if stays else 'position'} = {finish}(data, {following}, raw)")

    def _pass_integer(self) -> None:
        at, self._passed = self._passed, 1
        if at:
            self.lines(3, f"position += {at}")
        self.lines(3, f"while data[position] >= {CONTINUES}:\n    position += 1")

    def _bytes(self, name: str | None) -> None:
        """Take bytes whose length is in `raw`. A slice beyond the data comes out short; `position` shows it."""
        if name is None:
            self.lines(3, "if not raw & 1:\n    position += raw >> 1")
        else:
            self.lines(3, f"if raw & 1:\n    {name} = None\nelse:\n    start = position\n    position += raw >> 1")
            self.lines(4, f"{name} = data[start:position]")
