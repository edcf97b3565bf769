"""Writes each event as a line of JSON for programs, with the field names of Kafka's tool."""

from base64 import b64encode
from collections.abc import Callable
from json import JSONEncoder
from typing import Any, Final, TextIO

from minibroker_protocol.records.header import (
    MAGIC_V2,
    MARKER_TYPES,
    NO_OFFSET,
    TIMESTAMP_TYPES,
    codec_name,
    control_type,
    coordinator_epoch,
    sequence_of,
)
from minibroker_storage.dump import events
from minibroker_storage.dump.decoders import Decoder, plain_json
from minibroker_storage.dump.files import DumpFile
from minibroker_storage.dump.text import header_name

Json = dict[str, Any]


class JsonWriter:
    """Writes each event as a line to `out`.

    Every line has a `type`. A line of type `file` names the file that the following lines describe. Bytes are
    written as text (`key`) if they are valid UTF-8, or else in base 64 under a different name (`keyBase64`). With
    `decode`, keys and values are JSON objects.
    """

    def __init__(
        self,
        out: TextIO,
        *,
        print_data_log: bool = False,
        skip_record_metadata: bool = False,
        decode: Decoder | None = None,
    ) -> None:
        self._write = out.write
        self._decode = decode
        self._data = print_data_log
        self._metadata = not skip_record_metadata
        self._encode = JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

    def write(self, event: events.Event) -> None:
        """Write one event.

        Raises:
            OSError: the output cannot be written.
        """
        if isinstance(event, events.RecordFound):
            line = self._encode_record(event)
        elif isinstance(event, events.Record07Found):
            line = self._encode_record_07(event)
        else:
            line = _LINES[event.__class__](event)
        self._write(self._encode(line) + "\n")

    def finish(self) -> None:
        """Do nothing, since all output has already been written."""

    def _encode_record(self, event: events.RecordFound) -> Json:
        record, header, crc, is_valid = event
        offset, timestamp, timestamp_type, key, value, headers = record
        line: Json = {"type": "record"}
        if self._metadata:
            line |= {
                "offset": offset,
                "timestampType": TIMESTAMP_TYPES[timestamp_type],
                "timestamp": timestamp,
                "keySize": -1 if key is None else len(key),
                "valueSize": -1 if value is None else len(value),
            }
            if crc is None:
                line["sequence"] = sequence_of(offset, header)
                line["headerKeys"] = [header_name(name) for name, _ in headers]
            else:
                line |= {"isValid": is_valid, "crc": crc}
            if header.is_control:
                line |= _decode_control(key, value)
        if self._data and not header.is_control:
            parts: dict[str, Any] = {"key": key, "value": value}
            decoded = None if self._decode is None else self._decode(record)
            if decoded is not None and decoded.problem is None:
                parts = {"key": decoded.key, "value": decoded.value}
            for name, part in parts.items():
                line |= _put_bytes({}, name, part) if isinstance(part, bytes) else {name: plain_json(part)}
            if decoded is not None and decoded.problem is not None:
                line["undecoded"] = decoded.problem
            line["headers"] = [_put_bytes({"key": header_name(name)}, "value", content) for name, content in headers]
        return line

    def _encode_record_07(self, event: events.Record07Found) -> Json:
        message, is_valid = event
        line: Json = {"type": "record"}
        if self._metadata:
            line |= {
                "offset": message.position,
                "valueSize": len(message.value),
                "isValid": is_valid,
                "crc": message.crc,
            }
        if self._data:
            _put_bytes(line, "value", message.value)
        return line


def _put_bytes(line: Json, name: str, data: bytes | None) -> Json:
    try:
        line[name] = None if data is None else data.decode()
    except UnicodeDecodeError:
        line[name + "Base64"] = b64encode(data or b"").decode()
    return line


def _decode_control(key: bytes | None, value: bytes | None) -> Json:
    name, type_id = control_type(key)
    line: Json = {"controlType": name, "controlTypeId": type_id}
    if name in MARKER_TYPES:
        line["coordinatorEpoch"] = coordinator_epoch(value)
    return line


def _encode_batch(event: events.BatchFound) -> Json:
    position, header, is_valid = event
    line: Json = {"type": "batch"}
    if header.magic >= MAGIC_V2:
        line |= {
            "baseOffset": header.base_offset,
            "lastOffset": header.last_offset,
            "count": header.record_count,
            "baseSequence": header.base_sequence,
            "lastSequence": header.last_sequence,
            "producerId": header.producer_id,
            "producerEpoch": header.producer_epoch,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "isTransactional": header.is_transactional,
            "isControl": header.is_control,
            "deleteHorizonMs": header.delete_horizon_ms,
        }
    else:
        line["offset"] = header.last_offset
    return line | {
        "position": position,
        "timestampType": TIMESTAMP_TYPES[header.timestamp_type],
        "maxTimestamp": header.max_timestamp,
        "size": header.size_in_bytes,
        "magic": header.magic,
        "compresscodec": codec_name(header),
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _encode_message_07(event: events.Message07Found) -> Json:
    message, position, size, is_valid = event
    return {
        "type": "message-0.7",
        "offset": message.position,
        "position": position,
        "isvalid": is_valid,
        "payloadsize": len(message.value),
        "size": size,
        "magic": message.magic,
        "compresscodec": message.codec.name.lower(),
        "crc": message.crc,
    }


def _encode_producer(event: events.ProducerFound) -> Json:
    producer_id, entry = event
    first_offset = entry.current_txn_first_offset
    line: Json = {
        "type": "producer",
        "producerId": producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "currentTxnFirstOffset": None if first_offset == NO_OFFSET else first_offset,
        "lastTimestamp": entry.last_timestamp,
    }
    for batch in entry.batches[:1]:
        names = ("firstSequence", "lastSequence", "lastOffset", "offsetDelta", "timestamp")
        line |= zip(names, batch, strict=True)
    return line


def _encode_aborted_txn(event: events.AbortedTxnFound) -> Json:
    names = ("producerId", "firstOffset", "lastOffset", "lastStableOffset")
    return {"type": "aborted-transaction", "version": 0, **dict(zip(names, event.transaction, strict=True))}


def _encode_file(event: events.FileBegins) -> Json:
    path, kind, base_offset, _ = event.file
    return {"type": "file", "path": path, "kind": kind.value, "baseOffset": base_offset}


def _make_encoder(kind: str, *names: str) -> Callable[[Any], Json]:
    """Return a function that makes a line of this type from an event's fields, under these names, in order.

    A file is represented by its path.
    """

    def line(event: tuple[Any, ...]) -> Json:
        values = (value.path if isinstance(value, DumpFile) else value for value in event)
        return {"type": kind, **dict(zip(names, values, strict=True))}

    return line


_LINES: Final[dict[type, Callable[[Any], Json]]] = {
    events.FileBegins: _encode_file,
    events.LogBegins: _make_encoder("log-start", "offset"),
    events.BatchFound: _encode_batch,
    events.Message07Found: _encode_message_07,
    events.TrailingBytes: _make_encoder("trailing-bytes", "path", "size"),
    events.IndexEmpty: _make_encoder("index-empty", "path"),
    events.IndexSane: _make_encoder("index-sane", "path"),
    events.OffsetEntryFound: _make_encoder("offset-index-entry", "offset", "position"),
    events.TimeEntryFound: _make_encoder("time-index-entry", "timestamp", "offset"),
    events.AbortedTxnFound: _encode_aborted_txn,
    events.ProducerFound: _encode_producer,
    events.EpochFound: _make_encoder("leader-epoch", "epoch", "startOffset"),
    events.CheckpointFound: _make_encoder("checkpoint", "topic", "partition", "offset"),
    events.MetadataFound: _make_encoder("partition-metadata", "version", "topicId"),
    events.UnknownFile: _make_encoder("unknown-file", "path"),
    events.OffsetMismatch: _make_encoder("offset-mismatch", "path", "indexOffset", "logOffset"),
    events.TimestampMismatch: _make_encoder("timestamp-mismatch", "path", "indexTimestamp", "logTimestamp"),
    events.TimestampOutOfOrder: _make_encoder("timestamp-out-of-order", "path", "indexTimestamp", "previousTimestamp"),
    events.IndexedOffsetNotFound: _make_encoder("indexed-offset-not-found", "path", "indexOffset", "logOffset"),
    events.OffsetGap: _make_encoder("offset-gap", "path", "first", "second"),
    events.Problem: _make_encoder("problem", "path", "position", "message"),
}
