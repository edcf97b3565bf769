"""Operations on share groups (KIP-932), with librdkafka's share consumer."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import AcknowledgeType

from minibroker import Broker
from minibroker.cluster.errors import ConflictError, WaitTimeoutError
from minibroker.operations.share_groups import InFlightRecords, SharePartitionDescription
from tests.broker.operations.members import SHARING, from_the_start, member, polled, sharer
from tests.patience import PATIENCE_S

PLACE = ("jobs", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["jobs"], config=SHARING, journal=True, timeout=PATIENCE_S) as running:
        from_the_start(running)
        yield running


def test_what_a_group_has_in_flight(broker: Broker) -> None:
    group = broker.group("g")
    assert group.share_partitions() == {}
    broker.produce("jobs", "a", "b", "c", "d")
    with sharer(broker) as consumer:
        description = group.wait_until_stable(members=1)
        assert (description.type, description.state, description.protocol) == ("share", "Stable", "simple")
        (only,) = description.members
        assert (only.client_id, only.partitions) == ("sharer", (PLACE,))
        records = polled(consumer, 4)
        (described,) = group.share_partitions().values()
        acquired = InFlightRecords(0, 3, "ACQUIRED", 1, only.member_id)
        assert described == SharePartitionDescription(start_offset=0, lag=4, in_flight=(acquired,))
        assert (described.acquired, described.delivery_counts) == (4, dict.fromkeys(range(4), 1))
        assert (group.committed(), group.lag()) == ({PLACE: 0}, {PLACE: 4})
        kinds = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT, AcknowledgeType.REJECT
        for record, kind in zip(records, kinds, strict=True):
            consumer.acknowledge(record, kind)
        assert set(consumer.commit_sync(PATIENCE_S).values()) == {None}
    group.wait_until_stable(members=0)
    described = group.share_partitions()[PLACE]
    assert (described.start_offset, described.lag, described.acquired) == (1, 1, 0)
    assert [(each.first_offset, each.last_offset, each.state) for each in described.in_flight] == [
        (1, 1, "AVAILABLE"),
        (2, 2, "ACKNOWLEDGED"),
        (3, 3, "ARCHIVED"),
    ]
    assert (group.lag(), group.committed(), group.describe().state) == ({PLACE: 1}, {PLACE: 1}, "Empty")


def test_a_wait_for_a_group_ends_when_it_is_done_with_all_records(broker: Broker) -> None:
    broker.produce("jobs", "a", "b")
    group = broker.group("g")
    with sharer(broker) as consumer, ThreadPoolExecutor() as pool:
        first, second = polled(consumer, 2)
        consumer.acknowledge(second)
        consumer.acknowledge(first, AcknowledgeType.RELEASE)
        consumer.commit_sync(PATIENCE_S)
        with pytest.raises(WaitTimeoutError, match=r"jobs-0: done before 0, end 2, 1 behind"):
            group.wait_until_caught_up(timeout=0)
        waiting = pool.submit(group.wait_until_caught_up)
        (again,) = polled(consumer, 1)
        assert (again.offset(), group.share_partitions()[PLACE].delivery_counts) == (0, {0: 2})
        consumer.acknowledge(again)
        consumer.commit_sync(PATIENCE_S)
        assert waiting.result(PATIENCE_S) == {PLACE: 2}


def test_a_group_that_has_not_begun_to_read_is_not_caught_up(broker: Broker) -> None:
    broker.produce("jobs", "a")
    broker.faults.add(api="ShareFetch", error="COORDINATOR_LOAD_IN_PROGRESS")
    with sharer(broker):
        broker.group("g").wait_until_stable(members=1)
        with pytest.raises(WaitTimeoutError, match="jobs-0: no member has begun to read, end 1"):
            broker.group("g").wait_until_caught_up(timeout=0)
        assert broker.group("g").lag() == {}


def test_members_come_back_after_a_reset_and_a_restored_snapshot(broker: Broker) -> None:
    group = broker.group("g")
    broker.produce("jobs", "a", "b")
    with sharer(broker) as consumer:
        first, second = polled(consumer, 2)
        consumer.acknowledge(first)
        consumer.acknowledge(second, AcknowledgeType.RELEASE)
        consumer.commit_sync(PATIENCE_S)
    with broker.snapshot() as snapshot:
        broker.reset(keep_topics=True)
        assert group.share_partitions() == {}
        broker.restore(snapshot)
        described = group.share_partitions()[PLACE]
        assert (described.lag, described.delivery_counts) == (1, {1: 1})
        with sharer(broker) as consumer:
            (again,) = polled(consumer, 1)
            assert (again.value(), again.delivery_count()) == (b"b", 2)
            consumer.acknowledge(again)


def test_faults_and_the_journal_know_the_requests_of_members(broker: Broker) -> None:
    broker.produce("jobs", "a")
    with (
        broker.fault(api="ShareAcknowledge", error="COORDINATOR_NOT_AVAILABLE", times=1) as fault,
        sharer(broker) as consumer,
    ):
        (record,) = polled(consumer, 1)
        consumer.acknowledge(record)
        consumer.commit_sync(PATIENCE_S)
        assert fault.fired == 1
    (fetched, *_) = broker.requests.entries(api="ShareFetch", topic="jobs", group="g")
    assert not fetched.error_codes
    (failed,) = broker.requests.entries(api="ShareAcknowledge", group="g", error="COORDINATOR_NOT_AVAILABLE")
    assert failed.topics == {"jobs"}


def test_a_group_of_consumers_has_no_share_partitions(broker: Broker) -> None:
    with member(broker, "a", topic="jobs"):
        broker.group("g").wait_until_stable(members=1)
        with pytest.raises(ConflictError, match="group 'g' is of type classic, not share"):
            broker.group("g").share_partitions()
