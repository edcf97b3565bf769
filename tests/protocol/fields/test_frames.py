"""Trees of requests and responses cover each byte once, have the codec's values, and never raise for corrupt bytes."""

import random
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.coordinator_records import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_versioned,
)
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.frames import declared_messages, request_fields, response_fields
from minibroker_protocol.fields.tree import DEFAULT_LIMITS, ERROR, NOT_OPENED, UNKNOWN, Limits, Node
from minibroker_protocol.frame import read_request_header
from minibroker_protocol.messages import Messages
from minibroker_protocol.messages.groups import JoinGroupRequest, JoinGroupRequestProtocol, SyncGroupResponse
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.primitives import write_uvarint
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from minibroker_protocol.schema import schema_of
from tests.protocol.fields.trees import check_leaves, is_complete, plain, values
from tests.protocol.message_strategies import messages
from tests.sweeps import few_examples, one_in

DECLARED = {key: found for key in ApiKey if (found := declared_messages(key)) is not None}
REQUESTS = [
    pytest.param(key, version, id=f"{key.message}-{version}")
    for key, found in DECLARED.items()
    for version in range(schema_of(found.request).versions.first, schema_of(found.request).versions.last + 1)
]


def declared(key: ApiKey) -> Messages:
    found = declared_messages(key)
    assert found is not None
    return found


def request_frame(key: int, version: int, message: Any, client_id: bytes | None = b"me", tags: bytes = b"\0") -> bytes:
    out = bytearray(struct.pack(">hhi", key, version, 7))
    if (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
        out += struct.pack(">h", -1 if client_id is None else len(client_id)) + (client_id or b"")
    if version in schema_of(type(message)).flexible:
        out += tags
    encode(message, version, out, [])
    return struct.pack(">i", len(out)) + bytes(out)


def response_frame(key: int, version: int, message: Any) -> bytes:
    out = bytearray(struct.pack(">i", 7))
    if version in schema_of(type(message)).flexible and key != ApiKey.API_VERSIONS:
        out.append(0)
    encode(message, version, out, [])
    return struct.pack(">i", len(out)) + bytes(out)


def covered(frame: bytes, limits: Limits = DEFAULT_LIMITS) -> Node:
    """Return the tree of a request, after checking that it covers each byte once."""
    root = request_fields(frame, limits)
    check_leaves(root, len(frame))
    return root


def body_of(root: Node) -> Node:
    return root.find("body")


def test_every_api_whose_messages_are_declared_has_trees() -> None:
    """All served APIs are included."""
    from minibroker.cluster.routing.routes import ROUTES  # noqa: PLC0415 - the only use of the broker here

    assert {route.key for route in ROUTES} <= set(DECLARED)
    assert len(DECLARED) >= 70


@pytest.mark.parametrize(("key", "version"), one_in(4, REQUESTS))
def test_a_tree_covers_each_byte_and_has_the_values_that_the_codec_reads(key: ApiKey, version: int) -> None:
    """Truncated and changed bytes give a tree with an error where the codec raises one."""
    apis = declared(key)

    @given(messages(apis.request, version), messages(apis.response, version), st.integers(0, 2**32))
    @few_examples
    def check(request: Any, response: Any, seed: int) -> None:
        chance = random.Random(seed)
        client_id = chance.choice([None, b"", b"me"])
        frame = request_frame(key, version, request, client_id)
        root = request_fields(frame)
        if (key, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
            header = read_request_header(memoryview(frame)[4:])
            assert root.find("header", "client_id").value == header.client_id
        check_body(root, request, version, frame)
        begin = body_of(root).start
        for _ in range(5):
            damaged = frame[:begin] + changed(frame[begin:], chance)
            check_damaged(request_fields(damaged), apis.request, version, begin, damaged)
        frame = response_frame(key, version, response)
        if key == ApiKey.API_VERSIONS and response.error_code == 35:
            return  # An unsupported version is read as version 0.
        root = response_fields(key, version, frame)
        check_body(root, response, version, frame)
        for _ in range(5):
            damaged = changed(frame, chance)
            check_leaves(response_fields(key, version, damaged), len(damaged))

    check()


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return bytes that are truncated, changed or both."""
    other = bytearray(data)
    for _ in range(chance.choice([0, 0, 1, 3]) if data else 0):
        other[chance.randrange(len(other))] = chance.randrange(256)
    del other[chance.randint(0, len(other)) :]
    return bytes(other)


def check_body(root: Node, message: Any, version: int, frame: bytes) -> None:
    check_leaves(root, len(frame))
    cls = type(message)
    body = body_of(root)
    decoded, end = decode(cls, memoryview(frame), version, body.start)
    assert body.end == end == len(frame)
    assert values(body) == plain(decoded, version, flexible=version in schema_of(cls).flexible)


def check_damaged(root: Node, cls: type[Any], version: int, begin: int, frame: bytes) -> None:
    check_leaves(root, len(frame))
    found = outside_records(root)
    try:
        decode(cls, memoryview(frame), version, begin)
    except DecodeError:
        assert any(leaf.type == ERROR for leaf in found) or any(node.fault for node in root.all_nodes())
    else:
        assert not any(leaf.type == ERROR for leaf in found)


def outside_records(node: Node) -> list[Node]:
    """Return the leaves of a tree except those of its records, which the codec does not decode."""
    if node.type.endswith("RECORDS"):
        return []
    return [node] if node.children is None else [leaf for child in node.children for leaf in outside_records(child)]


@given(st.binary(max_size=200))
def test_random_bytes_have_a_tree(data: bytes) -> None:
    check_leaves(request_fields(data), len(data))
    for key in (ApiKey.FETCH, ApiKey.METADATA, ApiKey.VOTE):
        check_leaves(response_fields(key, 12, data), len(data))


def test_unknown_tagged_fields_are_named_by_their_tag() -> None:
    tags = bytearray(b"\x01")
    write_uvarint(tags, 200)
    tags += b"\x02hi"
    produce = ProduceRequest(acks=1, timeout_ms=5, topic_data=[])
    frame = request_frame(ApiKey.PRODUCE, 9, produce, tags=bytes(tags))
    root = covered(frame)
    unknown = root.find("header", "tagged_fields", "tag 200")
    assert unknown.note == "unknown tag"
    assert [(child.name, child.value) for child in (unknown.children or [])[:2]] == [("(tag)", 200), ("(size)", 2)]
    assert frame[unknown.end - 2 : unknown.end] == b"hi"
    assert not is_complete(root)


def test_bytes_behind_the_last_field_belong_to_none() -> None:
    frame = request_frame(ApiKey.LIST_GROUPS, 0, declared(ApiKey.LIST_GROUPS).request()) + b"more"
    root = covered(frame)
    last = (root.children or [])[-1]
    assert (last.type, last.end - last.start) == (UNKNOWN, 4)
    assert "16 are here" in root.find("(length)").fault


@pytest.mark.parametrize(("key", "version"), [(999, 0), (ApiKey.VOTE, 0), (ApiKey.FETCH, 99)])
def test_an_api_or_a_version_that_is_not_known_stays_bytes(key: int, version: int) -> None:
    frame = struct.pack(">ihhih", 14, key, version, 7, -1) + b"rest"
    root = covered(frame)
    last = (root.children or [])[-1]
    assert (last.type, frame[last.start :]) == (ERROR, b"rest")
    assert "is not known here" in last.value
    assert response_fields(key, version, frame).children[-1].type == ERROR  # type: ignore[index]  # there are some


def test_an_api_versions_that_is_not_supported_is_answered_in_version_0() -> None:
    response = declared(ApiKey.API_VERSIONS).response(error_code=35, api_keys=[])
    frame = response_frame(ApiKey.API_VERSIONS, 0, response)
    root = response_fields(ApiKey.API_VERSIONS, 99, frame)
    check_leaves(root, len(frame))
    assert (root.name, is_complete(root)) == ("ApiVersions v0 response", True)
    assert body_of(root).find("error_code").note == "UNSUPPORTED_VERSION"


def produce_of(records: bytes, version: int = 7) -> bytes:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name="t", partition_data=[partition])
    return request_frame(ApiKey.PRODUCE, version, ProduceRequest(acks=-1, timeout_ms=5, topic_data=[topic]))


@pytest.mark.parametrize("codec", CompressionCodec)
def test_records_are_opened_in_place(codec: CompressionCodec) -> None:
    records = [NewRecord(b"k%d" % n, b"value", 1000 + n, (("h", b"x"), ("n", None))) for n in range(3)]
    frame = produce_of(bytes(build_batch(records, codec=codec)))
    root = covered(frame)
    batch = body_of(root).find("topic_data", "[0]", "partition_data", "[0]", "records", "[0]")
    payload = batch if not codec else batch.find("records")
    found = batch.children if payload.inside is None else payload.inside.children
    opened = [node for node in found or () if node.type == "RECORD"]
    assert [bytes(node.find("key").value) for node in opened] == [b"k0", b"k1", b"k2"]
    headers = opened[0].find("headers")
    assert bytes(headers.find("[0]", "header_value").value) == b"x"
    assert headers.find("[1]", "header_value").note == "null"
    assert is_complete(root)


def test_long_arrays_and_batches_are_opened_up_to_the_limits() -> None:
    batch = bytes(build_batch([NewRecord(None, b"v", 0)] * 100))
    frame = produce_of(batch * 3)
    root = covered(frame, Limits(record_fields=200))
    left = [leaf for leaf in root.leaves() if leaf.type == NOT_OPENED]
    assert len(left) == 2
    assert "records: the tree would be too large" in left[0].value
    topics = [MetadataRequestTopic(name="topic")] * 500
    frame = request_frame(ApiKey.METADATA, 4, MetadataRequest(topics=topics))
    root = covered(frame, Limits(fields=300))
    assert sum(1 for _ in root.leaves()) < 320
    assert (root.children or [])[-1].type == NOT_OPENED


@pytest.mark.parametrize("codec", [CompressionCodec.NONE, CompressionCodec.GZIP])
def test_a_large_batch_has_pages(codec: CompressionCodec) -> None:
    frame = produce_of(bytes(build_batch([NewRecord(None, b"%d" % n, 0) for n in range(3000)], codec=codec)))
    for first, opened in ((0, range(3000)), (2500, range(2500, 3000)), (3000, range(0)), (9999, range(0))):
        root = covered(frame, Limits(record_fields=100_000, first_record=first))
        records = [node for node in root.all_nodes() if node.type == "RECORD"]
        assert [int(bytes(node.find("value").value)) for node in records] == list(opened)
        closed = [node.value for node in root.all_nodes() if node.type == NOT_OPENED]
        assert len(closed) == -(-min(first, 3000) // 1000)
    assert closed[-1] == "records 2000 to 2999"


def test_damage_in_records_that_are_passed_over_is_an_error() -> None:
    batch = bytearray(build_batch([NewRecord(None, b"value", 0)] * 10))
    batch[61] = 0xFF
    root = request_fields(produce_of(bytes(batch)), Limits(first_record=5))
    damaged = [leaf for leaf in root.leaves() if leaf.type == ERROR]
    assert damaged[0].value.startswith("a record from 0 to 4: ")
    assert damaged[0].end - damaged[0].start == len(batch) - 61


def test_a_batch_that_decompresses_to_more_than_the_limit_stays_closed() -> None:
    batch = bytes(build_batch([NewRecord(None, bytes(100_000), 0)], codec=CompressionCodec.GZIP))
    root = request_fields(produce_of(batch), Limits(decompressed=1000))
    payload = body_of(root).find("topic_data", "[0]", "partition_data", "[0]", "records", "[0]", "records")
    assert payload.inside is None
    assert "1000" in payload.fault


def test_a_fetch_that_ends_within_a_batch_is_no_error() -> None:
    batch = bytes(build_batch([NewRecord(None, b"v", 0)]))
    for cut in (1, 11, 16, 17, 60, len(batch) - 1):
        frame = produce_of(batch + batch[:cut])
        root = covered(frame)
        assert [leaf.type for leaf in root.leaves() if leaf.type in {ERROR, NOT_OPENED}] == [NOT_OPENED]


def test_messages_of_the_consumer_protocol_are_opened() -> None:
    owned = [TopicPartition(topic="t", partitions=[1, 2])]
    subscription = ConsumerProtocolSubscription(topics=["t"], owned_partitions=owned)
    for version in (0, 1, 2, 3):
        protocol = JoinGroupRequestProtocol(name="range", metadata=encode_versioned(subscription, version))
        request = JoinGroupRequest(
            group_id="g", session_timeout_ms=1, member_id="", protocol_type="consumer", protocols=[protocol]
        )
        frame = request_frame(ApiKey.JOIN_GROUP, 4, request)
        root = covered(frame)
        content = body_of(root).find("protocols", "[0]", "metadata", "(content)")
        assert content.find("version").value == version
        assert content.find("topics", "[0]").value == "t"
    data = encode_versioned(ConsumerProtocolAssignment(assigned_partitions=owned), 1)
    response = SyncGroupResponse(error_code=0, assignment=data)
    root = response_fields(ApiKey.SYNC_GROUP, 5, response_frame(ApiKey.SYNC_GROUP, 5, response))
    found = body_of(root).find("assignment", "(content)", "assigned_partitions", "[0]", "partitions")
    assert [child.value for child in (found.children or [])[1:]] == [1, 2]
    for other in (b"\0\1not that", data + b"x", b"\0"):
        response = SyncGroupResponse(error_code=0, assignment=other)
        root = response_fields(ApiKey.SYNC_GROUP, 5, response_frame(ApiKey.SYNC_GROUP, 5, response))
        content = body_of(root).find("assignment", "(content)")
        assert content.type == "BYTES"
        assert bytes(body_of(root).find("assignment").value) == other
