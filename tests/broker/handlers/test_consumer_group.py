from typing import Any

import pytest

from minibroker.server.requests.session import Session
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from minibroker_protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from tests.broker.coordinators.groups.consumers import REBALANCE_MS, Consumers
from tests.broker.coordinators.groups.driver import Members
from tests.broker.harness import Configured, Harness

changed_in_4_4 = pytest.mark.parametrize(("release", "is_new"), [("4.3", False), ("4.4", True)])


every_version = pytest.mark.parametrize("version", range(2))


@pytest.fixture
def consumers(harness: Harness) -> Consumers:
    harness.create("four", 4)
    return Consumers(harness)


def with_api_versions(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A broker whose clients send ApiVersions first."""
    make = harness.session

    def session(*arguments: Any, **named: Any) -> Session:
        made = make(*arguments, **named)
        made.waited_fetches = 0
        return made

    monkeypatch.setattr(harness, "session", session)
    return harness


def test_clients_have_short_intervals_after_a_change_of_the_group(
    consumers: Consumers, configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = with_api_versions(consumers.harness, monkeypatch)
    intervals = [consumers.beat("a", topics=["four"]).heartbeat_interval_ms]
    for _ in range(14):
        harness.clock.advance(intervals[-1])
        intervals.append(consumers.beat("a", 2).heartbeat_interval_ms)
    assert intervals[:5] == [100, 100, 100, 150, 225]
    assert intervals[-1] == 5_000
    assert consumers.beat("b", topics=["four"]).heartbeat_interval_ms == 100
    assert consumers.beat("a", 2).heartbeat_interval_ms == 100


def test_intervals_are_as_configured_without_workarounds_for_clients(
    configured: Configured, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = with_api_versions(configured({"minibroker.client.workarounds.enable": "false"}), monkeypatch)
    assert Consumers(harness).beat("a", topics=["t"]).heartbeat_interval_ms == 5_000


def test_a_regular_expression_subscribes_to_what_is_there_and_to_what_comes(consumers: Consumers) -> None:
    joined = consumers.beat("a", subscribed_topic_regex="f.*|n[0-9]+")
    assert (joined.member_epoch, consumers.given(joined)) == (1, {})
    consumers.harness.run_soon()
    assert consumers.describe().group_epoch == 2
    resolved = consumers.beat("a", 1)
    assert (resolved.member_epoch, consumers.given(resolved)) == (2, {"four": [0, 1, 2, 3]})
    assert joined.heartbeat_interval_ms < resolved.heartbeat_interval_ms
    consumers.harness.create("n12", 1)
    consumers.harness.create("n", 1)
    assert consumers.given(consumers.beat("a", 2)) == {"four": [0, 1, 2, 3], "n12": [0]}
    owned = {"four": [0, 1, 2, 3], "n12": [0]}
    answer = consumers.beat("a", 3, owned, subscribed_topic_regex="")
    assert consumers.given(answer) == {}
    assert consumers.beat("a", 3, {}, topics=["t"]).error_code == 0
    assert consumers.settle("a") == {"a": {"t": [0]}}


def test_a_regular_expression_that_means_nothing_leaves_the_group_in_its_epoch(consumers: Consumers) -> None:
    assert consumers.beat("a", subscribed_topic_regex="nothing.*").member_epoch == 1
    consumers.harness.run_soon()
    assert consumers.beat("a", 1).member_epoch == 1
    assert consumers.describe().group_epoch == 1
    consumers.beat("b", topics=["four"])
    consumers.harness.create("nothing-yet", 1)
    assert consumers.given(consumers.beat("a", 1)) == {"nothing-yet": [0]}


def test_a_second_member_with_the_same_regular_expression_shares_its_topics_at_once(consumers: Consumers) -> None:
    consumers.beat("a", subscribed_topic_regex="fou.")
    consumers.harness.run_soon()
    consumers.beat("a", 1)
    assert consumers.beat("b", subscribed_topic_regex="fou.").member_epoch == 3
    assert consumers.settle("a", "b") == {"a": {"four": [0, 1]}, "b": {"four": [2, 3]}}


@pytest.mark.parametrize("regex", ["(", "a**", "(?=a)", "[z-a]", "(a{1000}){1000}"])
def test_what_is_no_regular_expression_is_refused(regex: str, consumers: Consumers) -> None:
    answer = consumers.beat("a", subscribed_topic_regex=regex)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert answer.error_message
    assert consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_assignors_are_configured(configured: Configured) -> None:
    consumers = Consumers(configured({"group.consumer.assignors": "range"}))
    consumers.beat("a")
    assert consumers.describe().assignor_name == "range"
    assert consumers.beat("b", server_assignor="uniform").error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


@changed_in_4_4
def test_another_assignor_makes_another_epoch_once_most_members_wish_for_it(
    release: str, configured: Configured, *, is_new: bool
) -> None:
    consumers = Consumers(configured({"minibroker.emulate": release}))
    consumers.beat("a", server_assignor="range")
    consumers.beat("b")
    assert consumers.beat("b", 3, server_assignor="range").error_code == 0
    assert (consumers.describe().group_epoch, consumers.describe().assignor_name) == (3, "range")
    for _ in range(2):
        consumers.beat("b", 3, server_assignor="uniform")
    consumers.beat("a", 2, server_assignor="uniform")
    assert (consumers.describe().group_epoch, consumers.describe().assignor_name) == (4 if is_new else 3, "uniform")
    assert consumers.describe().assignment_epoch == consumers.describe().group_epoch


def test_sessions_and_heartbeats_are_configured(configured: Configured) -> None:
    config = {"group.consumer.min.session.timeout.ms": "1", "group.consumer.session.timeout.ms": "7000"}
    consumers = Consumers(configured({**config, "group.consumer.heartbeat.interval.ms": "6000"}))
    assert consumers.beat("a").heartbeat_interval_ms == 6_000
    consumers.harness.clock.advance(7_100)
    assert consumers.describe().members == []


def test_a_static_member_keeps_its_place_while_it_is_away(consumers: Consumers) -> None:
    consumers.beat("a", topics=["four"], instance_id="i")
    consumers.beat("b", topics=["four"])
    consumers.settle("b")
    consumers.beat("a", 2, {"four": [0, 1]}, instance_id="i")
    consumers.settle("b")
    assert consumers.beat("c", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert consumers.beat("a", -2, instance_id="i").member_epoch == -2
    assert consumers.describe().group_epoch == 3
    back = consumers.beat("c", topics=["four"], instance_id="i")
    assert (back.member_epoch, consumers.given(back)) == (3, {"four": [0, 1]})
    assert consumers.beat("a", 3, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert consumers.beat("c", 3, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("member", "epoch", "fields"),
    [
        ("", 1, {}),
        ("", -1, {}),
        ("a", -2, {}),
        ("a", -3, {}),
        ("a", 0, {"instance_id": ""}),
        ("a", 0, {"rack_id": ""}),
        ("a", 0, {"rebalance_timeout_ms": -1}),
        ("a", 0, {"owned": {"t": [0]}}),
    ],
)
@every_version
def test_what_does_not_fit_together_is_refused(
    member: str, epoch: int, fields: dict[str, object], version: int, consumers: Consumers
) -> None:
    answer = consumers.beat(member, epoch, version=version, **fields)  # type: ignore[arg-type]  # any field
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert answer.error_message


@every_version
def test_who_joins_has_to_say_what_it_reads_and_what_it_wants(version: int, consumers: Consumers) -> None:
    for field in ("topic_partitions", "subscribed_topic_names"):
        request = consumers.request("a")
        setattr(request, field, None)
        assert consumers.harness.ask(request, version).error_code == ErrorCode.INVALID_REQUEST
    request = consumers.request("a")
    request.group_id = ""
    assert consumers.harness.ask(request, version).error_code == ErrorCode.INVALID_REQUEST


def test_a_broker_may_serve_classic_groups_alone(configured: Configured) -> None:
    consumers = Consumers(configured({"group.coordinator.rebalance.protocols": "classic"}))
    assert consumers.beat("a").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert consumers.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


def test_the_rebalance_timeout_begins_with_the_wish_and_not_with_each_heartbeat(consumers: Consumers) -> None:
    consumers.beat("a", topics=["four"])
    consumers.beat("b", topics=["four"])
    for _ in range(4):
        assert consumers.beat("a", 2, {"four": [0, 1, 2, 3]}).error_code == 0
        consumers.beat("b", 3)
        consumers.harness.clock.advance(REBALANCE_MS / 4 + 1)
    assert list(consumers.assigned()) == ["b"]


@pytest.fixture
def strangers(harness: Harness) -> Consumers:
    return Consumers(harness)


@every_version
def test_a_group_is_told_with_what_its_members_read_and_are_to_read(version: int, strangers: Consumers) -> None:
    strangers.beat("a", rack_id="r", instance_id="i")
    strangers.beat("b", topics=["t", "u"])
    group = strangers.describe(version)
    assert (group.error_code, group.group_state) == (0, "Reconciling")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (3, 3, "uniform")
    a, b = sorted(group.members, key=lambda each: str(each.member_id))
    assert (a.rack_id, a.instance_id, a.member_epoch, a.client_id, a.client_host) == ("r", "i", 2, "test", "/127.0.0.1")
    assert strangers.named(a.assignment.topic_partitions) == {"t": [0]}
    assert (b.member_epoch, b.subscribed_topic_names) == (3, ["t", "u"])
    assert {each.member_type for each in group.members} == {1 if version else -1}


@every_version
def test_who_may_do_what_is_told_if_asked(version: int, strangers: Consumers) -> None:
    strangers.beat("a")
    for wants, expected in ((True, 0b110101001000), (False, -(2**31))):
        request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=wants)
        (group,) = strangers.harness.ask(request, version).groups
        assert group.authorized_operations == expected


@every_version
def test_what_is_no_such_group_is_not_found(version: int, strangers: Consumers) -> None:
    Members(strangers.harness, "classic").alone()
    request = ConsumerGroupDescribeRequest(group_ids=["classic", "nowhere", ""], include_authorized_operations=False)
    codes = [group.error_code for group in strangers.harness.ask(request, version).groups]
    assert codes == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.INVALID_GROUP_ID]


def test_groups_are_listed_with_their_types(strangers: Consumers) -> None:
    strangers.beat("a")
    Members(strangers.harness, "classic").alone()

    def listed(**filters: list[str]) -> dict[str, tuple[str, str]]:
        request = ListGroupsRequest(**{"states_filter": [], "types_filter": [], **filters})
        groups = strangers.harness.ask(request, 5).groups
        return {group.group_id: (group.group_type, group.group_state) for group in groups}

    assert listed() == {"g": ("consumer", "Stable"), "classic": ("classic", "Stable")}
    assert list(listed(types_filter=["Consumer"])) == ["g"]
    assert list(listed(types_filter=["classic"])) == ["classic"]
    assert listed(types_filter=["share"]) == {}


def test_the_older_way_to_describe_does_not_know_it(strangers: Consumers) -> None:
    strangers.beat("a")
    assert (Members(strangers.harness).describe().group_state, Members(strangers.harness).ids) == ("Dead", set())


def test_a_group_without_members_can_be_deleted(strangers: Consumers) -> None:
    strangers.beat("a")

    def delete() -> int:
        return int(strangers.harness.ask(DeleteGroupsRequest(groups_names=["g"]), 2).results[0].error_code)

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    strangers.beat("a", -1)
    assert strangers.describe().group_state == "Empty"
    assert delete() == 0
    assert strangers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    strangers.harness.restart()
    assert strangers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
