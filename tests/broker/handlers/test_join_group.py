"""JoinGroup by its versions; what waiting members are told is in tests/broker/groups."""

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.cluster.routing.outcomes import Answer
from minibroker.server.requests.dispatch import accept
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import BOTH, RANGE, SESSION_MS, join_request
from tests.broker.harness import Harness, bytes_of, frame_of, response_of

INCONSISTENT_GROUP_PROTOCOL = 23
MEMBER_ID_REQUIRED = 79


@pytest.mark.parametrize("version", range(4))
def test_old_members_join_without_an_id(version: int, members: Members) -> None:
    joined = members.join(version=version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, joined.member_id)


@pytest.mark.parametrize("version", range(4, 10))
def test_dynamic_members_are_given_an_id_first(version: int, members: Members) -> None:
    given = members.join(version=version)
    assert (given.error_code, given.generation_id) == (MEMBER_ID_REQUIRED, -1)
    assert members.ids == set()
    joined = members.join(given.member_id, version=version)
    assert (joined.error_code, joined.member_id) == (0, given.member_id)


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


def test_a_client_without_a_name_may_join(harness: Harness) -> None:
    response = _answer(harness, frame_of(join_request("g"), 3, client_id=None), join_request("g"), 3)
    assert (response.error_code, response.member_id[0]) == (0, "-")


def _answer(harness: Harness, frame: bytes, request: Any, version: int) -> Any:
    outcome = accept(memoryview(bytearray(frame)), harness.session())
    assert isinstance(outcome, Answer)
    return response_of(request, version, bytes_of(outcome))


def test_the_limits_of_session_timeouts_are_configured(configured: Callable[[dict[str, str]], Harness]) -> None:
    harness = configured({"group.min.session.timeout.ms": "10", "group.max.session.timeout.ms": "20"})
    members = Members(harness)
    assert [members.join(session_ms=each).error_code for each in (9, 10, 20, 21)] == [26, 79, 79, 26]


def test_before_version_1_the_session_timeout_is_the_rebalance_timeout(members: Members) -> None:
    first = members.join(version=0, session_ms=SESSION_MS).member_id
    group = members.harness.services.groups.store.get("g")
    assert group is not None
    assert group.members[first].rebalance_timeout_ms == SESSION_MS
    second = members.begin_join(version=1, session_ms=SESSION_MS, rebalance_ms=SESSION_MS + 1)
    assert group.rebalance_timeout_ms == SESSION_MS + 1
    assert not second.is_answered


@pytest.mark.parametrize("version", [3, 5, 9])
@pytest.mark.parametrize(
    "fields", [{"protocols": (("other", b""),)}, {"protocol_type": "connect"}, {"instance": "i", "protocols": ()}]
)
def test_a_member_has_to_offer_what_the_others_do(version: int, fields: dict[str, Any], members: Members) -> None:
    first = members.alone(protocols=BOTH)
    assert members.join(version=version, **fields).error_code == INCONSISTENT_GROUP_PROTOCOL
    assert members.heartbeat(first, 1) == 0


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
    assert [(each.name, each.metadata) for each in member.protocols] == list(RANGE)
