"""What an exchange shows about records: where they were produced, fetched, committed, acknowledged or deleted; links.

A link leads from the position of a record in a request or a response to the view of this record. This is one file of
more than 500 lines because links and the life of a record must read an exchange alike.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from minibroker.server.inspection.exchanges import Kind
from minibroker_lab.reading import error_name
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.frames import request_fields, response_fields
from minibroker_protocol.fields.record_places import RecordPlace, find_record_in_batch, find_record_in_set
from minibroker_protocol.fields.tree import BATCH, LENGTH, STRUCT, Limits, Node
from minibroker_protocol.records.header import (
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    MAGIC_V2,
    RECORD_BATCH_OVERHEAD,
    read_header,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.reading import KnownTopics


_LIMITS: Final = Limits(fields=20_000, record_fields=0)
"""The limits leave batches undecoded, because the search needs only their headers."""


class Target(NamedTuple):
    """The record to find.

    Attributes:
        topic_id: The id of the topic, or None if the topic was deleted.
        batch: The base offset, CRC, producer id, producer epoch and base sequence of the record's batch in the log, or
            None if the record is not in the log. These values identify the batch in a request without a response.
    """

    topic: str
    topic_id: bytes | None
    partition: int
    offset: int
    batch: tuple[int, int, int, int, int] | None


class Sighting(NamedTuple):
    """An exchange that concerns the record.

    Attributes:
        kind: "produced", "refused", "fetched", "cut" (the part of a response that could contain the record was not
            recorded), "committed", "acknowledged", "deleted" or "ended" (the record's transaction).
        direction: "request" or "response": the frame to which `start` and `end` refer.
        place: The position of the record in these bytes, or None if unknown.
        error: The name of the error, an empty string without an error, or None without a response.
        facts: Further details by name.
    """

    kind: str
    exchange: Exchange
    client_id: str | None
    direction: str
    start: int
    end: int
    place: RecordPlace | None
    error: str | None
    facts: dict[str, Any]


def sightings(exchange: Exchange, target: Target) -> Iterator[Sighting]:
    """Yield all sightings of the record in an exchange. Unreadable frames yield none."""
    reader = _READERS.get(exchange.api_key)
    if reader is None or exchange.kind is not Kind.REQUEST or not _names_target(exchange, target):
        return
    try:
        yield from reader(_Frames(exchange), target)
    except (KeyError, DecodeError):  # A truncated or damaged frame cannot be searched any further.
        return


def _names_target(exchange: Exchange, target: Target) -> bool:
    """Return whether the frames name the topic or, for EndTxn, the producer. Most exchanges name neither."""
    if exchange.api_key == ApiKey.END_TXN:
        return target.batch is not None and target.batch[2].to_bytes(8, "big", signed=True) in exchange.request_frame
    needles = [target.topic.encode()] if target.topic_id is None else [target.topic_id, target.topic.encode()]
    return any(needle in exchange.request_frame or needle in exchange.response_frame for needle in needles)


class _Frames:
    """The field trees of an exchange's two frames. The response is decoded on first use."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.request = request_fields(memoryview(exchange.request_frame), _LIMITS)

    @cached_property
    def response(self) -> Node | None:
        """The fields of the response, or None without a response."""
        exchange = self.exchange
        if not exchange.bytes_out:
            return None
        return response_fields(exchange.api_key, exchange.version, memoryview(exchange.response_frame), _LIMITS)

    def sighting(
        self, kind: str, direction: str, node: Node, error: str | None, place: RecordPlace | None = None, **facts: Any
    ) -> Sighting:
        """Return a sighting at a node of the request or the response."""
        client_id = self.request.find("header", "client_id").value
        return Sighting(kind, self.exchange, client_id, direction, node.start, node.end, place, error, facts)


def _find_partitions(tree: Node | None, target: Target, names: tuple[str, str, str, str]) -> Iterator[Node]:
    """Yield the elements for the target's partition in a request or a response.

    Args:
        tree: The fields of a request or a response, or None.
        target: The record to find.
        names: The names of the fields for topics, topic name, partitions and partition index.
    """
    if tree is None:
        return
    topics, name, partitions, index = names
    for topic in tree.find("body", topics).children or ():
        if topic.type != STRUCT or not _is_topic(topic, name, target):
            continue
        for partition in topic.find(partitions).children or ():
            if partition.type == STRUCT and partition.find(index).value == target.partition:
                yield partition


def _is_topic(topic: Node, name: str, target: Target) -> bool:
    for child in topic.children or ():
        if child.name == name:
            return bool(child.value == target.topic)
        if child.name == "topic_id":
            return target.topic_id is not None and bytes(child.value) == target.topic_id
    return False


def _error_name(node: Node | None, *path: str) -> str | None:
    """Return the name of an error, an empty string without an error, or None without a response."""
    if node is None:
        return None
    code = node.find(*path).value
    return error_name(code) if code else ""


def records_of(part: Node, frame: bytes | bytearray) -> tuple[int, memoryview, bool]:
    """Return the start of a partition's record set, its recorded bytes, and whether these are all of its bytes."""
    node = part.find("records")
    length = node.find(LENGTH)
    start = length.end
    size = length.value - 1 if node.type.startswith("COMPACT") else length.value
    return start, memoryview(frame)[start : start + max(size, 0)], len(frame) - start >= size


def _shift_place(place: RecordPlace | None, by: int) -> RecordPlace | None:
    if place is None:
        return None
    shift = 0 if place.is_inside else by
    return place._replace(
        batch_start=place.batch_start + by,
        batch_end=place.batch_end + by,
        start=place.start + shift,
        end=place.end + shift,
    )


_PRODUCE: Final = ("topic_data", "name", "partition_data", "index")
_PRODUCED: Final = ("responses", "name", "partition_responses", "index")


def _produce(frames: _Frames, target: Target) -> Iterator[Sighting]:
    for partition in _find_partitions(frames.request, target, _PRODUCE):
        response_node = next(_find_partitions(frames.response, target, _PRODUCED), None)
        start, data, is_whole = records_of(partition, frames.exchange.request_frame)
        error = _error_name(response_node, "error_code")
        is_same = _is_same_batch(data, target)
        if error:
            if is_same:
                yield frames.sighting("refused", "request", partition, error=error)
            continue
        if response_node is not None and response_node.find("base_offset").value >= 0:
            number = target.offset - response_node.find("base_offset").value
        elif is_same and target.batch is not None:
            number = target.offset - target.batch[0]
        else:
            continue
        # In v2, a request has only one batch per partition.
        if number < 0 or (is_v2(data) and number > read_header(data).last_offset_delta):
            continue
        place = _find_in_set(data, number)
        if place is not None or not is_whole or is_v2(data):
            facts = {"number": number, "base_offset": target.offset - number, **_batch_facts(data)}
            yield frames.sighting(
                "produced", "request", partition, error=error, place=_shift_place(place, start), **facts
            )


def is_v2(data: memoryview) -> bool:
    """Return whether a record set starts with a complete header of a v2 batch."""
    return len(data) >= RECORD_BATCH_OVERHEAD and data[MAGIC_AT] == MAGIC_V2


def _find_in_set(data: memoryview, number: int) -> RecordPlace | None:
    try:
        return find_record_in_set(data, number)
    except DecodeError:
        return None


def _is_same_batch(data: memoryview, target: Target) -> bool:
    """Return whether a batch sent by a client is the one in the log.

    Batches are compared by their sequences, or by their CRCs if they have no sequence.
    """
    if target.batch is None or not is_v2(data):
        return False
    header = read_header(data)
    _, crc, producer_id, epoch, sequence = target.batch
    if sequence >= 0:
        return (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, sequence)
    return header.crc == crc


def _batch_facts(data: memoryview) -> dict[str, Any]:
    if not is_v2(data):
        return {}
    header = read_header(data)
    return {
        "records": header.record_count,
        "codec": header.codec.name.lower(),
        "is_transactional": header.is_transactional,
    }


_FETCH: Final = ("topics", "topic", "partitions", "partition")
_FETCHED: Final = ("responses", "topic", "partitions", "partition_index")
_NAMED: Final = ("topics", "name", "partitions", "partition_index")


def _fetch(frames: _Frames, target: Target) -> Iterator[Sighting]:
    for partition in _find_partitions(frames.response, target, _FETCHED):
        carried = _find_record(frames, partition, target)
        if carried is None:
            continue
        kind, place = carried
        body = frames.request.find("body")
        request_node = next(_find_partitions(frames.request, target, _FETCH), None)
        facts = {
            "fetch_offset": None if request_node is None else request_node.find("fetch_offset").value,
            "read_committed": any(field.name == "isolation_level" and field.value for field in body.children or ()),
            "listed_as_aborted": _is_listed_as_aborted(partition, target),
        }
        yield frames.sighting(kind, "response", partition, place=place, error="", **facts)


def _share_fetch(frames: _Frames, target: Target) -> Iterator[Sighting]:
    body = frames.request.find("body")
    for partition in _find_partitions(frames.response, target, _FETCHED):
        carried = _find_record(frames, partition, target)
        if carried is not None:
            batch = next(_find_ranges(partition, "acquired_records", target), None)
            count = None if batch is None else batch.find("delivery_count").value
            facts = {"group": body.find("group_id").value, "delivery_count": count}
            yield frames.sighting(carried[0], "response", partition, place=carried[1], error="", **facts)
    yield from _acknowledge(frames, target)


def _find_record(frames: _Frames, part: Node, target: Target) -> tuple[str, RecordPlace | None] | None:
    """Return "fetched" and the record's position, or "cut" and None if an unrecorded part can contain the record."""
    start, data, is_whole = records_of(part, frames.exchange.response_frame)
    position = 0
    while len(data) - position > MAGIC_AT:
        base = int.from_bytes(data[position : position + 8], "big", signed=True)
        is_v2 = data[position + MAGIC_AT] == MAGIC_V2
        if is_v2 and base > target.offset:
            return None
        size = LOG_OVERHEAD + int.from_bytes(data[position + LENGTH_AT : position + LOG_OVERHEAD], "big", signed=True)
        if size > len(data) - position or size <= LOG_OVERHEAD:
            break
        last = read_header(data[position:]).last_offset if is_v2 else base
        if last >= target.offset:
            return _open_batch(data[position : position + size], start + position, target)
        position += size
    return None if is_whole else ("cut", None)


def _open_batch(entry: memoryview, at: int, target: Target) -> tuple[str, RecordPlace | None] | None:
    try:
        place = find_record_in_batch(entry, target.offset)
    except DecodeError:  # The batch is too large to decompress, so the record cannot be located in it.
        return "fetched", None
    return None if place is None else ("fetched", _shift_place(place, at))


def _is_listed_as_aborted(part: Node, target: Target) -> bool:
    if target.batch is None or target.batch[2] < 0:
        return False
    fields = (field for field in part.children or () if field.name == "aborted_transactions")
    return any(
        aborted.find("producer_id").value == target.batch[2] and aborted.find("first_offset").value <= target.offset
        for field in fields
        for aborted in field.children or ()
        if aborted.type == STRUCT
    )


def _find_ranges(part: Node, name: str, target: Target) -> Iterator[Node]:
    """Yield the elements of an array whose `first_offset` to `last_offset` includes the record."""
    for element in part.find(name).children or ():
        is_range = element.type == STRUCT
        if is_range and element.find("first_offset").value <= target.offset <= element.find("last_offset").value:
            yield element


_ACKNOWLEDGEMENTS: Final = ("gap", "accept", "release", "reject", "renew")


def _acknowledge(frames: _Frames, target: Target) -> Iterator[Sighting]:
    group = frames.request.find("body", "group_id").value
    for partition in _find_partitions(frames.request, target, _NAMED):
        for batch in _find_ranges(partition, "acknowledgement_batches", target):
            children = batch.find("acknowledge_types").children or ()
            types: list[int] = [int(child.value) for child in children if child.type == "INT8"]
            if not types:
                continue
            index: int = target.offset - batch.find("first_offset").value
            kind = types[index] if index < len(types) else types[0]
            word = _ACKNOWLEDGEMENTS[kind] if 0 <= kind < len(_ACKNOWLEDGEMENTS) else str(kind)
            response_node = next(_find_partitions(frames.response, target, _FETCHED), None)
            name = "acknowledge_error_code" if frames.exchange.api_key == ApiKey.SHARE_FETCH else "error_code"
            error = None if frames.response is None else _error_name(response_node, name) or ""
            yield frames.sighting("acknowledged", "request", batch, error=error, group=group, type=word)


def _commit(frames: _Frames, target: Target) -> Iterator[Sighting]:
    facts: dict[str, Any] = {
        "group": frames.request.find("body", "group_id").value,
        "is_transactional": frames.exchange.api_key == ApiKey.TXN_OFFSET_COMMIT,
    }
    for partition in _find_partitions(frames.request, target, _NAMED):
        committed = partition.find("committed_offset").value
        if committed > target.offset:
            error = _error_name(next(_find_partitions(frames.response, target, _NAMED), None), "error_code")
            yield frames.sighting("committed", "request", partition, error=error, committed=committed, **facts)


def _delete(frames: _Frames, target: Target) -> Iterator[Sighting]:
    for partition in _find_partitions(frames.request, target, _NAMED):
        offset = partition.find("offset").value
        response_node = next(_find_partitions(frames.response, target, _NAMED), None)
        error = _error_name(response_node, "error_code")
        if offset > target.offset or (
            offset == -1 and response_node and response_node.find("low_watermark").value > target.offset
        ):
            yield frames.sighting("deleted", "request", partition, error=error, offset=offset)


def _end(frames: _Frames, target: Target) -> Iterator[Sighting]:
    body = frames.request.find("body")
    producer = body.find("producer_id").value, body.find("producer_epoch").value
    if target.batch is None or producer != (target.batch[2], target.batch[3]):
        return
    error = _error_name(frames.response, "body", "error_code")
    facts: dict[str, Any] = {"committed": bool(body.find("committed").value), "id": body.find("transactional_id").value}
    yield frames.sighting("ended", "request", body.find("committed"), error=error, **facts)


_READERS: Final[dict[int, Callable[[_Frames, Target], Iterator[Sighting]]]] = {
    int(ApiKey.PRODUCE): _produce,
    int(ApiKey.FETCH): _fetch,
    int(ApiKey.SHARE_FETCH): _share_fetch,
    int(ApiKey.SHARE_ACKNOWLEDGE): _acknowledge,
    int(ApiKey.OFFSET_COMMIT): _commit,
    int(ApiKey.TXN_OFFSET_COMMIT): _commit,
    int(ApiKey.DELETE_RECORDS): _delete,
    int(ApiKey.END_TXN): _end,
}


_HEADER_FIELDS: Final = 13
_CLOSED: Final = Limits(fields=10_000, record_fields=0)
_MARKS: Final = {name: name for name in ("high_watermark", "last_stable_offset", "log_start_offset")} | {
    "low_watermark": "log_start_offset"  # DeleteRecords responses return the log start offset in this field.
}
_LINKED: Final = Limits(fields=10_000, record_fields=10_000)
_SETS: Final = {
    ("request", int(ApiKey.PRODUCE)): ("topic_data", "name", "partition_data", "index"),
    ("response", int(ApiKey.PRODUCE)): ("responses", "name", "partition_responses", "index"),
    ("response", int(ApiKey.FETCH)): ("responses", "topic", "partitions", "partition_index"),
    ("response", int(ApiKey.SHARE_FETCH)): ("responses", "topic", "partitions", "partition_index"),
}
_MARKED: Final = {
    int(ApiKey.PRODUCE): _SETS["response", int(ApiKey.PRODUCE)],
    int(ApiKey.FETCH): _SETS["response", int(ApiKey.FETCH)],
    int(ApiKey.DELETE_RECORDS): ("topics", "name", "partitions", "partition_index"),
}


def record_sets(exchange: Exchange, topics: KnownTopics) -> list[dict[str, Any]]:
    """Return the record sets of an exchange.

    Each has its direction, byte range, topic and partition. `first` and `last` are the log offsets of the first and the
    last record, or None if no response contains them. The log offset of a record is the sum of `shift` and the offset
    in the bytes.
    """
    is_produce = exchange.api_key == ApiKey.PRODUCE
    direction = "request" if is_produce else "response"
    names = _SETS.get((direction, exchange.api_key))
    if names is None or (not is_produce and not exchange.bytes_out):
        return []
    response = None
    if exchange.bytes_out:
        frame = memoryview(exchange.response_frame)
        response = response_fields(exchange.api_key, exchange.version, frame, _LINKED)
    tree = request_fields(memoryview(exchange.request_frame), _LINKED) if is_produce else response
    if tree is None:
        return []
    base_offsets = {} if not is_produce or response is None else _base_offsets(response, topics)
    sets: list[dict[str, Any]] = []
    for topic, partition_node in _topic_partitions(tree, names, topics):
        node = partition_node.find("records")
        batches = [child for child in node.children or () if child.type == BATCH]
        if not batches or not batches[-1].children or len(batches[-1].children) < _HEADER_FIELDS:
            continue
        partition = partition_node.find(names[3]).value
        base = batches[0].find("base_offset").value
        shift: int | None = 0
        if is_produce:
            base_offset = base_offsets.get((topic, partition), -1)
            shift = None if base_offset < 0 else base_offset - base
        last = batches[-1].find("base_offset").value + batches[-1].find("last_offset_delta").value
        sets.append(
            {
                "direction": direction,
                "start": node.start,
                "end": node.end,
                "topic": topic,
                "partition": partition,
                "shift": shift,
                "first": None if shift is None else base + shift,
                "last": None if shift is None else last + shift,
            }
        )
    return sets


def response_offsets(exchange: Exchange, topics: KnownTopics) -> Iterator[tuple[tuple[str, int], dict[str, int]]]:
    """Yield the log offsets in a response to Produce, Fetch or DeleteRecords.

    Yields:
        The topic and partition, and the offsets by name. "end" is the offset after a Produce request's batch.
    """
    if not exchange.bytes_out or exchange.api_key not in _MARKED or exchange.kind is not Kind.REQUEST:
        return
    frame = memoryview(exchange.response_frame)
    response = response_fields(exchange.api_key, exchange.version, frame, _CLOSED)
    record_counts: dict[tuple[str, int], int] = {}
    if exchange.api_key == ApiKey.PRODUCE:
        request = request_fields(memoryview(exchange.request_frame), _CLOSED)
        for topic, partition_node in _topic_partitions(request, _SETS["request", int(ApiKey.PRODUCE)], topics):
            data = records_of(partition_node, exchange.request_frame)[1]
            if is_v2(data):
                record_counts[topic, partition_node.find("index").value] = read_header(data).last_offset_delta + 1
    names = _MARKED[exchange.api_key]
    for topic, partition_node in _topic_partitions(response, names, topics):
        if partition_node.find("error_code").value:
            continue
        partition = topic, partition_node.find(names[3]).value
        children = partition_node.children or ()
        marks = {_MARKS[child.name]: child.value for child in children if child.name in _MARKS and child.value >= 0}
        if partition in record_counts and partition_node.find("base_offset").value >= 0:
            marks["end"] = partition_node.find("base_offset").value + record_counts[partition]
        yield partition, marks


def _base_offsets(response: Node, topics: KnownTopics) -> dict[tuple[str, int], int]:
    names = _SETS["response", int(ApiKey.PRODUCE)]
    return {
        (topic, partition_node.find("index").value): partition_node.find("base_offset").value
        for topic, partition_node in _topic_partitions(response, names, topics)
        if not partition_node.find("error_code").value
    }


def _topic_partitions(tree: Node, names: tuple[str, str, str, str], topics: KnownTopics) -> Iterator[tuple[str, Node]]:
    """Yield each partition with the name of its topic. Iteration ends where the tree is truncated."""
    try:
        for topic in tree.find("body", names[0]).children or ():
            name = _name(topic, names[1], topics) if topic.type == STRUCT else None
            if name is None:
                continue
            for partition_node in topic.find(names[2]).children or ():
                if partition_node.type == STRUCT and {"index", "partition_index"} & {
                    child.name for child in partition_node.children or ()
                }:
                    yield name, partition_node
    except KeyError:
        return


def _name(topic: Node, field: str, topics: KnownTopics) -> str | None:
    for child in topic.children or ():
        if child.name == field:
            return str(child.value)
        if child.name == "topic_id":
            known_topic = topics.with_id(bytes(child.value))
            return None if known_topic is None else known_topic.name
    return None
