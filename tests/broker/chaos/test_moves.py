"""Moves: replicas that lag, leaders that lose what was not replicated, and brokers with an old view."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer as Client

from minibroker import Broker
from minibroker.server.faults.fault import Fault, RequestContext
from minibroker.server.faults.registry import faults_of
from minibroker.server.requests.declarations import Target
from minibroker_chaos import decisions, moves
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.records.header import read_header
from tests.broker.cluster.nodes import at, coordinator, create, described, leader, metadata, partition
from tests.broker.coordinators.transactions.producer import Producer, committed_values
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import Harness, batch
from tests.patience import PATIENCE_S

_DAY_MS: Final = 86_400_000
_T0: Final = Target(topic="t", partition=0)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Tapped]:
    """Return three brokers and a topic "t" of three partitions that needs two replicas in sync."""
    harness = Tapped(str(tmp_path / "data"), {"transaction.state.log.num.partitions": "1"}, brokers=3)
    create(harness, min_insync_replicas="2")
    create(harness, "single", factor=1)
    create(harness, "lenient", min_insync_replicas="1")
    yield harness
    harness.close()


def _produce(cluster: Harness, *values: bytes, acks: int = 1) -> None:
    for value in values:
        assert cluster.produce(batch(value), acks=acks).error_code == 0


def test_replicas_lag_where_there_are_any(cluster: Harness) -> None:
    services = cluster.services
    coordinator(cluster, "mine", 1)
    for target in (
        Target(topic="single", partition=0),
        Target(topic="gone", partition=0),
        Target(topic="t", partition=9),
        Target(topic="__transaction_state", partition=0),
        Target(),
    ):
        assert moves.LaggingReplicas.of(services, target) is None
    assert moves.LaggingReplicas.of(services, Target(topic="lenient", partition=0), out_of_sync=True) is None
    lagging = moves.LaggingReplicas.of(services, _T0, out_of_sync=True)
    assert lagging is not None
    assert moves.LaggingReplicas.of(services, _T0) is None
    _produce(cluster, b"a")
    log = partition(cluster).log
    assert (log.high_watermark, partition(cluster).isr) == (0, (1,))
    assert not lagging.fail_over(0, 1)  # No follower is in sync.
    lagging.end()
    assert (log.high_watermark, partition(cluster).isr) == (1, (1, 2, 3))


@pytest.mark.parametrize(("lost", "end"), [(0, 4), (1, 3), (2, 2), (3, 1), (9, 1)])
def test_a_failover_loses_the_last_unreplicated_batches(cluster: Harness, lost: int, end: int) -> None:
    _produce(cluster, b"a", acks=-1)
    lagging = moves.LaggingReplicas.of(cluster.services, _T0)
    assert lagging is not None
    _produce(cluster, b"b", b"c", b"d")
    assert lagging.fail_over(1, lost)
    log = partition(cluster).log
    assert (leader(cluster), log.high_watermark, log.log_end_offset) == (3, 1, end)
    lagging.end()
    assert log.high_watermark == end


def test_the_replicas_of_a_deleted_topic_lag_no_more(cluster: Harness) -> None:
    lagging = moves.LaggingReplicas.of(cluster.services, _T0)
    assert lagging is not None
    cluster.delete("t")
    assert not lagging.fail_over(0, 1)
    lagging.end()


def test_markers_are_late_in_one_partition_or_in_all(cluster: Harness) -> None:
    services = cluster.services
    assert moves.LaggingReplicas.at_markers(services, "mine", 0) is None
    coordinator(cluster, "mine", 1)
    for name, index in (("__transaction_state", 0), ("t", 1), ("t", 2)):
        cluster.core.cluster.move_leader(name, index, 1)
    cluster.run_soon()
    producer = Producer(cluster)
    assert moves.LaggingReplicas.at_markers(services, "mine", 0) is None
    logs = [partition(cluster, index).log for index in range(3)]
    for choice, held in ((0, [True] * 3), (1, [False, True, False]), (3, [True, False, False])):
        for index in range(3):
            producer.write(b"a", partition=index)
        lagging = moves.LaggingReplicas.at_markers(services, "mine", choice)
        assert lagging is not None
        assert producer.commit() == 0
        assert [log.is_held for log in logs] == held
        assert [log.last_stable_offset < log.log_end_offset for log in logs] == held
        assert producer.add(("t", 0)) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        lagging.end()
        assert all(log.last_stable_offset == log.log_end_offset for log in logs)


def test_a_transaction_may_time_out(cluster: Tapped) -> None:
    coordinator(cluster, "mine", 1)
    cluster.core.cluster.move_leader("__transaction_state", 0, 1)
    cluster.run_soon()
    producer = Producer(cluster)
    transactions = cluster.services.transactions
    assert not transactions.expire("mine")
    producer.write(b"a")
    assert transactions.expire("mine")
    assert not transactions.expire("mine")
    assert producer.send(b"b").error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert producer.commit() == ErrorCode.PRODUCER_FENCED
    assert committed_values(cluster.fetch_one(isolation_level=1)) == []


def test_one_broker_has_an_old_view(cluster: Harness) -> None:
    def leaders() -> list[int]:
        return [described(at(cluster, node_id))[0].leader_id for node_id in (1, 2, 3)]

    services = cluster.services
    faults = faults_of(services)
    assert moves.move_leader(services, "t", 0, 0)
    assert leaders() == [2, 2, 2]
    view = moves.OldView.one_of(services, 2)
    assert view is not None
    assert (view.node_id, faults.list()) == (3, ())

    def advise(context: RequestContext, *_: object) -> Fault | None:
        return view.fault if (context.api, context.node) == ("Metadata", view.node_id) else None

    faults.advisor = advise
    cluster.core.cluster.move_leader("t", 0, 1)
    create(at(cluster, 1), "new")
    faults.clear()
    assert leaders() == [1, 1, 2]
    assert [metadata(at(cluster, node_id), "new").topics[0].error_code for node_id in (2, 3)] == [
        0,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    with faults.installed(Fault(api="Metadata", stale_metadata=1, node=2)):
        assert moves.OldView.one_of(services, 2) is None
        assert metadata(at(cluster, 2), "new").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        view.end()
        assert metadata(at(cluster, 2), "new").topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    faults.advisor = None
    assert leaders() == [1, 1, 1]


@pytest.mark.parametrize("out_of_sync", [True, False])
def test_followers_that_lag_stay_out_of_the_isr(cluster: Harness, *, out_of_sync: bool) -> None:
    lagging = moves.LaggingReplicas.of(cluster.services, _T0, out_of_sync=out_of_sync)
    assert lagging is not None
    cluster.core.cluster.stop_node(2)
    cluster.core.cluster.start_node(2)
    assert partition(cluster).isr == ((1,) if out_of_sync else (1, 3))
    cluster.core.cluster.reassign(partition(cluster), (1, 2))
    assert partition(cluster).isr == (1,)
    cluster.core.cluster.move_leader("t", 0, 2)
    assert partition(cluster).isr == (1, 2)
    lagging.end()
    assert partition(cluster).isr == (1, 2)


def test_a_producer_is_forgotten_only_after_a_day_without_records(cluster: Harness) -> None:
    now_ms = cluster.clock.now_ms()
    for producer_id, age_ms, fields in (
        (5, _DAY_MS - 1, {}),
        (6, _DAY_MS, {}),
        (7, _DAY_MS, {"is_transactional": True}),
    ):
        log = partition(cluster).log
        records = batch(
            b"a", timestamp=now_ms - age_ms, producer_id=producer_id, producer_epoch=0, base_sequence=0, **fields
        )
        header = read_header(records)
        log.append(memoryview(records), header, 0, now_ms)
        log.commit()
    assert [moves.forget_producer(cluster.services, _T0, number) for number in (6, 5, 7, 8)] == [True, *[False] * 3]
    assert set(partition(cluster).log.producers.active) == {5, 7}
    assert not moves.forget_producer(cluster.services, Target(), 5)


def test_records_without_acks_all_vanish_and_the_rest_keeps_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_RATES", (10, 10))
    monkeypatch.setattr(decisions, "_ON", 1)
    sent = [f"{number}".encode() for number in range(10)]
    vanished = 0
    with Broker(topics=["t"], brokers=3, config={"default.replication.factor": 3, "min.insync.replicas": 2}) as broker:
        for seed in range(3):
            broker.reset()
            with broker.chaos(seed=seed, only=["unreplicated-records-lost"]) as chaos:
                client = Client({"bootstrap.servers": broker.bootstrap_servers, "acks": 1, "log_level": 0})
                for value in sent:
                    client.produce("t", value)
                    assert client.flush(PATIENCE_S) == 0
                chaos.settle()
                left = [record.value or b"" for record in broker.records("t")]
            assert chaos.steps
            assert left == sorted(set(left)) or len(left) > len(set(left))
            vanished += len(set(sent) - set(left))
    assert vanished
