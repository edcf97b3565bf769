"""Expiration of committed offsets, by Kafka's rules (KIP-211)."""

from collections.abc import Callable
from typing import Any

import pytest

from minibroker.coordinators.groups.classic.group import GroupState
from tests.broker.coordinators.groups.driver import FULL_DISK
from tests.broker.coordinators.groups.offset_requests import MEMBER, commit, offsets_of, with_members
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness
from tests.broker.logs.world import MINUTE_MS, log_of, pass_time

Make = Callable[[dict[str, str]], Harness]
T0, U0 = ("t", 0), ("u", 0)


@pytest.fixture
def harness(configured: Make) -> Harness:
    """Return a broker with topics "t" and "u" that keeps offsets for ten minutes and checks them every minute."""
    new_harness = configured({"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": "60000"})
    new_harness.create("u")
    return new_harness


def test_offsets_of_a_client_without_a_group_expire_after_the_commit(harness: Harness) -> None:
    commit(harness, {T0: 1})
    pass_time(harness, 5 * MINUTE_MS)
    commit(harness, {U0: 2})
    pass_time(harness, 5 * MINUTE_MS - 1)
    assert offsets_of(harness) == {T0: 1, U0: 2}
    pass_time(harness, 1)
    assert offsets_of(harness) == {U0: 2}
    pass_time(harness, 5 * MINUTE_MS)
    assert harness.services.groups.store.get("g") is None


def test_expired_offsets_stay_deleted_after_a_restart(harness: Harness) -> None:
    commit(harness, {T0: 1})
    pass_time(harness, 11 * MINUTE_MS)
    harness.crash()
    assert offsets_of(harness) == {}
    assert harness.services.groups.store.get("g") is None


def test_a_group_keeps_its_offsets_for_the_retention_after_its_last_member_left(harness: Harness) -> None:
    with_members(harness)
    commit(harness, {T0: 1}, **MEMBER)
    pass_time(harness, 15 * MINUTE_MS)
    group = with_members(harness, members=())
    group.state_timestamp_ms = harness.clock.now_ms()
    assert offsets_of(harness) == {T0: 1}
    pass_time(harness, 9 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 1}
    pass_time(harness, 2 * MINUTE_MS)
    assert offsets_of(harness) == {}
    assert group.state is GroupState.DEAD


def test_a_groups_record_is_deleted_with_its_last_offset(harness: Harness) -> None:
    group = with_members(harness, members=())
    harness.services.groups.store.save_group(group)
    commit(harness, {T0: 1})
    pass_time(harness, 11 * MINUTE_MS)
    log = log_of(harness, "__consumer_offsets", harness.services.groups.store.partition_of("g"))
    assert log.log_end_offset == 4  # The group, the offset and two tombstones.
    harness.restart()
    offsets_of(harness)
    assert harness.services.groups.store.get("g") is None


def test_a_group_without_a_state_timestamp_expires_after_its_commits(harness: Harness) -> None:
    group = with_members(harness, members=())
    group.state_timestamp_ms = None
    commit(harness, {T0: 1})
    pass_time(harness, 5 * MINUTE_MS)
    commit(harness, {U0: 2})
    pass_time(harness, 5 * MINUTE_MS)
    assert offsets_of(harness) == {U0: 2}


def test_offsets_of_subscribed_topics_are_kept_and_others_expire(harness: Harness) -> None:
    with_members(harness, topics=("u",))
    commit(harness, {T0: 1, U0: 2}, **MEMBER)
    pass_time(harness, 11 * MINUTE_MS)
    assert offsets_of(harness) == {U0: 2}


def test_nothing_expires_while_a_group_rebalances(harness: Harness) -> None:
    group = with_members(harness, topics=("u",))
    commit(harness, {T0: 1}, **MEMBER)
    group.move_to(GroupState.PREPARING_REBALANCE)
    pass_time(harness, 30 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 1}


@pytest.mark.parametrize("fields", [{"subscription": b"?"}, {"protocol_type": "connect"}], ids=str)
def test_nothing_expires_while_the_subscriptions_are_unknown(harness: Harness, fields: dict[str, Any]) -> None:
    with_members(harness, **fields)
    commit(harness, {T0: 1, U0: 2}, **MEMBER)
    pass_time(harness, 30 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 1, U0: 2}


def test_an_offset_with_its_own_retention_expires_after_it(harness: Harness) -> None:
    commit(harness, {T0: 1}, version=3, retention_time_ms=2 * MINUTE_MS)
    commit(harness, {U0: 2}, version=3, retention_time_ms=60 * MINUTE_MS)
    pass_time(harness, 2 * MINUTE_MS)
    assert offsets_of(harness) == {U0: 2}
    pass_time(harness, 20 * MINUTE_MS)
    harness.restart()
    assert offsets_of(harness) == {U0: 2}
    pass_time(harness, 38 * MINUTE_MS)
    assert offsets_of(harness) == {}


def test_an_offset_in_an_open_transaction_does_not_expire(harness: Harness) -> None:
    commit(harness, {T0: 1})
    producer = Producer(harness, timeout_ms=15 * MINUTE_MS)
    producer.add_offsets("g")
    pass_time(harness, 9 * MINUTE_MS)
    producer.commit_offset("g", 7)
    pass_time(harness, 3 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 1}
    producer.commit()
    pass_time(harness, 2 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 7}
    pass_time(harness, 10 * MINUTE_MS)
    assert offsets_of(harness) == {}


def test_an_empty_group_without_offsets_is_deleted(harness: Harness) -> None:
    group = harness.services.groups.store.get_or_create("g")
    pass_time(harness, MINUTE_MS)
    assert (harness.services.groups.store.get("g"), group.state) == (None, GroupState.DEAD)
    assert harness.core.topics.get("__consumer_offsets") is None


def test_expired_offsets_stay_until_their_tombstones_are_written(harness: Harness) -> None:
    commit(harness, {T0: 1})
    with FULL_DISK:
        pass_time(harness, 11 * MINUTE_MS)
    assert offsets_of(harness) == {T0: 1}
    pass_time(harness, MINUTE_MS)
    assert offsets_of(harness) == {}
