"""Expectations about records, and the messages for unmet ones.

record(value={"id": 1}, key="a", headers={"trace": ...})     # values are compared as JSON, and ... matches anything
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from minibroker.config.documents import parse_json
from minibroker.operations.records import ConsumerRecord, Undecodable
from minibroker.operations.wording import format_count
from minibroker_protocol.records.record import Record

Decode: TypeAlias = Callable[[ConsumerRecord | Record, str], object]
"""Returns the decoded `key` or `value` of a record: a value of JSON, an `Undecodable`, or bytes without a schema."""

ANY: Final = ...
"""Matches anything."""
_SHOWN: Final = 5
"""Maximum number of most similar records in a message, and of differences shown for each."""
_SHOWN_BYTES: Final = 200
_SCHEMA_ID_BYTES: Final = 5
"""The size of the byte 0 and the id of a schema before an encoded value."""


@dataclass(frozen=True, slots=True)
class RecordMatcher:
    """An expected record, in which `...` matches anything.

    An expected `key` or `value` is compared as bytes if it is bytes, as UTF-8 if it is text, and as null if it is
    None. Anything else is compared with the record's bytes parsed as JSON. Where the broker can decode them by a
    schema, text and anything else are compared with the decoded value. An object may have more members than expected.
    `headers` are the required headers.
    """

    value: Any = ANY
    key: Any = ANY
    headers: Mapping[str, Any] | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None

    def mismatches(self, record: ConsumerRecord, decode: Decode = getattr) -> list[str]:
        """Return a line for each difference between the record and the expectation."""
        lines: list[str] = []
        for name in ("key", "value"):
            expected, actual = getattr(self, name), getattr(record, name)
            if not _equals_bytes(expected, actual):
                lines += _compare(name, expected, decode(record, name))
        for name, expected in (self.headers or {}).items():
            values = [value for key, value in record.headers if key == name]
            if not values:
                names = ", ".join(sorted({key for key, _ in record.headers})) or "none"
                lines.append(f"header {name!r}: missing; headers: {names}")
            elif not any(_equals_bytes(expected, value) or not _compare("", expected, value) for value in values):
                lines += _compare(f"header {name!r}", expected, values[-1])
        for name in ("partition", "offset", "timestamp"):
            expected, actual = getattr(self, name), getattr(record, name)
            if expected is not None and expected != actual:
                lines.append(f"{name}: expected {expected}, found {actual}")
        return lines

    def matches(self, record: ConsumerRecord, decode: Decode = getattr) -> bool:
        """Return whether the record meets the expectation."""
        return not self.mismatches(record, decode)

    def __str__(self) -> str:
        conditions = [f"{name}={value!r}" for name in ("key", "value") if (value := getattr(self, name)) is not ANY]
        names = ("headers", "partition", "offset", "timestamp")
        conditions += [f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None]
        return f"record({', '.join(conditions)})"


def record(
    value: Any = ANY,
    *,
    key: Any = ANY,
    headers: Mapping[str, Any] | None = None,
    partition: int | None = None,
    offset: int | None = None,
    timestamp: int | None = None,
) -> RecordMatcher:
    """Return an expectation for one record; see `RecordMatcher`.

    A matcher given as `value` is returned unchanged, so that `expect(topic, record(...))` works as expected.

    Raises:
        TypeError: a matcher is combined with other conditions.
    """
    if not isinstance(value, RecordMatcher):
        return RecordMatcher(value, key, headers, partition, offset, timestamp)
    if RecordMatcher(ANY, key, headers, partition, offset, timestamp) != RecordMatcher():
        raise TypeError(f"{value} has all conditions: write key, headers and partition into record(...)")
    return value


def explain(expected: RecordMatcher, records: Iterable[ConsumerRecord], decode: Decode = getattr) -> str:
    """Return a message that explains why none of the records matches.

    It shows the most similar records with their differences, then counts the records that differ in each part.
    """
    compared = sorted(
        ((expected.mismatches(record, decode), record) for record in records), key=lambda pair: len(pair[0])
    )
    lines = [_shorten(f"expected {expected}", 5 * _SHOWN_BYTES)]
    lines.append(f"found {format_count(len(compared), 'record')}" + (", the nearest first:" if compared else ""))
    for mismatches, record in compared[:_SHOWN]:
        lines.append(f"  {describe(record, decode)}")
        lines += [f"    {mismatch}" for mismatch in mismatches[:_SHOWN]]
        if len(mismatches) > _SHOWN:
            lines.append(f"    and {len(mismatches) - _SHOWN} more differences")
    if len(compared) > _SHOWN:
        lines.append(f"  and {len(compared) - _SHOWN} more")
        counts = Counter(
            part for mismatches, _ in compared for part in {mismatch.partition(": ")[0] for mismatch in mismatches}
        )
        most = sorted(counts.items(), key=lambda count: (-count[1], count[0]))[:_SHOWN]
        lines.append(f"of {len(compared)} differ " + ", ".join(f"{count} in {part}" for part, count in most))
    return "\n".join(lines)


def describe(record: ConsumerRecord, decode: Decode = getattr) -> str:
    """Return a one-line description of a record."""
    shown = ", ".join(f"{name!r}: {show(value)}" for name, value in record.headers)
    headers = f", headers={{{_shorten(shown)}}}" if shown else ""
    position = f"{record.topic}-{record.partition}@{record.offset}"
    key, value = (show(decode(record, name)) for name in ("key", "value"))
    return f"{position}: key={key}, value={value}{headers}"


def _equals_bytes(expected: Any, actual: bytes | None) -> bool:
    """Return whether bytes, text or None is expected and found, or anything is expected."""
    if isinstance(expected, bytes | bytearray | str):
        return actual == (expected.encode() if isinstance(expected, str) else expected)
    return expected is ANY or (expected is None and actual is None)


def _compare(subject: str, expected: Any, actual: object) -> list[str]:
    """Compare a key, value or header that does not have the expected bytes."""
    if isinstance(actual, bytes) and not isinstance(expected, bytes | bytearray | str | None):
        data = actual
        try:
            actual = parse_json(data, subject)
        except ValueError:
            found = f"{show(data)}, which is no JSON"
            if len(data) > _SCHEMA_ID_BYTES and not data[0]:
                found += f"; a schema with the id {int.from_bytes(data[1:_SCHEMA_ID_BYTES])} is not registered"
            return [f"{subject}: expected JSON {_shorten(repr(expected))}, found {found}"]
    elif actual is None or isinstance(actual, bytes | Undecodable) or isinstance(expected, bytes | bytearray):
        wanted = show(bytes(expected)) if isinstance(expected, bytes | bytearray) else _shorten(repr(expected))
        return [f"{subject}: expected {wanted}, found {show(actual)}"]
    return _compare_json(subject, expected, actual)


def _compare_json(subject: str, expected: Any, actual: Any) -> list[str]:
    if expected is ANY:
        return []
    if isinstance(expected, Mapping) and isinstance(actual, dict):
        members = cast("dict[str, Any]", actual)
        mismatches: list[str] = []
        for name, value in cast("Mapping[str, Any]", expected).items():
            if name not in members:
                mismatches.append(f"{subject}.{name}: expected {_shorten(repr(value))}, missing")
            else:
                mismatches += _compare_json(f"{subject}.{name}", value, members[name])
        return mismatches
    if isinstance(expected, list | tuple) and isinstance(actual, list):
        expected_items, actual_items = _as_list(expected), _as_list(actual)
        if len(expected_items) == len(actual_items):
            pairs = zip(expected_items, actual_items, strict=True)
            return [line for index, pair in enumerate(pairs) for line in _compare_json(f"{subject}[{index}]", *pair)]
    # Compare the types, too, because True equals 1 in Python.
    is_same_kind = isinstance(expected, bool) is isinstance(actual, bool)
    if is_same_kind and expected == actual:
        return []
    expected_text, actual_text = f"{expected!r}", f"{actual!r}"
    return [f"{subject}: expected {_shorten(expected_text)}, found {_shorten(actual_text)}"]


def _as_list(value: Any) -> list[Any]:
    return list(cast("Sequence[Any]", value))


def _shorten(text: str, length: int = _SHOWN_BYTES) -> str:
    return text if len(text) <= length else f"{text[:length]}... ({len(text)} characters)"


def show(value: object) -> str:
    """Return a key or value that may be decoded, as text of limited length."""
    if value is None:
        return "null"
    if isinstance(value, Undecodable):
        return f"{show(value.data)}, which cannot be decoded: {value.reason}"
    if not isinstance(value, bytes):
        return _shorten(repr(value))
    shown: bytes | str = value[:_SHOWN_BYTES]
    if b"\0" not in value:
        with suppress(UnicodeDecodeError):
            shown = value[:_SHOWN_BYTES].decode()
    return repr(shown) + (f"... ({len(value)} bytes)" if len(value) > _SHOWN_BYTES else "")
