"""The requests and batches that are drawn."""

from typing import Final
from uuid import UUID

from minibroker_protocol.fields.batches import record_set_tree
from minibroker_protocol.fields.frames import request_fields
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.legacy import build_message_set
from minibroker_protocol.records.record import NewRecord
from tests.broker.harness import frame_of
from tests.drawings.byte_columns import Column, byte_columns
from tests.drawings.svg import Drawing

TIME: Final = 1_700_000_000_000
TOPIC_ID: Final = UUID("5dc3f6fa-ba8a-4215-9a1c-7a4671dc1f06").bytes


def produce_versions() -> Drawing:
    """Draw a Produce request with one record in three of its versions."""
    records = build_batch([NewRecord(b"k", b"paid", TIME)])
    columns: list[Column] = []
    for version, remark in ((3, "before flexible versions"), (9, "flexible"), (13, "with the topic's id")):
        partition = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="orders", topic_id=TOPIC_ID, partition_data=[partition])
        frame = frame_of(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), version, 7, "shop")
        data = len(frame).to_bytes(4, "big") + frame
        columns.append(Column(f"Produce v{version}, {remark}", data, request_fields(data)))
    return byte_columns("A Produce request byte by byte, in versions 3, 9 and 13", *columns, is_aligned=True)


def message_formats() -> Drawing:
    """Draw the same two records in the three message formats."""
    records = [NewRecord(b"k", b"new", TIME), NewRecord(b"k", b"paid", TIME + 5)]
    columns: list[Column] = []
    for title, built in (
        ("v0 (until 0.9)", build_message_set(records, magic=0, base_offset=40)),
        ("v1 (until 0.10)", build_message_set(records, magic=1, base_offset=40)),
        ("v2 (since 0.11)", build_batch(records, base_offset=40)),
    ):
        data = bytes(built)
        columns.append(Column(title, data, record_set_tree(memoryview(data))))
    return byte_columns("Two records in message formats v0, v1 and v2", *columns, is_aligned=False)
