"""Requests to the HTTP control plane."""

import gzip
import urllib.request
from dataclasses import replace

from benchmarks.hostile.bytes_of import GZIP, batch, record
from benchmarks.hostile.case import TIMEOUT_S, WATCHED, Ask, Attack, Cases, Target
from benchmarks.wire import Connection, WireError, produce_request, produced_offset
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

_CASES = Cases()
case = _CASES.case
_CONTROL = replace(WATCHED, has_control=True)
_ALONE = "it has no control plane"


def _get(path: str) -> Attack:
    lines = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    return Attack(frames=(lines.encode(),), at="control")


@case("control plane: GET /topics of 5,000 topics", 5_000, broker=_CONTROL, alone=_ALONE)
def get_topics(target: Target, size: int) -> Attack:
    target.topics(size)
    return _get("/topics")


@case("control plane: GET /topics/TOPIC of 9,000 partitions", 9_000, broker=_CONTROL, alone=_ALONE)
def get_topic(target: Target, size: int) -> Attack:
    return _get(f"/topics/{target.topic(size)}")


@case("control plane: GET /topics/TOPIC/records of 200,000 records", 200_000, broker=_CONTROL, alone=_ALONE)
def get_records(target: Target, size: int) -> Attack:
    name = target.topic()
    each = 1_000
    data = batch(b"".join(record(number, b"v" * 100) for number in range(each)), each)
    with Connection(target.address) as connection:
        for _ in range(size // each):
            connection.socket.sendall(produce_request(name, 0, data))
            produced_offset(connection.receive())
    return _get(f"/topics/{name}/records")


@case("control plane: GET /topics/TOPIC/records, a batch of 1,000,000", 1_000_000, broker=_CONTROL, alone=_ALONE)
def get_packed_records(target: Target, size: int) -> Attack:
    name = target.topic(max_message_bytes="20000000")
    packed = gzip.compress(b"".join(map(record, range(size))), 1)
    with Connection(target.address) as connection:
        connection.socket.sendall(produce_request(name, 0, batch(packed, size, GZIP)))
        produced_offset(connection.receive())
    return _get(f"/topics/{name}/records?limit=1")


@case("control plane: GET /metrics of 5,000 topics, 9,000 read partitions", 5_000, broker=_CONTROL, alone=_ALONE)
def get_metrics(target: Target, size: int) -> Attack:
    target.topics(size)
    _committed(target, 9 * size // 5)
    return _get("/metrics")


@case("control plane: GET /groups/GROUP/lag of 9,000 partitions", 9_000, broker=_CONTROL, alone=_ALONE)
def get_lag(target: Target, size: int) -> Attack:
    _committed(target, size)
    return _get("/groups/lagging/lag")


def _committed(target: Target, size: int) -> None:
    """Have the group "lagging" commit offsets for all partitions of a topic."""
    target.tag += "-read"
    topic = target.topic(size)
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=0, committed_metadata="")
        for number in range(size)
    ]
    request = OffsetCommitRequest(
        group_id="lagging", topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    )
    (committed,) = target.ask(request, 6).topics
    if codes := {each.error_code for each in committed.partitions} - {0}:
        raise WireError(f"OffsetCommit: {codes}")


@case("control plane: GET /requests of a journal of 10,000", 10_000, broker=_CONTROL, alone=_ALONE)
def get_requests(target: Target, size: int) -> Attack:
    _begin_journal(target)
    names = [target.topic(), "unknown"]
    asked = [MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    target.ask_many([Ask(request, 9)] * size)
    return _get(f"/requests?topic=unkn*&limit={size}")


def _begin_journal(target: Target) -> None:
    assert target.control is not None
    url = f"http://{target.control[0]}:{target.control[1]}/journal"
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT"), timeout=TIMEOUT_S) as answer:
        answer.read()


CASES = tuple(_CASES.found)
