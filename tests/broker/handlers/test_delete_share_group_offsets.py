from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from minibroker.coordinators.share_state.coordinator import Outcome, ShareCoordinator
from minibroker.coordinators.share_state.state import UNKNOWN, SharePartitionKey
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.share_group import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from tests.broker.handlers.share_group_requests import ShareGroupClient
from tests.broker.handlers.test_alter_share_group_offsets import alter
from tests.broker.handlers.test_describe_share_group_offsets import describe, offsets
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of


def refuse(*_: object) -> Outcome:
    return Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not now")


def delete(harness: Harness, *topics: str, group_id: str = "g") -> Any:
    """Forget topics; the answer."""
    named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics]
    return harness.ask(DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named), 0)


def codes(answer: Any) -> dict[str, int]:
    return {each.topic_name: each.error_code for each in answer.responses}


@pytest.fixture(autouse=True)
def coordinator(harness: Harness) -> None:
    harness.services.groups.store.log.ensure()


def test_a_topic_is_forgotten(harness: Harness) -> None:
    harness.create("other")
    alter(harness, {"t": {0: 5}, "other": {0: 6}})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(delete(harness, "t", "none")) == {"t": 0, "none": unknown}
    assert codes(delete(harness, "t")) == {"t": unknown}
    assert offsets(describe(harness, None)) == {("other", 0): (6, -6)}
    key = SharePartitionKey("g", topic_of(harness, "t").id, 0)
    assert harness.services.share_states.summary(key).start_offset == UNKNOWN


def test_a_deletion_that_failed_is_tried_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    alter(harness, {"t": {0: 5}})

    with monkeypatch.context() as context:
        context.setattr(ShareCoordinator, "delete", refuse)
        assert codes(delete(harness, "t")) == {"t": ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert describe(harness, None).topics == []
    assert codes(delete(harness, "t")) == {"t": 0}


def test_what_cannot_be_deleted_is_refused(harness: Harness) -> None:
    assert delete(harness, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(harness, "t", group_id="").error_code == ErrorCode.INVALID_GROUP_ID
    client = ShareGroupClient(harness)
    client.read_something()
    assert delete(harness, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    client.leave()
    assert codes(delete(harness, "t")) == {"t": 0}
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


def test_before_4_2_no_topics_are_deleted_from_any_group(tmp_path: Path) -> None:
    for release, code in (("4.1", ErrorCode.NONE), ("4.2", ErrorCode.GROUP_ID_NOT_FOUND)):
        with closing(Harness(str(tmp_path / release), {"minibroker.emulate": release})) as harness:
            harness.services.groups.store.log.ensure()
            harness.core.features.finalize({"share.version": 1})
            assert delete(harness, group_id="nowhere").error_code == code
