from collections.abc import Callable

import pytest

from minibroker.cluster.topic_admin import TopicError
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.harness import ADVERTISED, Harness


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_is_this_broker_at_the_first_request(version: int, harness: Harness) -> None:
    found = harness.ask(FindCoordinatorRequest(key="g"), version)
    assert (found.error_code, found.node_id, found.host, found.port) == (0, 1, *ADVERTISED)
    assert found.error_message == ("NONE" if version else None)
    assert harness.core.topics.get("__consumer_offsets") is not None


@pytest.mark.parametrize("version", range(4, 7))
def test_many_coordinators_are_found_at_once(version: int, harness: Harness) -> None:
    found = harness.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["b", "a", "b"]), version).coordinators
    assert [(each.key, each.error_code, each.error_message) for each in found] == [
        ("b", 0, ""),
        ("a", 0, ""),
        ("b", 0, ""),
    ]
    assert {(each.node_id, each.host, each.port) for each in found} == {(1, *ADVERTISED)}
    assert harness.core.topics.get("__transaction_state") is not None
    assert harness.core.topics.get("__consumer_offsets") is None


def test_coordinators_of_more_keys_are_found_in_steps(harness: Harness) -> None:
    keys = [f"g{number}" for number in range(100)]
    found = harness.ask(FindCoordinatorRequest(coordinator_keys=keys), 6).coordinators
    assert [(each.key, each.error_code, each.node_id) for each in found] == [(key, 0, 1) for key in keys]


@pytest.mark.parametrize(
    ("version", "key_type", "code"),
    [
        (1, 2, ErrorCode.INVALID_REQUEST),
        (5, 2, ErrorCode.INVALID_REQUEST),
        (6, 2, ErrorCode.INVALID_REQUEST),
        (6, 3, ErrorCode.INVALID_REQUEST),
        (3, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_other_kinds_of_coordinators_are_not_here(version: int, key_type: int, code: int, harness: Harness) -> None:
    found = harness.ask(FindCoordinatorRequest(key="x", key_type=key_type, coordinator_keys=["x"]), version)
    if version >= 4:
        (found,) = found.coordinators
    assert (found.error_code, found.node_id, found.host, found.port) == (code, -1, "", -1)
    assert bool(found.error_message) == (version < 4 or key_type != 2)


@pytest.mark.parametrize("key", ["g", "g:t:0", f":{'A' * 22}:0", f"g:{'A' * 22}:-1", f"g:{'A' * 22}:x"])
def test_a_key_that_names_no_share_partition_is_refused(key: str, harness: Harness) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    assert harness.ask(request, 6).coordinators[0].error_code == ErrorCode.INVALID_REQUEST


def test_the_coordinator_of_a_share_partition_leads_its_state(several: Harness) -> None:
    key = f"a:group:{'A' * 21}Q:3"
    found = several.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6).coordinators[0]
    log = several.services.share_states.store.log
    leader = log.coordinator(key)
    assert leader is not None
    assert (found.error_code, found.node_id) == (0, leader.id)


def test_there_is_no_coordinator_when_its_topic_cannot_be_made(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    monkeypatch.setattr(harness.services.groups.store.log, "ensure", refuse)
    assert harness.ask(FindCoordinatorRequest(key="g"), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_topic_of_the_coordinator_is_internal_and_compacted(harness: Harness) -> None:
    harness.ask(FindCoordinatorRequest(key="g"), 3)
    (topic,) = [each for each in harness.ask(MetadataRequest(topics=None), 12).topics if each.is_internal]
    assert (topic.name, len(topic.partitions)) == ("__consumer_offsets", 50)


def test_a_topic_that_cannot_be_made_is_told_with_its_reason_and_logged_once(
    configured: Callable[[dict[str, str]], Harness], errors: Callable[[], list[str]]
) -> None:
    harness = configured({"offsets.topic.segment.bytes": "10"})
    for _ in range(2):
        (found,) = harness.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "__consumer_offsets: " in found.error_message
        assert "segment.bytes" in found.error_message
    (logged,) = errors()
    assert logged.startswith("__consumer_offsets cannot be made: ")
