"""Commits and look-ups of many offsets, with others served in between."""

import pytest

from minibroker.requests.dispatch import SlicedRequest
from minibroker.routing.outcomes import Answer, Waiting
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minibroker_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
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
