"""Commits and look-ups of many offsets, with others served in between."""

import math
from typing import Any

import pytest

from minibroker.coordinators import coordinator_log
from minibroker.coordinators.groups import forgetting
from minibroker.handlers import offset_delete
from minibroker.requests.dispatch import SlicedRequest
from minibroker.routing.outcomes import Answer, Waiting
from minibroker.support.slices import drain
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.delete_groups import DeleteGroupsRequest
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest
from minibroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minibroker_protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minibroker_protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from tests.broker.coordinators.groups.offset_requests import commit, offsets_of, with_members
from tests.broker.harness import Harness, Pending

PARTITIONS = 300


@pytest.fixture
def sliced(harness: Harness) -> Harness:
    harness.create("many", PARTITIONS)
    harness.core.slices.slice_s = 0.0
    return harness


def commit_request(first: int = 0, generation: int = -1, member: str = "") -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=first + index, committed_metadata="")
        for index in range(PARTITIONS)
    ]
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name="many", partitions=partitions)],
    )


def fetched(harness: Harness) -> dict[int, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
    answer = harness.send(request, 8)
    assert isinstance(answer, Pending)
    (group,) = answer.response.groups
    assert group.error_code == 0
    return {each.partition_index: each.committed_offset for topic in group.topics for each in topic.partitions}


def test_many_offsets_are_committed_together_and_told(sliced: Harness) -> None:
    outcome = sliced.accept(commit_request(1000), 8)
    assert isinstance(outcome, Waiting)
    assert isinstance(outcome.delayed, SlicedRequest)
    group = sliced.services.groups.store.find("g")
    assert group is None or not group.offsets
    pending = Pending(commit_request(1000), 8, outcome)
    sliced.run_soon()
    (topic,) = pending.response.topics
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (index, 0) for index in range(PARTITIONS)
    ]
    assert fetched(sliced) == {index: 1000 + index for index in range(PARTITIONS)}
    sliced.crash()
    sliced.core.slices.slice_s = 0.0
    assert fetched(sliced) == {index: 1000 + index for index in range(PARTITIONS)}


def test_a_commit_is_held_against_the_group_as_it_is_when_it_is_written(sliced: Harness) -> None:
    """The member of the commit is removed while its records are made."""
    sliced.core.slices.slice_s = 1000.0
    from tests.broker.coordinators.groups.consumers import Consumers  # noqa: PLC0415 - needed here alone

    consumers = Consumers(sliced)
    consumers.beat("a", topics=["t"])
    sliced.core.slices.slice_s = 0.0
    request = commit_request(0, 1, "a")
    outcome = sliced.accept(request, 9)
    assert isinstance(outcome, Waiting)
    pending = Pending(request, 9, outcome)
    answer = sliced.accept(consumers.request("a", -1), 1)
    assert isinstance(answer, Answer)
    sliced.run_soon()
    codes = {each.error_code for topic in pending.response.topics for each in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_MEMBER_ID}


def test_a_commit_that_does_not_fit_into_a_batch_is_refused_before_all_of_it_is_encoded(
    sliced: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    sliced.core.slices.slice_s = 1000.0
    sliced.ask(commit_request(), 8)
    topic = sliced.services.groups.store.log.topic
    assert topic is not None
    monkeypatch.setattr(topic, "max_message_bytes", 1000)
    response = sliced.ask(commit_request(500), 8)
    codes = {each.error_code for topic in response.topics for each in topic.partitions}
    assert codes == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    sliced.core.slices.slice_s = 0.0
    assert fetched(sliced) == {index: index for index in range(PARTITIONS)}


@pytest.fixture
def forgetful(sliced: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A group with an offset for each partition. Tombstones for them are made in 15 steps."""
    monkeypatch.setattr(coordinator_log, "_TOMBSTONES", 20)
    monkeypatch.setattr(forgetting, "_FEW", 10)
    sliced.core.slices.slice_s = math.inf
    sliced.ask(commit_request(), 8)
    sliced.core.slices.slice_s = 0.0
    return sliced


def begun(harness: Harness, request: Any, version: int) -> Pending:
    """A request some of whose steps are done; those to come end within one slice."""
    outcome = harness.accept(request, version)
    assert isinstance(outcome, Waiting)
    harness.core.slices.slice_s = math.inf
    return Pending(request, version, outcome)


def deletion_of_the_group(harness: Harness) -> Pending:
    return begun(harness, DeleteGroupsRequest(groups_names=["g"]), 1)


def deletion_of_offsets(harness: Harness, *names: str) -> Pending:
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(PARTITIONS)]
    topics = [OffsetDeleteRequestTopic(name=name, partitions=partitions) for name in names]
    return begun(harness, OffsetDeleteRequest(group_id="g", topics=topics), 0)


@pytest.mark.parametrize("most", [100, 10_000])
def test_a_group_with_many_offsets_is_deleted(forgetful: Harness, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "_MOST", most)
    pending = deletion_of_the_group(forgetful)
    group = forgetful.services.groups.store.find("g")
    assert group is not None
    assert len(group.offsets.everything()) in {PARTITIONS, PARTITIONS - most}
    forgetful.run_soon()
    assert pending.response.results[0].error_code == 0
    assert forgetful.services.groups.store.find("g") is None
    forgetful.crash()
    assert offsets_of(forgetful) == {}


@pytest.mark.parametrize("changes", [1, 2, 20])
def test_what_is_committed_while_a_group_is_deleted_goes_with_it(forgetful: Harness, changes: int) -> None:
    store = forgetful.services.groups.store
    group = store.find("g")
    assert group is not None
    steps = store.remove(group)
    forgetful.core.slices.slice_s = math.inf
    for number in range(changes):
        commit(forgetful, {("t", number): 1} if number else {("t", 0): 1, ("many", 0): 7})
        for _ in range(3):
            next(steps, None)
    drain(steps)
    assert store.find("g") is None
    forgetful.crash()
    assert offsets_of(forgetful) == {}


def test_a_group_that_somebody_joins_while_it_is_deleted_stays_as_it_was(forgetful: Harness) -> None:
    pending = deletion_of_the_group(forgetful)
    with_members(forgetful)
    forgetful.run_soon()
    assert pending.response.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    forgetful.crash()
    assert len(offsets_of(forgetful)) == PARTITIONS


def test_a_group_that_is_gone_meanwhile_is_not_found(forgetful: Harness) -> None:
    first = deletion_of_the_group(forgetful)
    second = forgetful.ask(DeleteGroupsRequest(groups_names=["g"]), 1)
    forgetful.run_soon()
    codes = [first.response.results[0].error_code, second.results[0].error_code]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, 0]


@pytest.mark.parametrize("at_once", [70, 10_000])
def test_many_offsets_are_deleted(forgetful: Harness, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_delete, "_AT_ONCE", at_once)
    pending = deletion_of_offsets(forgetful, "many", "none")
    forgetful.run_soon()
    known, unknown = pending.response.topics
    assert [each.error_code for each in known.partitions] == [0] * PARTITIONS
    assert [each.error_code for each in unknown.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * PARTITIONS
    assert forgetful.services.groups.store.find("g") is None
    forgetful.crash()
    assert offsets_of(forgetful) == {}


def test_offsets_of_what_somebody_subscribes_to_meanwhile_are_kept(forgetful: Harness) -> None:
    pending = deletion_of_offsets(forgetful, "many")
    with_members(forgetful, topics=("many",))
    forgetful.run_soon()
    (topic,) = pending.response.topics
    assert {each.error_code for each in topic.partitions} == {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}
    forgetful.crash()
    assert len(offsets_of(forgetful)) == PARTITIONS


def test_groups_forget_a_deleted_topic_beside_other_requests(forgetful: Harness) -> None:
    (outcome,) = forgetful.ask(DeleteTopicsRequest(topic_names=["many"], timeout_ms=1000), 3).responses
    assert outcome.error_code == 0
    forgetful.run_soon()
    assert offsets_of(forgetful) == {}
    forgetful.crash()
    assert offsets_of(forgetful) == {}


def test_what_is_named_twice_among_many_is_answered_twice(sliced: Harness) -> None:
    sliced.core.slices.slice_s = 1000.0
    sliced.ask(commit_request(), 8)
    indexes = [*range(5000), *range(5000)]
    topics = [OffsetFetchRequestTopic(name="many", partition_indexes=each) for each in (indexes, [6000, 1])]
    many, few = sliced.ask(OffsetFetchRequest(group_id="g", topics=topics), 5).topics
    assert [each.partition_index for each in many.partitions] == indexes
    assert [each.committed_offset for each in many.partitions[5000:5302]] == [*range(300), -1, -1]
    assert [(each.partition_index, each.committed_offset) for each in few.partitions] == [(6000, -1), (1, 1)]
