"""Operations on groups of the consumer protocol (KIP-848)."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from minibroker import Broker
from tests.broker.operations.members import member
from tests.patience import PATIENCE_S

CONFIG = {
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders:4"], config=CONFIG, timeout=PATIENCE_S) as running:
        yield running


def test_waiting_until_a_group_is_stable(broker: Broker) -> None:
    group = broker.group("g")
    with ExitStack() as members:
        for name in ("a", "b"):
            members.enter_context(member(broker, name, group_protocol="consumer"))
        description = group.wait_until_stable(members=2)
        assert (description.type, description.state, description.is_stable, description.protocol) == (
            "consumer",
            "Stable",
            True,
            "uniform",
        )
        assert sorted(each.client_id for each in description.members) == ["a", "b"]
        assert {each.client_host for each in description.members} == {"127.0.0.1"}
        assert sorted(key for each in description.members for key in each.partitions or ()) == [
            ("orders", number) for number in range(4)
        ]
        assert group.lag() == dict.fromkeys((("orders", number) for number in range(4)), 0)
        assert broker.groups() == ["g"]
    assert group.wait_until_stable(members=0).state == "Empty"


def test_a_push_has_the_coordinator_assign_anew(broker: Broker) -> None:
    group = broker.group("g")
    with member(broker, "a", group_protocol="consumer"):
        before = group.wait_until_stable(members=1).generation
        group.rebalance()
        while group.wait_until_stable(members=1).generation == before:
            pass
        assert group.describe().generation == before + 1


def test_members_come_back_after_a_reset_and_a_restored_snapshot(broker: Broker) -> None:
    group = broker.group("g")
    with member(broker, "a", group_protocol="consumer"):
        group.wait_until_stable(members=1)
        with broker.snapshot() as snapshot:
            broker.reset(keep_topics=True)
            group.wait_until_stable(members=1)
            broker.restore(snapshot)
            group.wait_until_stable(members=1)
