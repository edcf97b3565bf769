from collections.abc import Mapping
from typing import Any

import pytest

from minibroker.coordinators.share_state.coordinator import Outcome, ShareCoordinator
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.handlers.test_describe_share_group_offsets import describe, offsets
from tests.broker.harness import Harness


def alter(harness: Harness, topics: Mapping[str, Mapping[int, int]], group_id: str = "g") -> Any:
    """Set start offsets; the answer."""
    named = [
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=offset)
                for index, offset in starts.items()
            ],
        )
        for name, starts in topics.items()
    ]
    return harness.ask(AlterShareGroupOffsetsRequest(group_id=group_id, topics=named), 0)


def codes(answer: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.topic_name, each.partition_index): each.error_code
        for topic in answer.responses
        for each in topic.partitions
    }


@pytest.fixture(autouse=True)
def coordinator(harness: Harness) -> None:
    harness.services.groups.store.log.ensure()


def test_a_group_begins_where_it_was_set_to(harness: Harness) -> None:
    answer = alter(harness, {"t": {0: 5, 1: 5}, "none": {0: 1}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.error_code == 0
    assert codes(answer) == {("t", 0): 0, ("t", 1): unknown, ("none", 0): unknown}
    assert offsets(describe(harness, None)) == {("t", 0): (5, -5)}  # the partition is empty
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
    def refuse(*_: object) -> Outcome:
        return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")

    monkeypatch.setattr(ShareCoordinator, "initialize", refuse)
    answer = alter(harness, {"t": {0: 5}})
    assert codes(answer) == {("t", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert answer.responses[0].partitions[0].error_message == "not now"
    assert describe(harness, None).topics == []
