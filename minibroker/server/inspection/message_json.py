"""Decoded messages for storage and display: copies that own their bytes, and JSON with Kafka's field names.

A decoded request has views into the receive buffer, and a fetch response has file ranges. `detach` copies a message
without either. `to_json` converts it like Kafka's `<Message>JsonConverter`: the fields of its version have their names
in Kafka's definitions, and ids have 22 characters. Bytes are text if they are UTF-8, otherwise `{"base64": ...}`.
Records are `{"size": bytes, "batches": ..., "records": ...}`.
"""

import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Final, NamedTuple, cast

from minibroker.config import ConfigType
from minibroker.config.run_time import key_of
from minibroker_protocol import primitives as p
from minibroker_protocol.json_values import bytes_json, camel_case
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.records.header import (
    CODEC_MASK,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    entry_bounds,
)
from minibroker_protocol.schema import Field, fields_of, schema_of
from minibroker_storage.errors import StorageError
from minibroker_storage.files import LogSlice
from minibroker_storage.portability import os

SECRETS: Final = frozenset(("auth_bytes", "hmac", "salt", "salted_password"))
"""Fields of SaslAuthenticate, of delegation tokens and of SCRAM credentials."""

SETTINGS: Final = frozenset(("AlterableConfig", "IncrementallyAlteredConfig"))
"""Structures of AlterConfigs and IncrementalAlterConfigs, whose value may be a broker's password."""
_LOGINS: Final = ".sasl.jaas.config"
"""The suffix of keys that begin with a mechanism. Their values contain the users' passwords."""
_SECRET_WORDS: Final = ("password", "secret", "credential", "token")
"""Parts of the names of unknown keys whose values may be secrets. Kafka treats all unknown keys as sensitive."""
_HIDDEN: Final = "[hidden]"

_VALUE_SIZE: Final = 40
"""The estimated memory of a value besides its content, in bytes."""
_PART: Final = 65_536
"""The number of bytes read from a file at a time."""
_SHORT: Final = 4096
"""The headers in longer file ranges are read on demand, because a range can have tens of thousands."""
_INT32: Final = struct.Struct(">i")
_COUNT_AT: Final = 57
_HEAD: Final = struct.Struct(">8xi4xB40xi")
"""The length, magic and number of records of a batch of format v2."""
_unpack_head: Final = _HEAD.unpack_from
_ATTRIBUTES_OF_MESSAGES_AT: Final = 17


class RecordsSummary(NamedTuple):
    """A summary of the records of one partition.

    Attributes:
        size: The size in bytes.
        batches: The number of batches of format v2, or of messages of formats v0 and v1. The last one may be
            incomplete. None if the file of the records was deleted before it could be read.
        records: The number of records, or None. It is also None if there are compressed messages of v0 or v1,
            because their number of records is only known after decompression.
    """

    size: int
    batches: int | None
    records: int | None


def summary(records: Any) -> RecordsSummary | None:
    """Return a summary of a records field: bytes, a file range, or None. Read little more than the headers of a range.

    It can be called on any thread.
    """
    if records is None or isinstance(records, RecordsSummary):
        return records
    return _summary_of_range(records) if isinstance(records, LogSlice) else _summary_of_bytes(memoryview(records))


def summarize_or_keep(records: Any, *, keeps_bytes: bool = False) -> RecordsSummary | LogSlice | bytes | None:
    """Return a summary of a records field, or the field itself if it is a file range that takes long to read.

    Call it on the broker's thread.

    Args:
        records: The field.
        keeps_bytes: Whether to return the bytes of a short file range.
    """
    if isinstance(records, LogSlice):
        if records.size > _SHORT:
            return records
        try:
            data = bytes(records.read())
        except (OSError, StorageError):
            return RecordsSummary(records.size, None, None)
        return data if keeps_bytes else summary(data)
    return summary(records)


def count_records(records: memoryview | bytes | None) -> tuple[int, int | None, int | None] | None:
    """Return the fields of a summary of records in memory. This is fast for a single batch, the usual case."""
    if records is None:
        return None
    size = len(records)
    if size >= RECORD_BATCH_OVERHEAD:
        length, magic, number = _unpack_head(records)
        if magic >= MAGIC_V2 and LOG_OVERHEAD + length == size:
            return size, 1, number
    return _summary_of_bytes(memoryview(records))


def _summary_of_bytes(view: memoryview) -> RecordsSummary:
    _, batches, count = _count_entries(view, is_last=True)
    return RecordsSummary(len(view), batches, count)


def _summary_of_range(records: LogSlice) -> RecordsSummary:
    try:
        fd = records.handle.reopen()
        try:
            return _summary_of_file(fd, records.position, records.size)
        finally:
            os.close(fd)
    except (OSError, StorageError):  # The file was deleted, so only the size of the records is known.
        return RecordsSummary(records.size, None, None)


def _summary_of_file(fd: int, begin: int, size: int) -> RecordsSummary:
    position, batches = 0, 0
    count: int | None = 0
    while position < size:
        view = memoryview(os.pread(fd, min(_PART, size - position), begin + position))
        is_last = position + len(view) >= size
        end, entries, counted = _count_entries(view, is_last=is_last)
        batches += entries
        count = None if count is None or counted is None else count + counted
        if is_last or not end:
            break
        position += end
    return RecordsSummary(size, batches, count)


def _count_entries(view: memoryview, *, is_last: bool) -> tuple[int, int, int | None]:
    """Return (end of the last entry, entries, records). Count an entry with a truncated header only if `is_last`."""
    end, entry_count = 0, 0
    record_count: int | None = 0
    unpack, last_head = _HEAD.unpack_from, len(view) - RECORD_BATCH_OVERHEAD
    while end <= last_head:
        length, magic, batch_records = unpack(view, end)
        if length <= 0 or magic < MAGIC_V2:
            break
        end += LOG_OVERHEAD + length
        entry_count += 1
        record_count += batch_records
    tail = view[end:]
    # The tail has entries of other formats, or the incomplete header of the last entry.
    for position, size in entry_bounds(tail):
        entry = tail[position:]
        if not is_last and len(entry) < RECORD_BATCH_OVERHEAD:
            return len(view) - len(entry), entry_count, record_count
        entry_count += 1
        if record_count is not None:
            in_entry = _count_records_in(entry)
            record_count = None if in_entry is None else record_count + in_entry
        end = len(view) - len(entry) + size
    return end, entry_count, record_count


def _count_records_in(entry: memoryview) -> int | None:
    if entry[MAGIC_AT] >= MAGIC_V2:
        count: int = _INT32.unpack_from(entry, _COUNT_AT)[0] if len(entry) >= RECORD_BATCH_OVERHEAD else 0
        return count
    if len(entry) > _ATTRIBUTES_OF_MESSAGES_AT and entry[_ATTRIBUTES_OF_MESSAGES_AT] & CODEC_MASK:
        return None
    return 1


def detach(message: Any) -> Any:
    """Return a copy of a message or structure that shares nothing with buffers, files or other messages."""
    if message is None:
        return None
    cls: Any = message.__class__
    copied = cls(**{name: copy(getattr(message, name)) for name, copy in _field_copiers(cls)})
    if cls.__name__ in SETTINGS and copied.value and is_password(copied.name):
        copied.value = _HIDDEN
    return copied


def memory_of(value: Any) -> int:
    """Return the estimated memory of a detached message or of a value in it, in bytes."""
    if isinstance(value, list):
        return _VALUE_SIZE + sum(memory_of(element) for element in cast("Sequence[Any]", value))
    if isinstance(value, str | bytes):
        return _VALUE_SIZE + len(value)
    names = getattr(value.__class__, "__dataclass_fields__", ())
    return _VALUE_SIZE + sum(memory_of(getattr(value, name)) for name in names)


def is_password(key: str) -> bool:
    """Return whether the value of a configuration key is a secret."""
    if key.endswith(_LOGINS):
        return True
    config_key = key_of(key)
    if config_key is None:  # The key may belong to a plug-in of another broker, so its name must suffice.
        return any(word in key.lower() for word in _SECRET_WORDS)
    return config_key.type is ConfigType.PASSWORD


@cache
def _field_copiers(cls: type[Any]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    return tuple(
        (field.name, _hide_secret if field.name in SECRETS else _make_copier(field)) for field in fields_of(cls)
    )


def _hide_secret(value: bytes | None) -> bytes | None:
    """Hide a secret from readers of the journal."""
    return _HIDDEN.encode() if value else value


def _make_copier(field: Field) -> Callable[[Any], Any]:
    if field.kind is p.RECORDS:
        return summary
    copy_value = (
        _copy_bytes if field.kind is p.BYTES else detach if not isinstance(field.kind, p.WireType) else _keep_value
    )
    if field.is_array:
        return lambda values: None if values is None else [copy_value(value) for value in values]
    return copy_value


def _copy_bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def _keep_value(value: Any) -> Any:
    return value


def to_json(message: Any, version: int) -> Any:
    """Return a message as a JSON value for `json.dumps`, with the fields of `version` only."""
    if message is None:
        return None
    return _convert_structure(message, version, flexible=version in schema_of(message.__class__).flexible)


def _convert_structure(value: Any, version: int, *, flexible: bool) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, json_name, is_array, convert in _json_fields(value.__class__, version, flexible=flexible):
        content = getattr(value, name)
        if content is not None:
            # Only the field itself can be null, not an element of its array.
            content = [convert(element) for element in content] if is_array else convert(content)
        document[json_name] = content
    return document


@cache
def _json_fields(
    cls: type[Any], version: int, *, flexible: bool
) -> tuple[tuple[str, str, bool, Callable[[Any], Any]], ...]:
    """Return a tuple for each field: its name, its JSON name, an is-array flag, and the converter for its elements."""
    return tuple(
        (field.name, camel_case(field.name), field.is_array, _json_converter(field, version, flexible=flexible))
        for field in fields_of(cls)
        if version in field.present and (flexible or version not in field.tagged_in)
    )


def _json_converter(field: Field, version: int, *, flexible: bool) -> Callable[[Any], Any]:
    if not isinstance(field.kind, p.WireType):
        return partial(_convert_structure, version=version, flexible=flexible)
    return _SHOWN_AS.get(field.kind, _convert_scalar)


def _convert_records(value: Any) -> dict[str, Any] | None:
    records = summary(value)
    return None if records is None else records._asdict()


def _convert_scalar(value: Any) -> Any:
    return value if isinstance(value, str | float | bool) else int(value)


_SHOWN_AS: Final[dict[p.WireType, Callable[[Any], Any]]] = {
    p.RECORDS: _convert_records,
    p.UUID: uuid_text,
    p.BYTES: lambda value: bytes_json(bytes(value)),
}
