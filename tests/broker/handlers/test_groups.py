"""JoinGroup and SyncGroup by version, and the APIs for administrators.

tests/broker/groups has the responses to waiting members.
"""

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.cluster.topic_admin import TopicError
from minibroker.coordinators.groups.store import GroupStore
from minibroker.server.requests.dispatch import accept
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from minibroker_protocol.messages.metadata import MetadataRequest
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import RANGE, SESSION_MS, join_request
from tests.broker.harness import ADVERTISED, Configured, Harness, bytes_of, frame_of, response_of


@pytest.mark.parametrize("version", range(4))
def test_the_coordinator_is_this_broker_at_the_first_request(version: int, harness: Harness) -> None:
    response = harness.ask(FindCoordinatorRequest(key="g"), version)
    assert (response.error_code, response.node_id, response.host, response.port) == (0, 1, *ADVERTISED)
    assert response.error_message == ("NONE" if version else None)
    assert harness.core.topics.get("__consumer_offsets") is not None


@pytest.mark.parametrize("key", ["g", "g:t:0", f":{'A' * 22}:0", f"g:{'A' * 22}:-1", f"g:{'A' * 22}:x"])
def test_a_key_that_names_no_share_partition_is_refused(key: str, harness: Harness) -> None:
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    assert harness.ask(request, 6).coordinators[0].error_code == ErrorCode.INVALID_REQUEST


def test_the_coordinator_of_a_share_partition_leads_its_state(several: Harness) -> None:
    key = f"a:group:{'A' * 21}Q:3"
    coordinator = several.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=[key]), 6).coordinators[0]
    log = several.services.share_states.store.log
    leader = log.coordinator(key)
    assert leader is not None
    assert (coordinator.error_code, coordinator.node_id) == (0, leader.id)


def test_there_is_no_coordinator_when_its_topic_cannot_be_made(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise TopicError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    monkeypatch.setattr(harness.services.groups.store.log, "ensure", refuse)
    assert harness.ask(FindCoordinatorRequest(key="g"), 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_topic_of_the_coordinator_is_internal_and_compacted(harness: Harness) -> None:
    harness.ask(FindCoordinatorRequest(key="g"), 3)
    (topic,) = [
        candidate for candidate in harness.ask(MetadataRequest(topics=None), 12).topics if candidate.is_internal
    ]
    assert (topic.name, len(topic.partitions)) == ("__consumer_offsets", 50)


def test_a_topic_that_cannot_be_made_is_told_with_its_reason_and_logged_once(
    configured: Configured, errors: Callable[[], list[str]]
) -> None:
    harness = configured({"offsets.topic.segment.bytes": "10"})
    for _ in range(2):
        (coordinator,) = harness.ask(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
        assert coordinator.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "__consumer_offsets: " in coordinator.error_message
        assert "segment.bytes" in coordinator.error_message
    (logged,) = errors()
    assert logged.startswith("__consumer_offsets cannot be made: ")


INCONSISTENT_GROUP_PROTOCOL = 23


MEMBER_ID_REQUIRED = 79


def test_a_member_id_begins_with_the_name_of_the_client_or_of_the_instance(members: Members) -> None:
    dynamic, static = members.new_id(), members.new_id(instance="one")
    assert (dynamic.rpartition("-")[0][:5], static[:4]) == ("test-", "one-")
    assert (len(dynamic), len(static)) == (len("test-") + 36, len("one-") + 36)


def test_a_member_id_of_a_client_with_a_very_long_name_still_fits(harness: Harness) -> None:
    name = "ü" * 16_000
    frame = frame_of(join_request("g"), 4, client_id=name)
    from_bytes = _answer(harness, frame, join_request("g"), 4)
    assert from_bytes.error_code == MEMBER_ID_REQUIRED
    assert from_bytes.member_id.startswith("ü" * 15_000)


def _answer(harness: Harness, frame: bytes, request: Any, version: int) -> Any:
    outcome = accept(memoryview(bytearray(frame)), harness.session())
    assert isinstance(outcome, Answer)
    return response_of(request, version, bytes_of(outcome))


def test_the_limits_of_session_timeouts_are_configured(configured: Configured) -> None:
    harness = configured({"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "20"})
    members = Members(harness)
    assert [members.join(session_ms=timeout_ms).error_code for timeout_ms in (9, 10, 20, 21)] == [26, 79, 79, 26]


def test_before_version_1_the_session_timeout_is_the_rebalance_timeout(members: Members) -> None:
    first = members.join(version=0, session_ms=SESSION_MS).member_id
    group = members.harness.services.groups.store.get("g")
    assert group is not None
    assert group.members[first].rebalance_timeout_ms == SESSION_MS
    second = members.begin_join(version=1, session_ms=SESSION_MS, rebalance_ms=SESSION_MS + 1)
    assert group.rebalance_timeout_ms == SESSION_MS + 1
    assert not second.is_answered


def test_version_7_tells_the_type_of_the_protocol(members: Members) -> None:
    assert members.join(version=6, instance="one").protocol_type is None
    assert members.join(version=7, instance="one").protocol_type == "consumer"


def test_a_given_id_is_not_for_static_members(members: Members) -> None:
    given = members.new_id()
    assert members.join(given, instance="one").error_code == -1
    assert members.join(given).error_code == 0


def test_what_members_say_outlives_the_buffer_that_it_came_in(harness: Harness) -> None:
    frame = bytearray(frame_of(join_request("g", protocols=RANGE), 3))
    accept(memoryview(frame), harness.session())
    frame[:] = bytes(len(frame))
    group = harness.services.groups.store.get("g")
    assert group is not None
    (member,) = group.members.values()
    assert [(protocol.name, protocol.metadata) for protocol in member.protocols] == list(RANGE)


@pytest.mark.parametrize(
    "protocol", [(None, "range"), ("consumer", None), ("connect", "range"), ("consumer", "sticky")]
)
def test_version_5_has_to_name_the_protocol(protocol: tuple[str | None, str | None], members: Members) -> None:
    member = members.alone()
    assert members.sync(member, 1, protocol=protocol).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert members.sync(member, 1, protocol=protocol, version=4).error_code == ErrorCode.NONE


def test_a_member_joins_again_while_the_coordinator_loads(members: Members, monkeypatch: pytest.MonkeyPatch) -> None:
    member = members.alone()
    monkeypatch.setattr(GroupStore, "check_readiness", lambda *_: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert members.sync(member, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert members.heartbeat(member, 1) == ErrorCode.NONE
    assert members.join(member).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert members.describe().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert members.describe().group_state == ""


STRANGER = ErrorCode.UNKNOWN_MEMBER_ID


def test_nobody_without_a_name_is_taken_for_the_instance_without_a_name(members: Members) -> None:
    members.alone(instance="")
    assert members.leave(("", None)) == [STRANGER]
    assert members.leave(("", "")) == [0]


ALL_OPERATIONS = 0b1101_0100_1000


@pytest.mark.parametrize("version", range(7))
def test_a_group_that_is_not_known_is_dead(version: int, harness: Harness) -> None:
    groups = harness.ask(DescribeGroupsRequest(groups=["g", "", "g"]), version).groups
    code = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert [(group.error_code, group.group_id, group.group_state) for group in groups] == [
        (code, "g", "Dead"),
        (code, "", "Dead"),
        (code, "g", "Dead"),
    ]
    assert [group.error_message for group in groups] == [
        f"Group {group} not found." if version >= 6 else None for group in ("g", "", "g")
    ]


@pytest.mark.parametrize("version", range(3, 7))
def test_operations_are_told_if_asked(version: int, members: Members) -> None:
    members.alone()
    request = DescribeGroupsRequest(groups=["g", "nobody"], include_authorized_operations=True)
    groups = members.harness.ask(request, version).groups
    # Since version 6 an unknown group is an error.
    others = ALL_OPERATIONS if version < 6 else -(2**31)
    assert [group.authorized_operations for group in groups] == [ALL_OPERATIONS, others]
    assert members.describe().authorized_operations == -(2**31)


def test_members_are_described_with_the_host_that_they_come_from(harness: Harness) -> None:
    frame = memoryview(bytearray(frame_of(join_request("g"), 3)))
    accept(frame, harness.session(client_host="/192.0.2.7"))
    (member,) = Members(harness).describe().members
    assert member.client_host == "/192.0.2.7"


@pytest.fixture
def groups(harness: Harness) -> Harness:
    """A broker with an empty, a stable and a rebalancing group."""
    Members(harness, "empty").new_id()
    Members(harness, "stable").alone()
    Members(harness, "rebalancing").unsynced_pair()
    return harness


@pytest.mark.parametrize("version", range(6))
def test_all_groups_are_listed(version: int, groups: Harness) -> None:
    response = groups.ask(ListGroupsRequest(), version)
    assert response.error_code == 0
    groups_by_id = {group.group_id: group for group in response.groups}
    assert {name: group.protocol_type for name, group in groups_by_id.items()} == {
        "empty": "",
        "stable": "consumer",
        "rebalancing": "consumer",
    }
    states = {name: group.group_state for name, group in groups_by_id.items()}
    expected = {"empty": "Empty", "stable": "Stable", "rebalancing": "CompletingRebalance"}
    assert states == (expected if version >= 4 else dict.fromkeys(expected, ""))
    assert {group.group_type for group in response.groups} == {"classic" if version >= 5 else ""}


def test_groups_of_earlier_runs_are_listed_though_nobody_has_asked_for_them(groups: Harness) -> None:
    groups.restart()
    groups.run_soon()
    assert {group.group_id for group in groups.ask(ListGroupsRequest(), 5).groups} == {"empty", "stable", "rebalancing"}


@pytest.mark.parametrize(
    ("config", "listed"),
    [
        ({"offsets.topic.num.partitions": "1"}, [2, 4, 1, 3, 5]),
        ({"offsets.topic.num.partitions": "5"}, [3, 1, 2, 4, 5]),
        ({"offsets.topic.num.partitions": "1", "minibroker.emulate": "3.9"}, [1, 2, 3, 4, 5]),
    ],
)
def test_groups_are_listed_in_the_order_of_kafkas_hash_tables(
    config: dict[str, str], listed: list[int], configured: Configured
) -> None:
    harness = configured(config)
    for number in range(1, 6):
        Members(harness, f"grp-{number}").alone()
    groups = harness.ask(ListGroupsRequest(), 5).groups
    assert [group.group_id for group in groups] == [f"grp-{number}" for number in listed]


def test_a_list_that_is_not_all_says_so(groups: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupStore, "is_loading", True)
    response = groups.ask(ListGroupsRequest(), 5)
    assert (response.error_code, len(response.groups)) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3)


def test_an_id_that_was_given_by_a_deleted_group_is_worth_nothing(harness: Harness) -> None:
    members = Members(harness)
    given = members.new_id(session_ms=7_000)
    (deleted,) = harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results
    assert deleted.error_code == 0
    assert members.join(given).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    again = members.new_id()
    harness.clock.advance(7_000)
    assert members.join(again).error_code == 0
