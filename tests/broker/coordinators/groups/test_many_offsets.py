"""Deletions of many offsets in several steps, with other requests served in between."""

import math
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Waiting
from minibroker.coordinators.groups import store
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.offsets import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
)
from tests.broker.coordinators.groups.offset_requests import commit, delete_topics, group_of, offsets_of, with_members
from tests.broker.harness import Harness, Pending

PARTITIONS = 300


@pytest.fixture
def many(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """Return a broker with a group that has an offset for each partition, deleted in steps of 20."""
    monkeypatch.setattr(store, "_TOMBSTONES_PER_STEP", 20)
    harness.create("many", PARTITIONS)
    commit(harness, {("many", index): index for index in range(PARTITIONS)})
    return harness


def begun(harness: Harness, request: Any, version: int) -> Pending:
    """Run the first steps of a request. The others run with the scheduled callbacks."""
    harness.core.slices.slice_s = 0.0
    outcome = harness.accept(request, version)
    assert isinstance(outcome, Waiting)
    harness.core.slices.slice_s = math.inf
    return Pending(request, version, outcome)


def deletion_of_offsets(harness: Harness, *names: str) -> Pending:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names]
    return begun(harness, OffsetDeleteRequest(group_id="g", topics=topics), 0)


def test_a_group_with_many_offsets_is_deleted_in_steps(many: Harness) -> None:
    pending = begun(many, DeleteGroupsRequest(groups_names=["g"]), 1)
    assert 0 < len(group_of(many).offsets.everything()) < PARTITIONS
    commit(many, {("t", 0): 1, ("many", 0): 7})
    many.run_soon()
    assert pending.response.results[0].error_code == 0
    assert many.services.groups.store.find("g") is None
    many.crash()
    assert offsets_of(many) == {}


def test_a_group_is_kept_if_a_member_joins_during_its_deletion(many: Harness) -> None:
    pending = begun(many, DeleteGroupsRequest(groups_names=["g"]), 1)
    with_members(many)
    many.run_soon()
    assert pending.response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    many.crash()
    assert 0 < len(offsets_of(many)) < PARTITIONS


def test_a_group_deleted_by_another_request_is_not_found(many: Harness) -> None:
    first = begun(many, DeleteGroupsRequest(groups_names=["g"]), 1)
    second = many.ask(DeleteGroupsRequest(groups_names=["g"]), 1)
    many.run_soon()
    assert [first.response.results[0].error_code, second.results[0].error_code] == [ErrorCode.GROUP_ID_NOT_FOUND, 0]


def test_many_offsets_are_deleted_in_steps(many: Harness) -> None:
    pending = deletion_of_offsets(many, "many", "none")
    many.run_soon()
    known, unknown = pending.response.topics
    assert [partition.error_code for partition in known.partitions] == [0] * PARTITIONS
    assert [partition.error_code for partition in unknown.partitions] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ] * PARTITIONS
    assert many.services.groups.store.find("g") is None
    many.crash()
    assert offsets_of(many) == {}


def test_offsets_are_kept_if_a_member_subscribes_during_their_deletion(many: Harness) -> None:
    pending = deletion_of_offsets(many, "many")
    with_members(many, topics=("many",))
    many.run_soon()
    (topic,) = pending.response.topics
    assert {partition.error_code for partition in topic.partitions} == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    many.crash()
    assert 0 < len(offsets_of(many)) < PARTITIONS


def test_offsets_of_a_deleted_topic_are_removed_in_steps(many: Harness) -> None:
    many.core.slices.slice_s = 0.0
    delete_topics(many, "many")
    many.core.slices.slice_s = math.inf
    many.run_soon()
    assert offsets_of(many) == {}
    many.crash()
    assert offsets_of(many) == {}


def test_a_partition_that_is_named_twice_is_answered_twice(many: Harness) -> None:
    indexes = [*range(PARTITIONS + 2), *range(5)]
    topic = OffsetFetchRequestTopic(name="many", partition_indexes=indexes)
    (fetched,) = many.ask(OffsetFetchRequest(group_id="g", topics=[topic]), 5).topics
    assert [partition.partition_index for partition in fetched.partitions] == indexes
    assert [partition.committed_offset for partition in fetched.partitions] == [*range(PARTITIONS), -1, -1, *range(5)]
