"""Shallow copies of messages."""

import copy
from typing import Any

import pytest

from minibroker_protocol.codec import shallow_copy
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchPartition, FetchResponse, PartitionData
from minibroker_protocol.messages.groups import HeartbeatRequest
from minibroker_protocol.schema import fields_of

_DATA = PartitionData(partition_index=3, error_code=0, high_watermark=7, aborted_transactions=None, records=b"r")


@pytest.mark.parametrize(
    "message",
    [
        FetchResponse(throttle_time_ms=5, responses=[FetchableTopicResponse(topic="t", partitions=[_DATA])]),
        FetchPartition(partition=1, fetch_offset=2, partition_max_bytes=3),
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_copy_has_the_same_values_and_is_another_message(message: Any) -> None:
    before = copy.deepcopy(message)
    made = shallow_copy(message)
    assert made == before
    for field in fields_of(type(message)):
        assert getattr(made, field.name) is getattr(message, field.name)
        setattr(made, field.name, None)
    assert message == before
