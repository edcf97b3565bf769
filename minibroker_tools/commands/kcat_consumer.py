"""kcat -C and -G: prints records on standard output."""

import json
import re
import struct
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.header import TimestampType
from minibroker_protocol.records.record import Headers
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.groups import Consumer
from minibroker_tools.client.offsets import (
    EARLIEST,
    LATEST,
    TopicPartition,
    find_leaders,
    list_offsets,
    list_offsets_at,
)
from minibroker_tools.client.reader import Reader, Received
from minibroker_tools.commands.common import raise_interrupt_on_sigterm
from minibroker_tools.commands.kcat import REGISTRY_URL, KcatOptions, topic_error
from minibroker_tools.failures import ApiError, ToolError
from minibroker_tools.output import compact_json

with lazy:
    from minibroker_registry import http_source, values

_TOKEN: Final = re.compile(r"%(.)", re.DOTALL)
_TIMESTAMP_KINDS: Final = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "logappend"}
_NAMED_OFFSETS: Final = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}

Format = Callable[[Received], bytes]


def consume(cluster: Cluster, options: KcatOptions) -> int:
    """Print records until the count is reached, the end of the partitions is reached (with -e), or a signal arrives.

    After any signal the consumer leaves its group, as it does after Ctrl-C.
    """
    with suppress(KeyboardInterrupt), raise_interrupt_on_sigterm():
        consume_records = _consume_group if options.has("G") else _consume_partitions
        consume_records(cluster, options)
    return 0


def _consume_group(cluster: Cluster, options: KcatOptions) -> None:
    topics = set(options.words)
    properties = {**cluster.settings.properties, "group.id": options.text("G") or ""}
    consumer = Consumer(cluster, None, topics.__contains__, properties)
    write = _make_writer(options, properties, {})
    count, limit = 0, _record_limit(options)
    reached: set[TopicPartition] = set()
    try:
        while count != limit:
            received = consumer.poll()
            for record in received:
                write(record)
                consumer.next_offsets[record.topic, record.partition] = record.record.offset + 1
                count += 1
                if count == limit:
                    break
            sys.stdout.flush()
            if not received and count != limit:
                # Drop partitions that the group has reassigned in the meantime.
                reached.intersection_update(consumer.reader.positions)
                _report_ends(cluster, consumer.reader, reached, options, {})
                if options.has("e") and reached and len(reached) == len(consumer.reader.positions):
                    break
    finally:
        consumer.close()


def _consume_partitions(cluster: Cluster, options: KcatOptions) -> None:
    topic = options.text("t") or ""
    partitions = _select_partitions(cluster, topic, options)
    starts, stops = _find_offsets(cluster, partitions, options)
    committed = cluster.settings.get("isolation.level", "read_committed") == "read_committed"
    reader = Reader(cluster, reset=cluster.settings.get("auto.offset.reset", "latest"), read_committed=committed)
    reader.assign(starts)
    write = _make_writer(options, cluster.settings.properties, find_leaders(cluster, partitions))
    count, limit = 0, _record_limit(options)
    reached: set[TopicPartition] = set()
    while count != limit:
        received = reader.poll()
        for record in received:
            partition = record.topic, record.partition
            if partition in stops and record.record.offset >= stops[partition]:
                reached.add(partition)
                continue
            write(record)
            count += 1
            if count == limit:
                return
        sys.stdout.flush()
        if not received or stops:
            _report_ends(cluster, reader, reached, options, stops)
        if len(reached) == len(partitions) and (options.has("e") or stops):
            break


def _record_limit(options: KcatOptions) -> int:
    """Return the number of records to print, or -1 for all. kcat treats 0 and negative counts as all."""
    count = options.number("c", -1)
    return count if count > 0 else -1


def _report_ends(
    cluster: Cluster,
    reader: Reader,
    reached: set[TopicPartition],
    options: KcatOptions,
    stops: dict[TopicPartition, int],
) -> None:
    """Add the partitions that have been read to the end to `reached`, and report each of them."""
    committed = int(cluster.settings.get("isolation.level", "read_committed") == "read_committed")
    unread = {partition: LATEST for partition in reader.positions if partition not in reached}
    for partition, end in sorted(list_offsets(cluster, unread, isolation=committed).items()):
        if isinstance(end, int) and reader.positions[partition] >= min(end, stops.get(partition, end)):
            reached.add(partition)
            if not options.has("q"):
                last = ": exiting" if len(reached) == len(reader.positions) and options.has("e") else ""
                topic, index = partition
                position = reader.positions[partition]
                sys.stderr.write(f"% Reached end of topic {topic} [{index}] at offset {position}{last}\n")


def _select_partitions(cluster: Cluster, topic: str, options: KcatOptions) -> list[TopicPartition]:
    try:
        (topic_metadata,) = cluster.topics([topic])
    except ApiError as error:
        raise topic_error(topic, error) from None
    indexes = sorted(partition.partition_index for partition in topic_metadata.partitions)
    requested_index = options.number("p", -1)
    if requested_index >= 0 and requested_index not in indexes:
        span = f"{indexes[0]}..{indexes[-1]}" if indexes else "none"
        raise ToolError(f"% ERROR: Topic {topic} (with partitions {span}): partition {requested_index} does not exist")
    return [(topic, index) for index in indexes if requested_index in {-1, index}]


def _find_offsets(
    cluster: Cluster, partitions: list[TopicPartition], options: KcatOptions
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the start offset of each partition, and the stop offsets if e@MS is given."""
    starts, stops = dict.fromkeys(partitions, EARLIEST), dict[TopicPartition, int]()
    for text in options.all("o"):
        if text in _NAMED_OFFSETS:
            starts = dict.fromkeys(partitions, _NAMED_OFFSETS[text])
        elif text.startswith(("s@", "e@")):
            offsets = _offsets_by_time(cluster, partitions, _leading_number(text[2:]))
            starts, stops = (offsets, stops) if text.startswith("s") else (starts, offsets)
        elif text == "stored":
            # Stored offsets require a group (-G GROUP TOPIC). Without one, kcat prints this message.
            topic, partition = partitions[0]
            reason = "Local: Invalid argument or configuration"
            raise ToolError(f"% ERROR: Failed to start consuming topic {topic} [{partition}]: {reason}")
        elif (number := _leading_number(text)) < 0:
            first, end = (_list_offsets(cluster, partitions, special_offset) for special_offset in (EARLIEST, LATEST))
            starts = {key: max(first[key], end[key] + number) for key in partitions}
        else:
            starts = dict.fromkeys(partitions, number)
    return starts, stops


def _leading_number(text: str) -> int:
    """Return the number at the start of a text, or 0 if there is none, like C's `strtoll`, which kcat uses."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


def _offsets_by_time(cluster: Cluster, partitions: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    ends = _list_offsets(cluster, partitions, LATEST)
    offsets = _list_offsets(cluster, partitions, time_ms)
    return {partition: offset if offset >= 0 else ends[partition] for partition, offset in offsets.items()}


def _list_offsets(cluster: Cluster, partitions: list[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    try:
        return list_offsets_at(cluster, partitions, timestamp)
    except ApiError as error:
        raise topic_error(partitions[0][0], error) from None


def _make_writer(
    options: KcatOptions, properties: Mapping[str, str], leaders: dict[TopicPartition, int]
) -> Callable[[Received], None]:
    make = _make_formatter(options, properties, leaders)
    out, flushes = sys.stdout.buffer, options.has("u")

    def write(received: Received) -> None:
        out.write(make(received))
        if flushes:
            out.flush()

    return write


class _AvroDecoder:
    """Decodes the keys and values that -s names.

    Attributes:
        parts: "key", "value", both or none.

    Raises:
        ToolError: -s has another value, or the URL of the registry is not valid.
    """

    def __init__(self, options: KcatOptions, properties: Mapping[str, str]) -> None:
        self.parts = set[str]()
        for text in options.all("s"):
            part, _, form = text.rpartition("=")
            if form != "avro" or part not in {"", "key", "value"}:
                raise ToolError(f"% ERROR: -s {text}: this kcat supports only avro")
            self.parts |= {part} if part else {"key", "value"}
        self._continues = options.has("E")
        try:
            if self.parts:
                source = http_source.HttpSource(options.text("r") or properties[REGISTRY_URL])
                self._values = values.Values(source)
        except ValueError as error:
            raise ToolError(f"% ERROR: -r: {error}") from None

    def decode(self, data: bytes, headers: Headers, *, is_key: bool) -> tuple[str, object]:
        """Return data as JSON, printed as kcat does, and the id of its schema.

        Raises:
            ValueError: It cannot be decoded.
        """
        try:
            id_, schema, payload = self._values.find(data, headers, is_key=is_key)
            return json.dumps(schema.decode(payload, with_branches=True)), id_
        except ModuleNotFoundError as error:
            raise ValueError(str(error)) from None

    def fail(self, action: str, received: Received, reason: object) -> None:
        """Report an error, and end the program unless there is -E."""
        place = f"{received.topic} [{received.partition}] at offset {received.record.offset}"
        message = f"% ERROR: Failed to {action} in {place}: {reason}"
        if not self._continues:
            raise ToolError(f"{message}: terminating")
        sys.stderr.write(f"{message}\n")

    def json_fields(self, received: Received) -> dict[str, str]:
        """Return the key and the value of a record as members of kcat's JSON."""
        record = received.record
        members: dict[str, str] = {}
        for part, name, data in (("key", "key", record.key), ("value", "payload", record.value)):
            members[name] = compact_json(_decode_text(data), ensure_ascii=False)
            if data is not None and part in self.parts:
                try:
                    members[name], id_ = self.decode(data, record.headers, is_key=part == "key")
                    members[f"{part}_schema_id"] = compact_json(id_ if isinstance(id_, int) else str(id_))
                except ValueError as error:
                    self.fail(f"deserialize {part} in message", received, error)
                    members |= {name: "null", f"{name}_error": compact_json(str(error))}
        return members


def _make_formatter(options: KcatOptions, properties: Mapping[str, str], leaders: dict[TopicPartition, int]) -> Format:
    decoder = _AvroDecoder(options, properties)
    if options.has("J"):
        return lambda received: (
            record_json(received, leaders.get((received.topic, received.partition), -1), decoder) + "\n"
        ).encode()
    text = options.delimiter("f", None)
    if text is None:
        key = options.delimiter("K", "" if "key" in decoder.parts else None)
        end = options.delimiter("D", "\n") or ""
        text = f"%k{key.replace('%', '%%')}%s" if key is not None else "%s"
        text += end.replace("%", "%%")
    null = b"NULL" if options.has("Z") else b""
    first, *tokens = _TOKEN.split(text)
    letters = tokens[::2]
    parts = [part.encode("utf-8", "surrogateescape") for part in (first, *tokens[1::2])]
    unknown = next((letter for letter in letters if letter not in "sSRkKtpoTh%"), None)
    if unknown is not None:
        raise ToolError(f"% ERROR: Unsupported formatter: %{unknown}")

    def make(received: Received) -> bytes:
        output, letter = [parts[0]], ""
        try:
            for letter, part in zip(letters, parts[1:], strict=True):
                output += (_format_token(letter, received, null, decoder), part)
        except ValueError as error:
            name = "key" if letter == "k" else "message"
            decoder.fail("format message", received, f"Avro/Schema-registry {name} deserialization: {error}")
        return b"".join(output)

    return make


def _format_token(letter: str, received: Received, null: bytes, decoder: _AvroDecoder) -> bytes:
    record = received.record
    if letter in "sk":
        data, part = (record.value, "value") if letter == "s" else (record.key, "key")
        if data and part in decoder.parts:
            return decoder.decode(data, record.headers, is_key=letter == "k")[0].encode()
        return bytes(data) if data else null  # kcat treats empty data as null.
    if letter in "SRK":
        data = record.key if letter == "K" else record.value
        size = -1 if data is None else len(data)
        return struct.pack(">i", size) if letter == "R" else b"%d" % size
    if letter == "h":
        pairs = (
            key.encode("utf-8", "surrogateescape") + b"=" + (b"NULL" if value is None else value)
            for key, value in record.headers
        )
        return b",".join(pairs)
    fields = {"t": received.topic, "p": received.partition, "o": record.offset, "T": record.timestamp, "%": "%"}
    return str(fields[letter]).encode()


def record_json(received: Received, broker: int, decoder: _AvroDecoder) -> str:
    """Return a record and its position as one line of JSON. Bytes that are not UTF-8 are replaced."""
    record = received.record
    kind = _TIMESTAMP_KINDS.get(record.timestamp_type)
    stamped: dict[str, Any] = {} if kind is None else {"tstype": kind, "ts": record.timestamp}
    headers = [part for key, value in record.headers for part in (key, _decode_text(value))]
    fields = {
        "topic": received.topic,
        "partition": received.partition,
        "offset": record.offset,
        **stamped,
        "broker": broker,
        **({"headers": headers} if headers else {}),
    }
    members = {name: compact_json(value, ensure_ascii=False) for name, value in fields.items()}
    members |= decoder.json_fields(received)
    return "{" + ",".join(f'"{name}":{text}' for name, text in members.items()) + "}"


def _decode_text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
