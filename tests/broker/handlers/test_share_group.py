import errno
from collections.abc import Mapping, Sequence
from typing import Any
from unittest.mock import PropertyMock

import pytest

from minibroker.cluster.partition import Partition
from minibroker.coordinators.share_state.state import Change, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DescribeGroupsRequest
from minibroker_protocol.messages.share_group import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    ShareGroupDescribeRequest,
)
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.harness import Configured, Harness, batch
from tests.broker.logs.world import topic_of


def test_a_member_joins_is_assigned_and_leaves(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    answer = client.beat()
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 2)
    assert (answer.heartbeat_interval_ms, answer.assignment.topic_partitions) == (5_000, [])
    assert client.beat(epoch=2).assignment is None
    harness.clock.advance(1_000)
    answer = client.beat(epoch=2)
    assert answer.member_epoch == 3
    assert [(bytes(topic.topic_id), topic.partitions) for topic in answer.assignment.topic_partitions] == [
        (topic_of(harness, "t").id, [0])
    ]
    answer = client.beat(epoch=-1)
    assert (answer.error_code, answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == (0, "a", -1, 0)
    assert client.beat(epoch=3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_before_4_3_a_group_begins_in_epoch_0_and_always_assigns(configured: Configured) -> None:
    client = ShareGroupClient(configured({"minibroker.emulate": "4.2"}))
    assert [client.beat(member=member).member_epoch for member in ("a", "b")] == [1, 2]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"member": ""}, ErrorCode.INVALID_REQUEST),
        ({"member": "m" * 37}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"topics": []}, ErrorCode.INVALID_REQUEST),
        ({"epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_what_cannot_be_meant_is_refused(harness: Harness, fields: dict[str, Any], code: ErrorCode) -> None:
    harness.services.groups.store.log.ensure()
    answer = ShareGroupClient(harness).beat(**fields)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval_ms) == (code, 0, 0)


def test_without_the_feature_there_are_no_share_groups(harness: Harness) -> None:
    harness.core.features.finalize({"share.version": 0})
    client = ShareGroupClient(harness)
    assert client.beat().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert client.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_is_described_with_its_members(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    client.read_something(topics=["t", "there-is-none"])
    group = client.describe(operations=True)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert (group.group_epoch, group.assignment_epoch) == (3, 3)
    assert group.authorized_operations > 0
    (member,) = group.members
    assert (member.member_id, member.member_epoch, member.rack_id, member.client_id) == ("a", 3, None, "test")
    assert member.subscribed_topic_names == ["t", "there-is-none"]
    (assigned,) = member.assignment.topic_partitions
    assert (bytes(assigned.topic_id), assigned.topic_name, assigned.partitions) == (topic_of(harness, "t").id, "t", [0])
    client.leave()
    group = client.describe()
    assert (group.group_state, group.group_epoch, group.members) == ("Empty", 4, [])
    assert group.authorized_operations == -(2**31)


def test_what_is_no_share_group_is_not_found(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    client.read_something()
    request = ShareGroupDescribeRequest(group_ids=["other", ""], include_authorized_operations=False)
    codes = [described.error_code for described in harness.ask(request, 1).groups]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]
    (group,) = harness.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def describe(
    harness: Harness, topics: Mapping[str, list[int]] | Sequence[tuple[str, list[int]]] | None, version: int = 1
) -> Any:
    """Describe the offsets of the group "g"."""
    requested = None
    if topics is not None:
        requested = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes)
            for name, indexes in (topics.items() if isinstance(topics, Mapping) else topics)
        ]
    group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=requested)
    (described,) = harness.ask(DescribeShareGroupOffsetsRequest(groups=[group]), version).groups
    return described


def offsets(group: Any) -> dict[tuple[str, int], tuple[int, int]]:
    """Return (start offset, lag) by topic and partition."""
    return {
        (topic.topic_name, partition.partition_index): (partition.start_offset, partition.lag)
        for topic in group.topics
        for partition in topic.partitions
    }


def test_a_group_that_has_not_begun_to_read_has_no_offset(harness: Harness) -> None:
    ShareGroupClient(harness).read_something()
    group = describe(harness, None)
    assert (group.error_code, offsets(group)) == (0, {("t", 0): (-1, -1)})
    assert bytes(group.topics[0].topic_id) == topic_of(harness, "t").id
    assert offsets(describe(harness, {"t": [0, 7], "none": [0]})) == {
        ("t", 0): (-1, -1), ("t", 7): (-1, -1), ("none", 0): (-1, -1)
    }  # fmt: skip


def test_a_topic_that_is_named_twice_is_answered_once(harness: Harness) -> None:
    ShareGroupClient(harness).read_something()
    group = describe(harness, [("t", [0]), ("none", [0]), ("t", [7, 0])])
    assert list(offsets(group)) == [("none", 0), ("t", 0), ("t", 7)]
    assert len(group.topics) == 2


def test_the_lag_is_the_end_without_what_is_done(harness: Harness) -> None:
    ShareGroupClient(harness).read_something()
    harness.produce(batch(b"1", b"2", b"3", b"4", b"5"))
    key = SharePartitionKey("g", topic_of(harness, "t").id, 0)
    change = Change(leader_epoch=0, start_offset=1, delivery_complete_count=2, batches=())
    assert not harness.services.share_states.write(key, -1, change).code
    assert offsets(describe(harness, None)) == {("t", 0): (1, 2)}
    assert offsets(describe(harness, {"t": [0]}, version=0)) == {("t", 0): (1, -1)}


def test_a_group_that_is_not_known_has_nothing(harness: Harness) -> None:
    harness.services.groups.store.log.ensure()
    group = describe(harness, None)
    assert (group.error_code, group.topics) == (0, [])
    assert describe(harness, {}).topics == []


def test_without_the_feature_it_is_refused(harness: Harness) -> None:
    harness.core.features.finalize({"share.version": 0})
    assert describe(harness, None).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_log_that_cannot_be_opened_is_the_error_of_its_partition(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ShareGroupClient(harness).read_something()
    key = SharePartitionKey("g", topic_of(harness, "t").id, 0)
    change = Change(leader_epoch=0, start_offset=1, delivery_complete_count=0, batches=())
    assert not harness.services.share_states.write(key, -1, change).code
    monkeypatch.setattr(Partition, "log", PropertyMock(side_effect=OSError(errno.EIO, "Input/output error")))
    ((partition,),) = (topic.partitions for topic in describe(harness, {"t": [0]}).topics)
    assert (partition.error_code, partition.start_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
