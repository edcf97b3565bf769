"""Groups of the consumer protocol after restarts of brokers, disk failures, and leader moves."""

from collections.abc import Callable

import pytest

from minibroker_protocol.error_codes import ErrorCode
from tests.broker.cluster.nodes import at, coordinator, others
from tests.broker.coordinators.groups.consumers import REBALANCE_MS, SESSION_MS, Consumers
from tests.broker.coordinators.groups.driver import FULL_DISK
from tests.broker.coordinators.groups.offset_requests import delete_topics
from tests.broker.harness import Harness
from tests.broker.logs.world import topic_of

Again = Callable[[Harness], None]


@pytest.fixture
def consumers(harness: Harness) -> Consumers:
    harness.create("four", 4)
    return Consumers(harness)


def test_members_continue_after_a_restart(again: Again, consumers: Consumers) -> None:
    consumers.beat("a", topics=["four"], instance_id="i", rack_id="r", server_assignor="range")
    consumers.beat("b", subscribed_topic_regex="fo.r")
    consumers.settle("b")
    consumers.beat("a", 2, {"four": [0, 1]}, instance_id="i")
    before = sorted(map(str, consumers.describe().members))
    again(consumers.harness)
    assert sorted(map(str, consumers.describe().members)) == before
    assert consumers.beat("a", 3, instance_id="i").error_code == 0
    assert consumers.given(consumers.beat("b", 3)) == {"four": [2, 3]}
    assert consumers.describe().group_epoch == 3


def test_lost_members_are_removed_without_any_request(again: Again, consumers: Consumers) -> None:
    consumers.beat("a")
    consumers.beat("b")
    again(consumers.harness)
    consumers.harness.run_soon()
    consumers.harness.clock.advance(SESSION_MS + 10)
    assert consumers.describe().group_state == "Empty"


def test_the_revocation_timeout_restarts_with_the_broker(again: Again, consumers: Consumers) -> None:
    consumers.beat("a", topics=["four"], rebalance_timeout_ms=10_000)
    consumers.beat("b", topics=["four"])
    consumers.beat("a", 2, {"four": [0, 1, 2, 3]})
    again(consumers.harness)
    consumers.harness.run_soon()
    consumers.harness.clock.advance(9_000)
    assert consumers.beat("a", 2).error_code == 0
    consumers.harness.clock.advance(2_000)
    assert consumers.beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_new_partitions_are_assigned_after_a_restart(again: Again, consumers: Consumers) -> None:
    consumers.beat("a")
    consumers.harness.core.topics.grow([(topic_of(consumers.harness), 3, None)])
    again(consumers.harness)
    assert consumers.given(consumers.beat("a", 2)) == {"t": [0, 1, 2]}


def test_an_empty_group_stays_empty_after_a_restart(consumers: Consumers) -> None:
    consumers.beat("a")
    consumers.beat("a", -1)
    consumers.harness.restart()
    assert (consumers.describe().group_state, consumers.describe().group_epoch) == ("Empty", 3)
    assert consumers.beat("a").member_epoch == 4


def test_changes_that_cannot_be_written_have_no_effect(consumers: Consumers) -> None:
    consumers.beat("a", topics=["four"])
    before = consumers.describe()
    with FULL_DISK:
        assert consumers.beat("b", topics=["four"]).error_code == ErrorCode.NOT_COORDINATOR
        assert consumers.beat("a", -1).error_code == ErrorCode.NOT_COORDINATOR
        consumers.harness.clock.advance(SESSION_MS + 10)
        assert consumers.describe() == before
    consumers.harness.clock.advance(SESSION_MS + 10)
    assert consumers.describe().members == []


def test_groups_are_deleted_with_the_offsets_topic(consumers: Consumers) -> None:
    consumers.beat("a")
    delete_topics(consumers.harness, "__consumer_offsets")
    consumers.harness.clock.advance(2 * REBALANCE_MS)
    assert consumers.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert consumers.beat("a", 2).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert consumers.beat("a").member_epoch == 2


def test_a_new_coordinator_loads_the_group(several: Harness) -> None:
    consumers = Consumers(several)
    home = coordinator(several, "g").node_id
    other = others(home)[0]
    at(several, other)
    assert consumers.beat("a").error_code == ErrorCode.NOT_COORDINATOR
    at(several, home)
    assert consumers.beat("a").member_epoch == 2
    place = several.services.groups.store.partition_of("g")
    several.core.cluster.move_leader("__consumer_offsets", place, other)
    several.run_soon()
    assert consumers.beat("a", 2).error_code == ErrorCode.NOT_COORDINATOR
    at(several, other)
    assert consumers.beat("a", 2).error_code == 0
    assert consumers.assigned() == {"a": {"t": [0]}}
