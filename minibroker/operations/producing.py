"""Writes records to a topic without a client, for test fixtures and seed data.

In JSON, a string stands for its UTF-8 bytes, null for null, `{"base64": ...}` for arbitrary bytes, and any other value
for its own JSON text. `{"json": ...}` marks a value as JSON where it would otherwise be read differently. When records
are shown, the form "text" shows bytes as a string if they are UTF-8, and as base64 if not. The form "json" shows the
value that the bytes encode, or falls back to "text" if they are not JSON.
"""

import base64
import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from minibroker.cluster.errors import OperationError, is_the_callers
from minibroker.cluster.logs.error_mapping import MAPPED
from minibroker.cluster.topic_admin import TopicError
from minibroker.cluster.topics import Topic
from minibroker.config.documents import parse_json
from minibroker.operations.records import Undecodable, describe_missing_partition, topic_of
from minibroker.operations.wording import Int64
from minibroker.server.services import Services
from minibroker_protocol.errors import EncodeError
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import MAGIC_V2, NO_TIMESTAMP, CompressionCodec
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.log_validator import prepare
from minibroker_protocol.records.partitioner import partition_for_key
from minibroker_protocol.records.record import NewRecord

__tracebackhide__ = is_the_callers

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Format = Literal["v2", "v1", "v0"]
Payload: TypeAlias = bytes | bytearray | str | Mapping[str, Any] | Sequence[Any] | int | float | bool | None
"""Bytes are stored unchanged, text as UTF-8, None as null, and any other value as JSON."""

_MAGIC: Final = {"v0": 0, "v1": 1, "v2": 2}
_ALL_CODECS: Final = tuple(codec.name.lower() for codec in CompressionCodec)
_LEGACY_CODECS: Final = ("none", "gzip", "snappy", "lz4")
_REFUSALS: Final[tuple[type[Exception], ...]] = (*MAPPED, EncodeError)
_BATCH_BYTES: Final = 512 * 1024
"""Maximum size of a batch, which is below the default of `max.message.bytes`."""
_RECORD_OVERHEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Message:
    """A record to write.

    Attributes:
        partition: None for the partition that Kafka's default partitioner chooses by the key. Records without a key
            use the partitions in turn.
        timestamp: ms since the epoch; None for the broker's time.
    """

    value: Payload = None
    key: Payload = None
    headers: Mapping[str, Payload] | Sequence[tuple[str, Payload]] = ()
    timestamp: int | None = None
    partition: int | None = None


class RecordMetadata(NamedTuple):
    """The partition and offset of a written record."""

    topic: str
    partition: int
    offset: Int64


def payload_bytes(payload: Payload, subject: str) -> bytes | None:
    """Return a key or value as stored bytes.

    Raises:
        OperationError: the value cannot be converted to bytes.
    """
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    try:
        if isinstance(payload, str):
            return payload.encode()
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise OperationError(f"{subject}: {payload!r} is neither bytes nor text, and no JSON: {error}") from None


def produce(
    services: Services, name: str, messages: Iterable[Message], *, message_format: Format = "v2", codec: Codec = "none"
) -> list[RecordMetadata]:
    """Append messages in order, and return the partition and offset of each.

    The topic is created if it does not exist, as for a client. Records are stored in `message_format` regardless of
    the topic's configuration. Formats v0 and v1 are stored the way the brokers of that time stored them.

    Raises:
        OperationError: a message is invalid or refused.
        OSError: the disk fails.
    """
    magic = magic_of(message_format, codec)
    topic = _find_or_create_topic(services, name)
    services.core.writes.commit()
    records = [_make_record(message, services.core.clock.now_ms(), magic) for message in messages]
    places: list[RecordMetadata | None] = [None] * len(records)
    by_partition: dict[int, list[int]] = {}
    turn = sum(target.log.log_end_offset for target in topic.partitions) if len(topic.partitions) > 1 else 0
    for number, (message, record) in enumerate(zip(messages, records, strict=True)):
        partition = message.partition
        if partition is None and record.key is not None:
            partition = partition_for_key(record.key, len(topic.partitions))
        elif partition is None:
            partition = (turn + number) % len(topic.partitions)
        elif not _is_integer(partition) or topic.partition(partition) is None:
            raise OperationError(f"partition: {describe_missing_partition(topic, partition)}")
        by_partition.setdefault(partition, []).append(number)
    for partition, numbers in by_partition.items():
        for batch in _split_batches(records, numbers, min(_BATCH_BYTES, topic.max_message_bytes)):
            first = _append_batch(services, topic, partition, [records[number] for number in batch], magic, codec)
            for delta, number in enumerate(batch):
                places[number] = RecordMetadata(name, partition, first + delta)
    return cast("list[RecordMetadata]", places)


def magic_of(message_format: str, codec: str) -> int:
    """Return the magic of a message format.

    Raises:
        OperationError: the format is unknown or does not support the codec.
    """
    if message_format not in _MAGIC:
        raise OperationError(f"message_format: {message_format!r} is not one of {', '.join(_MAGIC)}")
    magic = _MAGIC[message_format]
    codecs = _ALL_CODECS if magic == MAGIC_V2 else _LEGACY_CODECS
    if codec not in codecs:
        raise OperationError(
            f"codec: {codec!r} is not a codec of message format {message_format}; give one of {', '.join(codecs)}"
        )
    return magic


def _find_or_create_topic(services: Services, name: str) -> Topic:
    topic = services.core.topics.get(name)
    if topic is not None or not services.core.config.boolean("auto.create.topics.enable"):
        return topic_of(services, name)
    try:
        return services.create_topic(name)
    except TopicError as error:
        raise OperationError(f"topic {name!r}: {error}") from None


def _make_record(message: Message, now_ms: int, magic: int) -> NewRecord:
    key, value = payload_bytes(message.key, "key"), payload_bytes(message.value, "value")
    headers = _encode_headers(message.headers)
    if headers and magic != MAGIC_V2:
        raise OperationError(f"headers: format v{magic} does not have any")
    timestamp = now_ms if message.timestamp is None else message.timestamp
    if not _is_integer(timestamp):
        raise OperationError(f"timestamp: {timestamp!r} is not a whole number of milliseconds since 1970")
    if timestamp < NO_TIMESTAMP:
        raise OperationError(f"timestamp: {timestamp} is negative")
    return NewRecord(key, value, timestamp, headers)


def _encode_headers(argument: object) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(cast("Mapping[object, Any]", argument).items()) if isinstance(argument, Mapping) else argument
    if not isinstance(pairs, list | tuple):
        raise OperationError(f"headers: {argument!r} is neither a mapping nor a list of names and values")
    headers: list[tuple[str, bytes | None]] = []
    for pair in cast("Sequence[object]", pairs):
        if not isinstance(pair, list | tuple) or len(cast("Sequence[object]", pair)) != 2:  # noqa: PLR2004 - name and value
            raise OperationError(f"headers: {pair!r} is not a pair of name and value")
        name, value = cast("Sequence[Any]", pair)
        if not isinstance(name, str):
            raise OperationError(f"headers: {name!r} is not a str, as a header's name must be")
        headers.append((name, payload_bytes(value, f"header {name!r}")))
    return tuple(headers)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _split_batches(records: Sequence[NewRecord], numbers: Sequence[int], max_bytes: int) -> Iterator[list[int]]:
    """Yield groups of record numbers, each for a batch of at most `max_bytes` or for one larger record."""
    group: list[int] = []
    size = 0
    for number in numbers:
        record = records[number]
        record_bytes = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        if group and size + record_bytes > max_bytes:
            yield group
            group, size = [], 0
        group.append(number)
        size += record_bytes
    if group:
        yield group


def _append_batch(
    services: Services, topic: Topic, partition: int, records: list[NewRecord], magic: int, codec: Codec
) -> int:
    """Append and commit one batch, and return its first offset."""
    target = topic.partitions[partition]
    log = target.log
    codec_id = CompressionCodec[codec.upper()]
    now_ms = services.core.clock.now_ms()
    name = f"{topic.name}-{partition}"
    try:
        if magic == MAGIC_V2:
            batch = memoryview(build_batch(records, codec=codec_id))
            offset = log.next_offset
            prepared = prepare(batch, topic.append_policy, base_offset=offset, now_ms=now_ms, topic_partition=name)
            if len(prepared.data) > topic.max_message_bytes:
                limit_text = f"max.message.bytes is {topic.max_message_bytes}"
                raise OperationError(f"{name}: a batch of {len(prepared.data)} bytes, but {limit_text}")
            first = log.append(memoryview(prepared.data), prepared.header, target.leader_epoch, now_ms)
        else:
            first = log.next_offset
            data = memoryview(build_message_set(records, magic=magic, base_offset=first, codec=codec_id))
            newest = max(range(len(records)), key=lambda number: records[number].timestamp)
            log.append_message_set(
                data,
                last_offset=first + len(records) - 1,
                max_timestamp=records[newest].timestamp if magic else NO_TIMESTAMP,
                offset_of_max_timestamp=first + newest,
                now_ms=now_ms,
            )
        log.commit()
    except _REFUSALS as error:
        raise OperationError(f"{name}: {error}") from error
    return first


Form = Literal["text", "base64", "json"]


def payload_of(value: Any, subject: str) -> Payload:
    """Return the payload represented by a JSON value.

    Raises:
        OperationError: the base64 text is invalid.
    """
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, dict):
        return cast("Payload", value)
    members = cast("dict[str, Any]", value)
    if members.keys() == {"base64"}:
        try:
            return base64.b64decode(members["base64"], validate=True)
        except (TypeError, ValueError) as error:
            raise OperationError(f"{subject}: {members['base64']!r} is not valid base64: {error}") from None
    if members.keys() == {"json"}:
        item = members["json"]
        return json.dumps(item, ensure_ascii=False).encode() if item is None or isinstance(item, str) else item
    return members


def json_of(value: Any) -> Any:
    """Return the JSON that a schema encodes, without the mark `{"json": ...}`."""
    return value["json"] if getattr(value, "keys", list)() == {"json"} else value


def headers_of(headers: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> list[tuple[str, Payload]]:
    """Return the headers of a record to write."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return [(name, payload_of(value, f"header {name!r}")) for name, value in pairs]


def convert_to_json(data: object, form: Form) -> Any:
    """Return bytes of a record, or a decoded key or value, as a JSON value."""
    if isinstance(data, Undecodable):
        return {**convert_to_json(data.data, "base64"), "reason": data.reason}
    if not isinstance(data, bytes):
        return data
    if form == "json":
        with contextlib.suppress(ValueError):
            content = parse_json(data, "")
            # Encode the value again, because Python also parses NaN and lone surrogates, which other parsers reject.
            json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
            return content
    if form != "base64":
        with contextlib.suppress(UnicodeDecodeError):
            return data.decode()
    return {"base64": base64.b64encode(data).decode()}
