"""Decoders for records of the coordinators' topics (`--offsets-decoder` and similar options).

The output matches DumpLogSegments of Kafka 3.9.1 (`OffsetsMessageParser` and `TransactionLog.formatRecordKeyAndValue`)
and, for share groups, of Kafka 4.3. If a record is unreadable, Kafka's tool either exits, or prints a message and skips
the record. These decoders always skip the record, with a different message.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, cast

from minibroker_protocol.coordinator_records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TransactionLogKey,
    TransactionLogValue,
    decode_versioned,
)
from minibroker_protocol.coordinator_records.consumer_groups import CONSUMER_GROUP_RECORDS
from minibroker_protocol.coordinator_records.share_groups import (
    SHARE_GROUP_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from minibroker_protocol.coordinator_records.streams_groups import STREAMS_GROUP_RECORDS
from minibroker_protocol.coordinator_records.versioned import fields_by_name, has_version, is_array
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.record import Record

_CONSUMER: Final = "consumer"
_DELETE: Final = "<DELETE>"
_VERSION_SIZE: Final = 2
_Kinds = tuple[tuple[type[Any], type[Any]], ...]
_GROUP_RECORDS: Final[_Kinds] = (
    (OffsetCommitKey, OffsetCommitValue),
    (GroupMetadataKey, GroupMetadataValue),
    *CONSUMER_GROUP_RECORDS,
    *SHARE_GROUP_RECORDS,
    *STREAMS_GROUP_RECORDS,
)
_SHARE_STATE_RECORDS: Final[_Kinds] = ((ShareSnapshotKey, ShareSnapshotValue), (ShareUpdateKey, ShareUpdateValue))
_TRANSACTION_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
"""State names by `transaction_status` (Kafka's `TransactionState`)."""

_Bytes = bytes | bytearray | memoryview


class Decoded(NamedTuple):
    """A record as text, with its key and value as JSON, or as bytes that no schema describes.

    If the record cannot be decoded, `problem` gives the reason. `is_fault` is true for a damaged record, and false for
    a record of an unknown kind.
    """

    key_text: str | None
    value_text: str | None
    key: Any = None
    value: Any = None
    problem: str | None = None
    is_fault: bool = False


class Decoder:
    """Decodes the records of one topic with one of the functions of this module.

    `failed` is set after the first damaged record.
    """

    __slots__ = ("_decode", "failed")

    def __init__(self, decode: Callable[[Record], Decoded]) -> None:
        self._decode = decode
        self.failed = False

    def __call__(self, record: Record) -> Decoded:
        """Decode a record."""
        decoded = self._decode(record)
        self.failed = self.failed or decoded.is_fault
        return decoded


class _UndecodableError(Exception):
    """The record cannot be decoded. The message gives the reason."""


def decode_group_record(record: Record) -> Decoded:
    """Decode a record of `__consumer_offsets`.

    The key and value become JSON objects that hold the number of the record type or version, and the fields of Kafka's
    definition. For consumer groups, the members' subscriptions and assignments are decoded too. A
    tombstone is shown as `<DELETE>`.
    """
    return _decode_as_json(record, _GROUP_RECORDS)


def decode_share_state_record(record: Record) -> Decoded:
    """Decode a record of `__share_group_state`, in the format of decode_group_record()."""
    return _decode_as_json(record, _SHARE_STATE_RECORDS)


def _decode_as_json(record: Record, kinds: _Kinds) -> Decoded:
    try:
        key = _require_key(record)
        version = _read_version(key, "key")
        classes = next((pair for pair in kinds if has_version(pair[0], version)), None)
        if classes is None:
            problem = f"Unknown record type {version} at offset {record.offset}, skipping."
            return Decoded(problem, None, problem=problem)
        key_json = {"type": str(version), "data": fields_by_name(_decode_record(classes[0], key, "key"), version)}
        value_json = None if record.value is None else _decode_group_value(classes[1], record.value)
    except _UndecodableError as error:
        return _skip_record(record, error)
    return Decoded(
        _format_json(key_json), _DELETE if value_json is None else _format_json(value_json), key_json, value_json
    )


def decode_transaction_record(record: Record) -> Decoded:
    """Decode a record of `__transaction_state`: a transactional id and its state."""
    try:
        key = _require_key(record)
        version = _read_version(key, "key")
        if not has_version(TransactionLogKey, version):
            problem = f"unknown::version={version}"
            return Decoded(problem, None, problem=problem)
        named: TransactionLogKey = _decode_record(TransactionLogKey, key, "key")
        key_json = {"version": str(version), "data": fields_by_name(named, version)}
        key_text = f"transaction_metadata::transactionalId={named.transactional_id}"
        if record.value is None:
            return Decoded(key_text, _DELETE, key_json)
        value: TransactionLogValue = _decode_record(TransactionLogValue, record.value, "value")
        version = _read_version(record.value, "value")
        value_json = {"version": str(version), "data": fields_by_name(value, version)}
        return Decoded(key_text, _format_transaction(value), key_json, value_json)
    except _UndecodableError as error:
        return _skip_record(record, error)


def _skip_record(record: Record, error: _UndecodableError) -> Decoded:
    problem = f"Error at offset {record.offset}, skipping. {error}"
    return Decoded(problem, None, problem=problem, is_fault=True)


def _require_key(record: Record) -> bytes:
    if record.key is None:
        raise _UndecodableError("The record has no key.")
    return record.key


def _read_version(data: _Bytes, part: str) -> int:
    if len(data) < _VERSION_SIZE:
        raise _UndecodableError(f"Could not read version from {part}'s buffer.")
    return int.from_bytes(data[:_VERSION_SIZE], "big", signed=True)


def _decode_record(cls: type[Any], data: _Bytes, part: str) -> Any:
    version = _read_version(data, part)
    try:
        return decode_versioned(cls, data)
    except DecodeError as error:
        raise _UndecodableError(
            f"Could not read record with version {version} from {part}'s buffer due to: {error}."
        ) from None


def _decode_group_value(cls: type[Any], data: bytes) -> dict[str, Any]:
    version = _read_version(data, "value")
    message = _decode_record(cls, data, "value")
    fields = fields_by_name(message, version)
    if isinstance(message, GroupMetadataValue) and message.protocol_type == _CONSUMER:
        for member, fields_of_member in zip(message.members, fields["members"], strict=True):
            fields_of_member["subscription"] = _decode_embedded(ConsumerProtocolSubscription, member.subscription)
            fields_of_member["assignment"] = _decode_embedded(ConsumerProtocolAssignment, member.assignment)
    return {"version": str(version), "data": fields}


def _decode_embedded(cls: type[Any], data: _Bytes) -> Any:
    """Decode a consumer group member's subscription or assignment, or return its bytes if that fails."""
    try:
        version = _read_version(data, "value")
        if has_version(cls, version):
            return fields_by_name(_decode_record(cls, data, "value"), version)
    except _UndecodableError:
        pass
    return bytes(data)


_ESCAPES: Final = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord(plain): f"\\{letter}" for plain, letter in zip('\b\t\n\f\r"\\', 'btnfr"\\', strict=True)
}


def plain_json(value: Any) -> Any:
    """Convert `value` to types that JSON supports, with bytes encoded in base 64."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if is_array(value):
        return [plain_json(item) for item in value]
    if isinstance(value, dict):
        return {name: plain_json(item) for name, item in cast("dict[str, Any]", value).items()}
    return value


def _format_json(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return "{" + ",".join(f'"{name}":{_format_json(item)}' for name, item in fields) + "}"
    if is_array(value):
        return "[" + ",".join(map(_format_json, value)) + "]"
    if isinstance(value, bytes):
        return f'"{b64encode(value).decode()}"'
    return f'"{value.translate(_ESCAPES)}"' if isinstance(value, str) else str(value)


def _format_transaction(value: TransactionLogValue) -> str:
    status = value.transaction_status
    if not 0 <= status < len(_TRANSACTION_STATES):
        raise _UndecodableError(f"Unknown transaction state id {status} from the transaction status message.")
    partitions: list[list[tuple[str, int]]] = []
    if status:  # Kafka ignores the partitions of an empty transaction.
        partitions = [
            [(topic.topic, index) for index in topic.partition_ids] for topic in value.transaction_partitions or ()
        ]
    listed = ",".join(f"{topic}-{index}" for topic, index in _sort_like_scala(partitions))
    return (
        f"producerId:{value.producer_id},producerEpoch:{value.producer_epoch},state={_TRANSACTION_STATES[status]},"
        f"partitions=[{listed}],txnLastUpdateTimestamp={value.transaction_last_update_timestamp_ms},"
        f"txnTimeoutMs={value.transaction_timeout_ms}"
    )


_MIN_TABLE_SIZE: Final = 16
_LOAD_FACTOR: Final = 0.75
_SIGN: Final = 1 << 31
_INT32: Final = (1 << 32) - 1


def _sort_like_scala(groups: Sequence[Sequence[tuple[str, int]]]) -> list[tuple[str, int]]:
    """Sort partitions in the iteration order of a `scala.collection.mutable.HashSet`, as Kafka prints them.

    The set is filled topic by topic, and its table grows with it. Iteration goes slot by slot, and by hash within a
    slot.
    """
    table = _MIN_TABLE_SIZE
    hashes: dict[tuple[str, int], int] = {}
    for group in groups:
        distinct = dict.fromkeys(group)
        expected = int((len(distinct) + 1) / _LOAD_FACTOR)
        table = max(table, 1 << (expected - 1).bit_length())  # Round up to a power of two.
        for partition in distinct:
            if len(hashes) + 1 >= table * _LOAD_FACTOR:
                table *= 2
            hashes.setdefault(partition, _hash_like_scala(partition))
    return sorted(hashes, key=lambda partition: (hashes[partition] & (table - 1), (hashes[partition] ^ _SIGN)))


def _hash_like_scala(topic_partition: tuple[str, int]) -> int:
    """Return Java's hash code of a `TopicPartition`, with its bits mixed as in Scala."""
    topic, partition = topic_partition
    hashed = 0
    for letter in topic.encode("latin-1", "replace"):  # Topic names are ASCII, so each byte is one char of Java.
        hashed = (31 * hashed + letter) & _INT32
    hashed = (31 * (31 + partition) + hashed) & _INT32
    return hashed ^ hashed >> 16
