from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from minibroker_protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from tests.broker.coordinators.groups.consumers import Consumers
from tests.broker.coordinators.groups.driver import Members
from tests.broker.coordinators.groups.member_requests import subscription
from tests.broker.harness import Harness

every_version = pytest.mark.parametrize("version", range(2))
CLASSIC = (("range", subscription("t")),)


@pytest.fixture
def consumers(harness: Harness) -> Consumers:
    return Consumers(harness)


@every_version
def test_a_group_is_told_with_what_its_members_read_and_are_to_read(version: int, consumers: Consumers) -> None:
    consumers.beat("a", rack_id="r", instance_id="i")
    consumers.beat("b", topics=["t", "u"])
    group = consumers.describe(version)
    assert (group.error_code, group.group_state) == (0, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    a, b = sorted(group.members, key=lambda each: str(each.member_id))
    assert (a.rack_id, a.instance_id, a.member_epoch, a.client_id, a.client_host) == ("r", "i", 2, "test", "/127.0.0.1")
    assert consumers.named(a.assignment.topic_partitions) == {"t": [0]}
    assert (b.member_epoch, b.subscribed_topic_names) == (3, ["t", "u"])
    assert {each.member_type for each in group.members} == {1 if version else -1}


@pytest.mark.parametrize(
    ("release", "epoch", "described"), [("4.3", 2, {"three": [0, 1, 2]}), ("4.2", 1, {"three": [0, 1]})]
)
def test_what_a_member_has_to_give_up_is_its_own_since_kafka_4_3(
    release: str, epoch: int, described: dict[str, list[int]], configured: Callable[[dict[str, str]], Harness]
) -> None:
    consumers = Consumers(configured({"minibroker.emulate": release}))
    consumers.harness.create("three", 3)
    consumers.beat("a", topics=["three"])
    consumers.beat("b", topics=["three"])
    consumers.beat("a", epoch, {"three": [0, 1, 2]})
    a, _ = sorted(consumers.describe().members, key=lambda each: str(each.member_id))
    assert consumers.named(a.assignment.topic_partitions) == described


@every_version
def test_who_may_do_what_is_told_if_asked(version: int, consumers: Consumers) -> None:
    consumers.beat("a")
    for wants, expected in ((True, 0b110101001000), (False, -(2**31))):
        request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=wants)
        (group,) = consumers.harness.ask(request, version).groups
        assert group.authorized_operations == expected


@every_version
def test_what_is_no_such_group_is_not_found(version: int, consumers: Consumers) -> None:
    Members(consumers.harness, "classic").alone()
    request = ConsumerGroupDescribeRequest(group_ids=["classic", "nowhere", ""], include_authorized_operations=False)
    found = [each.error_code for each in consumers.harness.ask(request, version).groups]
    assert found == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]


def test_a_member_of_the_classic_protocol_is_told_as_such(consumers: Consumers) -> None:
    consumers.beat("a")
    Members(consumers.harness).join("c", CLASSIC)
    assert {each.member_id: each.member_type for each in consumers.describe().members} == {"a": 1, "c": 0}


def test_groups_are_listed_with_their_types(consumers: Consumers) -> None:
    consumers.beat("a")
    Members(consumers.harness, "classic").alone()

    def listed(**filters: list[str]) -> dict[str, tuple[str, str]]:
        request = ListGroupsRequest(**{"states_filter": [], "types_filter": [], **filters})
        groups = consumers.harness.ask(request, 5).groups
        return {each.group_id: (each.group_type, each.group_state) for each in groups}

    assert listed() == {"g": ("consumer", "Stable"), "classic": ("classic", "Stable")}
    assert list(listed(types_filter=["Consumer"])) == ["g"]
    assert list(listed(types_filter=["classic"])) == ["classic"]
    assert listed(types_filter=["share"]) == {}


def test_the_older_way_to_describe_does_not_know_it(consumers: Consumers) -> None:
    consumers.beat("a")
    assert (Members(consumers.harness).describe().group_state, Members(consumers.harness).ids) == ("Dead", set())


def test_a_group_without_members_can_be_deleted(consumers: Consumers) -> None:
    consumers.beat("a")

    def delete() -> int:
        return int(consumers.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code)

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    consumers.beat("a", -1)
    assert consumers.describe().group_state == "Empty"
    assert delete() == 0
    assert consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    consumers.harness.restart()
    assert consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
