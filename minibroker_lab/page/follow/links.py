"""The positions of records in requests and responses. The page uses them to link to the history of each record."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from minibroker.server.inspection.exchanges import Kind
from minibroker_lab.page.follow.sightings import is_v2, records_of
from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.frames import request_fields, response_fields
from minibroker_protocol.fields.tree import BATCH, STRUCT, Limits, Node
from minibroker_protocol.records.header import read_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    from minibroker.server.inspection.exchanges import Exchange
    from minibroker_lab.reading import KnownTopics

_HEADER_FIELDS: Final = 13
_CLOSED: Final = Limits(fields=10_000, record_fields=0)
_MARKS: Final = {name: name for name in ("high_watermark", "last_stable_offset", "log_start_offset")} | {
    "low_watermark": "log_start_offset"  # DeleteRecords responses return the log start offset in this field.
}
_LIMITS: Final = Limits(fields=10_000, record_fields=10_000)
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
        response = response_fields(exchange.api_key, exchange.version, frame, _LIMITS)
    tree = request_fields(memoryview(exchange.request_frame), _LIMITS) if is_produce else response
    if tree is None:
        return []
    base_offsets = {} if not is_produce or response is None else _base_offsets(response, topics)
    sets: list[dict[str, Any]] = []
    for topic, partition_node in _find_partitions(tree, names, topics):
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
        for topic, partition_node in _find_partitions(request, _SETS["request", int(ApiKey.PRODUCE)], topics):
            data = records_of(partition_node, exchange.request_frame)[1]
            if is_v2(data):
                record_counts[topic, partition_node.find("index").value] = read_header(data).last_offset_delta + 1
    names = _MARKED[exchange.api_key]
    for topic, partition_node in _find_partitions(response, names, topics):
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
        for topic, partition_node in _find_partitions(response, names, topics)
        if not partition_node.find("error_code").value
    }


def _find_partitions(tree: Node, names: tuple[str, str, str, str], topics: KnownTopics) -> Iterator[tuple[str, Node]]:
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
