"""kcat -C and -G: prints records on standard output."""

import json
import re
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from minibroker_protocol.records.header import TimestampType
from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.membership import Consumer
from minibroker_tools.client.offsets import EARLIEST, LATEST, TopicPartition, leaders_of, list_offsets, offsets_at
from minibroker_tools.client.reader import Reader, Received
from minibroker_tools.commands.common import ending_with_sigterm
from minibroker_tools.commands.kcat import Given, error_of, unescaped
from minibroker_tools.failures import ApiError, ToolError

_POLL_S: Final = 0.5
_TOKEN: Final = re.compile(r"%(.)")
_NAMED: Final = {"beginning": EARLIEST, "earliest": EARLIEST, "end": LATEST, "latest": LATEST}

Format = Callable[[Received], bytes]


def consume(cluster: Cluster, given: Given) -> int:
    """Print records until the count is reached, the end with -e, or a signal.

    SIGTERM leaves the group in the same way as Ctrl-C.
    """
    with suppress(KeyboardInterrupt), ending_with_sigterm():
        return _subscribed(cluster, given) if given.has("G") else _assigned(cluster, given)
    return 0


def _subscribed(cluster: Cluster, given: Given) -> int:
    topics = set(given.words)
    properties = {**cluster.settings.properties, "group.id": given.text("G") or ""}
    consumer = Consumer(cluster, None, topics.__contains__, properties)
    write = _writer(given, {})
    count, most = 0, _most(given)
    reached: set[TopicPartition] = set()
    try:
        while count != most:
            received = consumer.poll(_POLL_S)
            for record in received:
                write(record)
                consumer.taken[record.topic, record.partition] = record.record.offset + 1
                count += 1
                if count == most:
                    break
            sys.stdout.flush()
            if not received and count != most:
                reached.intersection_update(consumer.reader.positions)  # The group may have assigned other partitions.
                _note_ends(cluster, consumer.reader, reached, given, {})
                if given.has("e") and reached and len(reached) == len(consumer.reader.positions):
                    break
    finally:
        consumer.close()
    return 0


def _assigned(cluster: Cluster, given: Given) -> int:
    topic = given.text("t") or ""
    partitions = _partitions(cluster, topic, given)
    starts, stops = _places(cluster, partitions, given)
    committed = cluster.settings.get("isolation.level", "read_committed") == "read_committed"
    reader = Reader(cluster, reset=cluster.settings.get("auto.offset.reset", "latest"), read_committed=committed)
    reader.assign(starts)
    write = _writer(given, leaders_of(cluster, partitions))
    count, most = 0, _most(given)
    reached: set[TopicPartition] = set()
    while count != most:
        received = reader.poll(_POLL_S)
        for record in received:
            place = record.topic, record.partition
            if place in stops and record.record.offset >= stops[place]:
                reached.add(place)
                continue
            write(record)
            count += 1
            if count == most:
                return 0
        sys.stdout.flush()
        if not received or stops:
            _note_ends(cluster, reader, reached, given, stops)
        if len(reached) == len(partitions) and (given.has("e") or stops):
            break
    return 0


def _most(given: Given) -> int:
    """Return the number of records to print, or -1 for all. kcat treats 0 and negative counts as all."""
    count = given.number("c", -1)
    return count if count > 0 else -1


def _note_ends(
    cluster: Cluster, reader: Reader, reached: set[TopicPartition], given: Given, stops: dict[TopicPartition, int]
) -> None:
    """Add the partitions that have been read to their end to `reached`, and report each of them."""
    committed = int(cluster.settings.get("isolation.level", "read_committed") == "read_committed")
    asked = {place: LATEST for place in reader.positions if place not in reached}
    found = list_offsets(cluster, asked, isolation=committed) if asked else {}
    for place, end in sorted(found.items()):
        if end.error is None and reader.positions[place] >= min(end.offset, stops.get(place, end.offset)):
            reached.add(place)
            if not given.is_quiet:
                last = ": exiting" if len(reached) == len(reader.positions) and given.has("e") else ""
                text = f"% Reached end of topic {place[0]} [{place[1]}] at offset {reader.positions[place]}{last}\n"
                sys.stderr.write(text)


def _partitions(cluster: Cluster, topic: str, given: Given) -> list[TopicPartition]:
    try:
        (found,) = cluster.topics([topic])
    except ApiError as error:
        raise error_of(topic, error) from None
    numbers = sorted(each.partition_index for each in found.partitions)
    chosen = given.number("p", -1)
    if chosen >= 0 and chosen not in numbers:
        span = f"{numbers[0]}..{numbers[-1]}" if numbers else "none"
        raise ToolError(f"% ERROR: Topic {topic} (with partitions {span}): partition {chosen} does not exist")
    return [(topic, number) for number in numbers if chosen in {-1, number}]


def _places(
    cluster: Cluster, partitions: list[TopicPartition], given: Given
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the start offset of each partition, and the stop offsets given with e@MS."""
    starts, stops = dict.fromkeys(partitions, EARLIEST), dict[TopicPartition, int]()
    for text in given.all("o"):
        if text in _NAMED:
            starts = dict.fromkeys(partitions, _NAMED[text])
        elif text.startswith(("s@", "e@")):
            found = _by_time(cluster, partitions, _leading_number(text[2:]))
            starts, stops = (found, stops) if text.startswith("s") else (starts, found)
        elif text == "stored":
            # Stored offsets require a group (-G GROUP TOPIC). The message is kcat's.
            topic, partition = partitions[0]
            reason = "Local: Invalid argument or configuration"
            raise ToolError(f"% ERROR: Failed to start consuming topic {topic} [{partition}]: {reason}")
        elif (number := _leading_number(text)) < 0:
            first, end = (_offsets(cluster, partitions, at) for at in (EARLIEST, LATEST))
            starts = {place: max(first[place], end[place] + number) for place in partitions}
        else:
            starts = dict.fromkeys(partitions, number)
    return starts, stops


def _leading_number(text: str) -> int:
    """Return the number at the start of a text, or 0 without one. kcat parses offsets like this with `strtoll`."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match[1]) if match else 0


def _by_time(cluster: Cluster, partitions: list[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
    ends = _offsets(cluster, partitions, LATEST)
    found = _offsets(cluster, partitions, time_ms)
    return {place: offset if offset >= 0 else ends[place] for place, offset in found.items()}


def _offsets(cluster: Cluster, partitions: list[TopicPartition], at: int) -> dict[TopicPartition, int]:
    try:
        return offsets_at(cluster, partitions, at)
    except ApiError as error:
        raise error_of(partitions[0][0], error) from None


def _writer(given: Given, leaders: dict[TopicPartition, int]) -> Callable[[Received], None]:
    make = _format(given, leaders)
    out = sys.stdout.buffer
    if not given.has("u"):
        return lambda received: (out.write(make(received)), None)[1]

    def write(received: Received) -> None:
        out.write(make(received))
        out.flush()

    return write


def _format(given: Given, leaders: dict[TopicPartition, int]) -> Format:
    if given.has("J"):
        return lambda received: (
            record_json(received, leaders.get((received.topic, received.partition), -1)) + "\n"
        ).encode()
    text = given.text("f")
    if text is None:
        key, end = given.delimiter("K", None), given.delimiter("D", "\n") or ""
        text = f"%k{key.replace('%', '%%')}%s" if key is not None else "%s"
        text += end.replace("%", "%%")
    else:
        text = unescaped(text)
    null = b"NULL" if given.has("Z") else b""
    unknown = next((found[1] for found in _TOKEN.finditer(text) if found[1] not in "sSRkKtpoTh%"), None)
    if unknown is not None:
        raise ToolError(f"% ERROR: Unsupported formatter: %{unknown}")
    parts = [part.encode("utf-8", "surrogateescape") for part in re.split(r"%.", text, flags=re.DOTALL)]
    letters = [found[1] for found in _TOKEN.finditer(text)]

    def make(received: Received) -> bytes:
        made = [parts[0]]
        for letter, part in zip(letters, parts[1:], strict=True):
            made += (_shown(letter, received, null), part)
        return b"".join(made)

    return make


def _shown(letter: str, received: Received, null: bytes) -> bytes:
    record = received.record
    if letter in "sk":
        data = record.value if letter == "s" else record.key
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
    plain = {"t": received.topic, "p": received.partition, "o": record.offset, "T": record.timestamp, "%": "%"}
    return str(plain[letter]).encode()


def record_json(received: Received, broker: int) -> str:
    """Return a record and its position as one line of JSON. Bytes that are not UTF-8 are replaced."""
    record = received.record
    kinds = {TimestampType.CREATE_TIME: "create", TimestampType.LOG_APPEND_TIME: "logappend"}
    kind = kinds.get(record.timestamp_type)
    stamped: dict[str, Any] = {} if kind is None else {"tstype": kind, "ts": record.timestamp}
    headers = [part for key, value in record.headers for part in (key, _text_of(value))]
    return json_line(
        {
            "topic": received.topic,
            "partition": received.partition,
            "offset": record.offset,
            **stamped,
            "broker": broker,
            **({"headers": headers} if headers else {}),
            "key": _text_of(record.key),
            "payload": _text_of(record.value),
        }
    )


def _text_of(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def json_line(content: Any) -> str:
    """Return JSON in kcat's format."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)
