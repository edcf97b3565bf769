"""Trees as JSON for the page, with their limits."""

import base64
import json
from typing import Any

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.fields.frames import request_fields
from minibroker_protocol.fields.meanings import tree_json
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.header import CompressionCodec
from minibroker_protocol.records.record import NewRecord
from tests.protocol.fields.test_frames import request_frame


def shown(frame: bytes, **limits: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(tree_json(request_fields(frame), **limits)))
    return found


def below(node: dict[str, Any], *names: str) -> dict[str, Any]:
    for name in names:
        (node,) = (child for child in node["children"] if child["name"] == name)
    return node


def produce(value: bytes, codec: CompressionCodec = CompressionCodec.NONE) -> bytes:
    batch = bytes(build_batch([NewRecord(b"\xff\0", value, 1000)], codec=codec))
    partition = PartitionProduceData(index=0, records=batch)
    topic = TopicProduceData(name="orders", partition_data=[partition])
    return request_frame(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=5, topic_data=[topic]))


PARTITION = ("body", "topicData", "[0]", "partitionData", "[0]")


def test_a_node_has_its_name_type_range_value_and_meaning() -> None:
    found = shown(produce(b"hello"))
    assert below(found, "header", "requestApiKey") == {
        "name": "requestApiKey",
        "type": "INT16",
        "start": 4,
        "end": 6,
        "value": 0,
        "note": "Produce",
        "about": "RequestHeader.request_api_key",
    }
    topic = below(found, "body", "topicData", "[0]", "name")
    assert (topic["type"], topic["value"], [child["name"] for child in topic["children"]]) == (
        "COMPACT_STRING",
        "orders",
        ["(length)", "(content)"],
    )
    record = below(found, *PARTITION, "records", "[0]", "[0]")
    assert below(record, "value")["value"] == "hello"
    assert below(record, "key")["value"] == {"base64": "/wA="}
    assert below(found, "body", "transactionalId")["note"] == "null"
    assert "value" not in below(found, "body", "transactionalId")


def test_long_values_are_cut_and_say_so() -> None:
    value = "é".encode() * 3000
    record = below(shown(produce(value)), *PARTITION, "records", "[0]", "[0]")
    assert below(record, "value")["cut"] == 6000
    assert below(record, "value")["value"] == "é" * 512
    record = below(shown(produce(value), max_value_bytes=101), *PARTITION, "records", "[0]", "[0]")
    assert below(record, "value")["value"] == "é" * 50


def test_decompressed_bytes_are_a_space_of_their_own() -> None:
    found = shown(produce(b"v" * 3000, CompressionCodec.GZIP), max_inside_bytes=100)
    payload = below(found, *PARTITION, "records", "[0]", "records")
    inside = payload["inside"]
    assert (inside["size"], inside["cut"], len(base64.b64decode(inside["base64"]))) == (3011, 3011, 100)
    assert inside["children"][0]["start"] == 0
    assert below(inside, "[0]", "value")["cut"] == 3000


def test_numbers_that_javascript_lacks_are_texts() -> None:
    partition = FetchPartition(partition=0, fetch_offset=2**62, partition_max_bytes=1)
    topic = FetchTopic(topic_id=bytes(15) + b"\1", partitions=[partition])
    found = shown(request_frame(ApiKey.FETCH, 13, FetchRequest(max_wait_ms=1, min_bytes=1, topics=[topic])))
    topic_shown = below(found, "body", "topics", "[0]")
    assert below(topic_shown, "topicId")["value"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert below(topic_shown, "partitions", "[0]", "fetchOffset")["value"] == str(2**62)
