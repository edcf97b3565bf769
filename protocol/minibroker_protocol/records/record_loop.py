"""Generates functions that loop over the records of a v2 batch from one description of the record format.

In such a loop, a call per field would cost more than reading the field. The integers, which usually have one or two
bytes, are therefore read inline, in seven lines of code each. `FIELDS` describes the record format, a `RecordLoop`
describes what a function does with the fields, and `source` generates the function:

    def add(data, position, count):
        # Returns the sum of the timestamp deltas.
        replace_body(add, _ADD)
        return add(data, position, count)

    _ADD = RecordLoop("data, position, count", records="count", before="total = 0",
                      fields={"timestamp_delta": "total += (raw >> 1) ^ -(raw & 1)"}, after="return total")

The first call generates the body. Later calls execute it directly, at the speed of a handwritten function.
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
"""The fields of a record in order (Kafka's `DefaultRecord`; see `record`), with their encoding."""

NUMBER: Final = "(raw >> 1) ^ -(raw & 1)"
"""An expression that decodes the zig-zag integer in `raw`."""
_CO_GENERATOR: Final = 0x20
"""The value of `inspect.CO_GENERATOR`, copied because importing `inspect` would slow down start-up."""
_NAMES: Final = {
    "DecodeError": DecodeError,
    "InvalidRecordError": InvalidRecordError,
    VARINT: finish_varint,
    VARLONG: finish_varlong,
}


class RecordLoop(NamedTuple):
    """The lines of Python that a generated function executes for each record.

    The lines can use these variables: `data`; `position`, the start of the next field; `index`, the number of the
    record; `raw`, the undecoded integer or length that was just read; `key` and `value`. Lines that need `end`, the
    end of the record, must set it after the length field.
    """

    parameters: str
    #: The arguments of `range` for the record numbers; a single argument is the record count.
    records: str
    #: The lines before the loop.
    before: str
    #: Maps a field name to the lines to execute after that field. Unlisted fields are skipped, and reading stops after
    #: the last listed field.
    fields: Mapping[str, str]
    #: The lines after the last field of each record.
    per_record: str = ""
    #: The lines after the loop.
    after: str = ""
    #: Whether the length of a record alone determines where the next record begins. If so, fields that are not read are
    #: not checked.
    skips_rest: bool = False
    #: The objects that the lines use besides the variables above, by name.
    names: Mapping[str, object] = MappingProxyType({})


def replace_body(function: Callable[..., Any], loop: RecordLoop) -> None:
    """Replace the body of `function` with the generated code, and add the names it uses to the function's globals.

    Raises:
        TypeError: only one of the two is a generator, for which Python 3.13 and newer issue a warning.
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
    """Return the Python source of a loop's function, for readers and tests."""
    writer = _Writer()
    writer.emit_lines(0, f"def {name}({loop.parameters}):")
    writer.emit_lines(1, loop.before)
    writer.emit_lines(1, "index = 0\ntry:")
    writer.emit_lines(2, f"for index in range({loop.records}):")
    names = list(FIELDS)
    last = max(names.index(field) for field in loop.fields)
    for number, field in enumerate(names[: last + 1]):
        writer.emit_field(
            field, FIELDS[field], loop.fields.get(field), keeps_position=loop.skips_rest and number == last
        )
    writer.emit_lines(3, loop.per_record)
    if loop.skips_rest:
        writer.emit_lines(3, "position = end")
    writer.emit_lines(1, _REFUSALS)
    writer.emit_lines(1, loop.after)
    return "\n".join(writer.text) + "\n"


_REFUSALS: Final = """\
except IndexError:
    raise InvalidRecordError(f"record {index}: a field goes beyond the end of the batch") from None
except DecodeError as error:
    raise InvalidRecordError(f"record {index}: {error}") from None"""


class _Writer:
    """Writes the lines of the function. `_skipped_bytes` counts the bytes between `position` and the next field."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self._skipped_bytes = 0

    def emit_lines(self, depth: int, text: str) -> None:
        self.text += ["    " * depth + line for line in text.splitlines()]

    def emit_field(self, name: str, kind: str, use: str | None, *, keeps_position: bool) -> None:
        if kind is BYTE:
            self._skipped_bytes += 1
        elif kind is HEADERS:
            self.emit_lines(3, use or "")
        elif use is None and kind is not BYTES:
            self._emit_skip()
        else:
            self._emit_integer(VARINT if kind is BYTES else kind, keeps_position=keeps_position)
            if kind is BYTES:
                self._emit_bytes(name if use is not None else None)
            self.emit_lines(3, use or "")

    def _emit_integer(self, finish: str, *, keeps_position: bool) -> None:
        """Emit code that reads an integer into `raw`, and updates `position` unless `keeps_position` is true."""
        at, self._skipped_bytes = self._skipped_bytes, 0
        following = f"position + {at + 1}" if keeps_position else "position"
        self.emit_lines(3, f"raw = data[position{f' + {at}' if at else ''}]")
        if not keeps_position:
            self.emit_lines(3, f"position += {at + 1}")
        self.emit_lines(3, f"if raw >= {CONTINUES}:\n    byte = data[{following}]\n    if byte < {CONTINUES}:")
        self.emit_lines(5, f"raw += (byte << 7) - {CONTINUES}")
        if not keeps_position:
            self.emit_lines(5, "position += 1")
        self.emit_lines(
            4, f"else:\n    raw, {'_' if keeps_position else 'position'} = {finish}(data, {following}, raw)"
        )

    def _emit_skip(self) -> None:
        at, self._skipped_bytes = self._skipped_bytes, 1
        if at:
            self.emit_lines(3, f"position += {at}")
        self.emit_lines(3, f"while data[position] >= {CONTINUES}:\n    position += 1")

    def _emit_bytes(self, name: str | None) -> None:
        """Emit code that reads bytes whose length is in `raw`.

        A slice past the end of the data is too short, without an error; only the final `position` reveals this.
        """
        if name is None:
            self.emit_lines(3, "if not raw & 1:\n    position += raw >> 1")
        else:
            self.emit_lines(3, f"if raw & 1:\n    {name} = None\nelse:\n    start = position\n    position += raw >> 1")
            self.emit_lines(4, f"{name} = data[start:position]")
