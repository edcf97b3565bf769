from collections.abc import Mapping
from typing import Any

import pytest

from minibroker.cluster.releases import release
from minibroker.coordinators.share_state.coordinator import Outcome, ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.handlers.test_share_group import describe, offsets
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of


def alter(harness: Harness, topics: Mapping[str, Mapping[int, int]], group_id: str = "g") -> Any:
    """Set start offsets, and return the response."""
    requested = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in starts.items()
            ],
        )
        for name, starts in topics.items()
    ]
    return harness.ask(AlterShareGroupOffsetsRequest(group_id=group_id, topics=requested), 0)


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.responses
        for partition in topic.partitions
    }


@pytest.fixture(autouse=True)
def coordinator(harness: Harness) -> None:
    harness.services.groups.store.log.ensure()


def test_a_group_begins_where_it_was_set_to(harness: Harness) -> None:
    answer = alter(harness, {"t": {0: 5, 1: 5}, "none": {0: 1}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == 0
    assert codes(answer) == {("t", 0): 0, ("t", 1): unknown, ("none", 0): unknown}
    assert offsets(describe(harness, None)) == {("t", 0): (5, -5)}  # The partition is empty.
    assert ShareGroupClient(harness).describe().group_state == "Empty"
    harness.restart()
    assert offsets(describe(harness, None)) == {("t", 0): (5, -5)}


def test_a_group_with_members_keeps_its_offsets(harness: Harness) -> None:
    client = ShareGroupClient(harness)
    client.read_something()
    assert alter(harness, {"t": {0: 5}}).error_code == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    assert codes(alter(harness, {"t": {0: 5}})) == {("t", 0): 0}
    assert offsets(describe(harness, None)) == {("t", 0): (5, -5)}


def test_what_cannot_be_altered_is_refused(harness: Harness) -> None:
    assert alter(harness, {"t": {0: 1}}, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert not Consumers(harness, "c").beat("a").error_code
    assert alter(harness, {"t": {0: 1}}, "c").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    harness.core.features.finalize({"share.version": 0})
    assert alter(harness, {"t": {0: 1}}).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_error_of_the_share_coordinator_is_that_of_the_partition(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ShareCoordinator, "initialize", refuse)
    answer = alter(harness, {"t": {0: 5}})
    assert codes(answer) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert answer.responses[0].partitions[0].error_message == "not now"
    assert describe(harness, None).topics == []


def refuse(*_: object) -> Outcome:
    return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")


def delete(harness: Harness, *topics: str, group_id: str = "g") -> Any:
    """Delete the offsets of topics, and return the response."""
    requested = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return harness.ask(DeleteShareGroupOffsetsRequest(group_id=group_id, topics=requested), 0)


def codes_by_topic(answer: Any) -> dict[str, int]:
    return {response.topic_name: response.error_code for response in answer.responses}


def test_a_topic_is_forgotten(harness: Harness) -> None:
    harness.create("other")
    alter(harness, {"t": {0: 5}, "other": {0: 6}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes_by_topic(delete(harness, "t", "none")) == {"t": 0, "none": unknown}
    assert codes_by_topic(delete(harness, "t")) == {"t": unknown}
    assert offsets(describe(harness, None)) == {("other", 0): (6, -6)}
    key = SharePartitionKey("g", topic_of(harness, "t").id, 0)
    assert harness.services.share_states.summary(key).start_offset == UNKNOWN


def test_a_deletion_that_failed_is_tried_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(harness, {"t": {0: 5}})

    with monkeypatch.context() as context:
        context.setattr(ShareCoordinator, "delete", refuse)
        assert codes_by_topic(delete(harness, "t")) == {"t": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert describe(harness, None).topics == []
    assert codes_by_topic(delete(harness, "t")) == {"t": 0}


def test_what_cannot_be_deleted_is_refused(harness: Harness) -> None:
    assert delete(harness, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(harness, "t", group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    client = ShareGroupClient(harness)
    client.read_something()
    assert delete(harness, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    assert codes_by_topic(delete(harness, "t")) == {"t": 0}
    harness.core.features.finalize({"share.version": 0})
    assert delete(harness, "t").error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_is_deleted_with_its_states(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    client = ShareGroupClient(harness)
    client.read_something()

    def delete_group() -> int:
        (result,) = harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
        return int(result.error_code)

    assert delete_group() == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    alter(harness, {"t": {0: 5}})
    with monkeypatch.context() as context:
        context.setattr(ShareCoordinator, "delete", refuse)
        assert delete_group() == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert delete_group() == 0
    assert delete_group() == ErrorCode.GROUP_ID_NOT_FOUND
    key = SharePartitionKey("g", topic_of(harness, "t").id, 0)
    assert harness.services.share_states.summary(key).start_offset == UNKNOWN


@pytest.mark.parametrize(("emulated", "code"), [("4.1", ErrorCode.NONE), ("4.2", ErrorCode.GROUP_ID_NOT_FOUND)])
def test_before_4_2_no_topics_are_deleted_from_any_group(harness: Harness, emulated: str, code: ErrorCode) -> None:
    harness.services.release = release(emulated)
    assert delete(harness, group_id="nowhere").error_code == code
