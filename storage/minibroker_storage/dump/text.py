"""Writes events like Kafka 3.9's DumpLogSegments. Output that Kafka's tool also produces is identical."""

import os
import re
from collections import Counter, deque
from collections.abc import Callable
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
from minibroker_storage.dump.decoders import Decoder

MAX_FINDINGS: Final = 100_000
"""Maximum number of findings of each kind kept for the end, to bound memory."""
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()
_BOOLEAN: Final = ("false", "true")
_FINDING_TEXTS: Final[dict[type[events.Finding], tuple[str, str, bool]]] = {
    events.OffsetMismatch: ("Mismatches in :{}", "  Index offset: {}, log offset: {}", True),
    events.TimestampMismatch: ("Found timestamp mismatch in :{}", "  Index timestamp: {}, log timestamp: {}", False),
    events.TimestampOutOfOrder: (
        "Found out of order timestamp in :{}",
        "  Index timestamp: {}, Previously indexed timestamp: {}",
        False,
    ),
    events.IndexedOffsetNotFound: (
        "The following indexed offsets are not found in the log.",
        "Indexed offset: {}, found log offset: {}",
        False,
    ),
    events.OffsetGap: ("Non-consecutive offsets in {}", "  {} is followed by {}", True),
}
"""For each kind of finding, in the order of output: the heading, the line, and whether the newest finding comes
first."""


class TextWriter:
    """Writes events like Kafka's tool: contents to `out`, and faults to `errors`.

    As in Kafka, mismatches and gaps are written by `finish`, after all files; some kinds are written newest first.
    Other problems are written immediately. `decode` converts keys and values to text.
    """

    def __init__(
        self,
        out: TextIO,
        errors: TextIO,
        *,
        print_data_log: bool = False,
        skip_record_metadata: bool = False,
        decode: Decoder | None = None,
    ) -> None:
        self._write = out.write
        self._out = out
        self._errors = errors
        self._data = print_data_log
        self._metadata = not skip_record_metadata
        self._decode = decode
        self._findings = {kind: _Findings(*texts) for kind, texts in _FINDING_TEXTS.items()}
        self._writers: dict[type, Callable[[Any], object]] = {
            events.RecordFound: self._write_record,
            events.BatchFound: self._write_batch,
            events.Record07Found: self._write_record_07,
            **{kind: findings.add for kind, findings in self._findings.items()},
            events.Problem: self._write_problem,
            events.UnknownFile: lambda event: self._write_error(f"Ignoring unknown file {event.file.path}\n"),
        }

    def write(self, event: events.Event) -> None:
        """Write one event.

        Raises:
            OSError: the output cannot be written.
        """
        writer = self._writers.get(event.__class__)
        if writer is None:
            self._write(_LINES[event.__class__](event))
        else:
            writer(event)

    def finish(self) -> None:
        """Write the mismatches and gaps of all files.

        Raises:
            OSError: the output cannot be written.
        """
        self._out.flush()
        for findings in self._findings.values():
            findings.write(self._errors)

    def _write_batch(self, event: events.BatchFound) -> None:
        position, header, is_valid = event
        if header.magic >= MAGIC_V2:
            head = (
                f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.record_count}"
                f" baseSequence: {header.base_sequence} lastSequence: {header.last_sequence}"
                f" producerId: {header.producer_id} producerEpoch: {header.producer_epoch}"
                f" partitionLeaderEpoch: {header.partition_leader_epoch}"
                f" isTransactional: {_BOOLEAN[header.is_transactional]} isControl: {_BOOLEAN[header.is_control]}"
                f" deleteHorizonMs: {_format_optional(header.delete_horizon_ms)}"
            )
        else:
            head = f"offset: {header.last_offset}"
        self._write(
            f"{head} position: {position} {TIMESTAMP_TYPES[header.timestamp_type]}: {header.max_timestamp}"
            f" size: {header.size_in_bytes} magic: {header.magic} compresscodec: {codec_name(header)}"
            f" crc: {header.crc} isvalid: {_BOOLEAN[is_valid]}\n"
        )

    def _write_record(self, event: events.RecordFound) -> None:
        record, header, crc, is_valid = event
        offset, timestamp, timestamp_type, key, value, headers = record
        is_control = header.is_control
        line = ""
        prefix = "| "
        if self._metadata:
            line = (
                f"| offset: {offset} {TIMESTAMP_TYPES[timestamp_type]}: {timestamp}"
                f" keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}"
            )
            prefix = " "
            if crc is None:
                keys = ",".join(header_name(name) for name, _ in headers)
                line += f" sequence: {sequence_of(offset, header)} headerKeys: [{keys}]"
            else:
                line += f" isValid: {_BOOLEAN[bool(is_valid)]} crc: {crc}}}"
            if is_control:
                line += _format_control(key, value)
        if self._data and not is_control:
            if self._decode is not None:
                key_text, value_text, *_ = self._decode(record)
            else:
                key_text, value_text = (None if part is None else java_text(part) for part in (key, value))
            if key_text is not None:
                line += f"{prefix}key: {key_text}"
            if value_text is not None:
                line += f" payload: {value_text}"
        self._write(line + "\n")

    def _write_record_07(self, event: events.Record07Found) -> None:
        message, is_valid = event
        line = ""
        if self._metadata:
            line = (
                f"| offset: {message.position} isvalid: {_BOOLEAN[is_valid]} payloadsize: {len(message.value)}"
                f" crc: {message.crc}"
            )
        if self._data:
            line += f" payload: {java_text(message.value)}"
        self._write(line + "\n")

    def _write_problem(self, event: events.Problem) -> None:
        position = "" if event.position is None else f"byte {event.position}: "
        self._write_error(f"{event.file.path}: {position}{event.message}\n")

    def _write_error(self, line: str) -> None:
        self._out.flush()  # Flush first, so that a terminal shows the lines of both streams in order.
        self._errors.write(line)


class _Findings:
    """Mismatches or gaps of one kind, as pairs of numbers by file, collected until all files have been read."""

    def __init__(self, heading: str, line: str, newest_first: bool) -> None:  # noqa: FBT001 - a row of _FINDING_TEXTS
        self._heading = heading
        self._line = line
        self._newest_first = newest_first
        self._pairs: dict[str, deque[tuple[int, int]]] = {}
        self._counts = Counter[str]()

    def add(self, event: events.Finding) -> None:
        file, first, second = event
        path = os.path.abspath(file.path)
        self._pairs.setdefault(path, deque(maxlen=MAX_FINDINGS)).append((first, second))
        self._counts[path] += 1

    def write(self, errors: TextIO) -> None:
        for path, pairs in self._pairs.items():
            errors.write(self._heading.format(path) + "\n")
            dropped = self._counts[path] - len(pairs)
            lines = [f"  and {dropped} before these\n"] if dropped else []
            lines += (self._line.format(*pair) + "\n" for pair in pairs)
            errors.writelines(reversed(lines) if self._newest_first else lines)


def java_text(data: bytes) -> str:
    """Decode `data` like Java's `new String(data, UTF_8)`, replacing each malformed sequence."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        # Java counts an encoded surrogate as one malformed sequence, Python as three.
        return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def header_name(name: str) -> str:
    """Decode the bytes of a record header's key, which may not be valid UTF-8, like Java."""
    return name if name.isascii() else java_text(name.encode(errors="surrogateescape"))


def _format_control(key: bytes | None, value: bytes | None) -> str:
    name, type_id = control_type(key)
    epoch = coordinator_epoch(value)
    if name in MARKER_TYPES and epoch is not None:
        return f" endTxnMarker: {name} coordinatorEpoch: {epoch}"
    return f" controlType: {name}({type_id})"


def _format_optional(value: int | None) -> str:
    """Format a number or None like Java's `OptionalLong`."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"


def _format_message_07(event: events.Message07Found) -> str:
    message, position, size, is_valid = event
    return (
        f"offset: {message.position} position: {position} isvalid: {_BOOLEAN[is_valid]}"
        f" payloadsize: {len(message.value)} size: {size} magic: {message.magic}"
        f" compresscodec: {message.codec.name.lower()} crc: {message.crc}\n"
    )


def _format_producer(event: events.ProducerFound) -> str:
    producer_id, entry = event
    first_offset = entry.current_txn_first_offset
    line = (
        f"producerId: {producer_id} producerEpoch: {entry.producer_epoch} coordinatorEpoch: {entry.coordinator_epoch}"
        f" currentTxnFirstOffset: {_format_optional(None if first_offset == NO_OFFSET else first_offset)}"
        f" lastTimestamp: {entry.last_timestamp} "
    )
    for batch in entry.batches[:1]:
        line += (
            f"firstSequence: {batch.first_sequence} lastSequence: {batch.last_sequence} lastOffset: {batch.last_offset}"
            f" offsetDelta: {batch.offset_delta} timestamp: {batch.timestamp}"
        )
    return line + "\n"


def _format_aborted_txn(event: events.AbortedTxnFound) -> str:
    producer_id, first_offset, last_offset, last_stable_offset = event.transaction
    return (
        f"version: 0 producerId: {producer_id} firstOffset: {first_offset}"
        f" lastOffset: {last_offset} lastStableOffset: {last_stable_offset}\n"
    )


_LINES: Final[dict[type, Callable[[Any], str]]] = {
    events.FileBegins: lambda event: f"Dumping {event.file.path}\n",
    events.LogBegins: lambda event: f"Log starting offset: {event.base_offset}\n",
    events.Message07Found: _format_message_07,
    events.TrailingBytes: lambda event: (
        f"Found {event.size} invalid bytes at the end of {os.path.basename(event.file.path)}\n"
    ),
    events.IndexEmpty: lambda event: f"{event.file.path} is empty.\n",
    events.IndexSane: lambda event: f"{event.file.path} passed sanity check.\n",
    events.OffsetEntryFound: lambda event: f"offset: {event.offset} position: {event.position}\n",
    events.TimeEntryFound: lambda event: f"timestamp: {event.timestamp} offset: {event.offset}\n",
    events.AbortedTxnFound: _format_aborted_txn,
    events.ProducerFound: _format_producer,
    events.EpochFound: lambda event: f"epoch: {event.epoch} startOffset: {event.start_offset}\n",
    events.CheckpointFound: lambda event: f"topic: {event.topic} partition: {event.partition} offset: {event.offset}\n",
    events.MetadataFound: lambda event: f"version: {event.version} topicId: {event.topic_id}\n",
}
