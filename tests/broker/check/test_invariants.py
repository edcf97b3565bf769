"""A broker's own bugs are told apart from those of applications."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from minibroker import Broker
from minibroker.server.requests.fetch import build_failed_partition
from minibroker_chaos import engine
from minibroker_chaos.check.fact_types import Assignment, Commit
from minibroker_chaos.check.facts import facts_of
from minibroker_chaos.check.invariants import find_broker_violations, find_violations
from minibroker_chaos.check.logs import Batch, PartitionLog
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.internal_topics import CONSUMER_OFFSETS
from minibroker_protocol.messages.fetch import FetchableTopicResponse, FetchResponse
from minibroker_protocol.messages.log_offsets import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from tests.broker.check.applications import fill, transactional
from tests.broker.cluster.nodes import coordinator, create
from tests.broker.faults.tapped import Tapped
from tests.broker.harness import batch as records
from tests.broker.harness import fetch_request, produce_request


def batch(offset: int, epoch: int, sequence: int, leader_epoch: int = 0, **fields: Any) -> Batch:
    plain = Batch(offset, offset, 1, epoch, sequence, leader_epoch, False, False, True, 2**62)
    return plain._replace(**fields)


def test_a_broker_that_keeps_its_promises_has_no_violations() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 4)
        transactional(broker, 4)

        async def find() -> list[str]:
            return find_broker_violations(broker.services)

        assert broker.wait(find()) == []


def test_each_broken_promise_is_named() -> None:
    good = PartitionLog(("in", 0), 0, 3, 3, False, False, 0)
    broken = {
        "I22": replace(good, start=4),
        "I13": replace(good, batches=[batch(0, 0, 0, 2), batch(1, 0, 1, 1)]),
        "I18": replace(good, batches=[batch(0, 1, 0), batch(1, 0, 1)]),
        "I5": replace(good, batches=[batch(0, 0, 0), batch(1, 0, 0)]),
        "I3": replace(good, batches=[batch(0, 0, 0), batch(2, 0, 1)]),
        "I17": replace(good, batches=[batch(0, 0, 0, is_transactional=True)]),
    }
    with Broker(check=True) as broker:
        facts = facts_of(broker.services)
        for name, log in broken.items():
            (found,) = find_violations([log], facts)
            assert found.startswith(name)
        facts.violations.append("I11: an end went back")
        assert list(find_violations([good], facts)) == ["I11: an end went back"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Tapped]:
    """Return three brokers with a topic, and facts that are kept."""
    brokers = Tapped(str(tmp_path / "data"), brokers=3)
    create(brokers)
    facts_of(brokers.services)
    yield brokers
    brokers.close()


def found(cluster: Tapped) -> list[str]:
    """Return the rules that were broken."""
    return [text.partition(":")[0] for text in find_broker_violations(cluster.services)]


def test_a_failover_must_not_lose_what_was_confirmed_or_read(cluster: Tapped) -> None:
    for value, acks in ((b"a", -1), (b"b", 1), (b"c", 1)):
        cluster.ask(produce_request(records(value), acks=acks), 9)
    cluster.fetch(("t", 0, 1), version=11)
    assert found(cluster) == []
    log = cluster.topic().partitions[0].log
    log.truncate_to(0, cluster.clock.now_ms())
    cluster.core.cluster.move_leader("t", 0, 2)
    cluster.asks = 2
    for value in (b"d", b"e", b"f"):
        cluster.ask(produce_request(records(value)), 9)
    assert found(cluster) == ["I1", "I2"]


def test_a_producer_may_be_forgotten_only_after_a_day(cluster: Tapped) -> None:
    log = cluster.topic().partitions[0].log
    for age_ms, expected in ((86_400_000, []), (86_399_000, ["I5, I6"])):
        log.truncate_fully_and_start_at(0, 0)
        for _ in range(2):
            log.producers.truncate_fully_and_start_at(log.log_end_offset)
            old = cluster.clock.now_ms() - age_ms
            fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
            cluster.ask(produce_request(records(b"a", timestamp=old, **fields)), 9)
        assert found(cluster) == expected


def test_a_log_must_not_start_below_an_answered_start(cluster: Tapped) -> None:
    cluster.ask(produce_request(records(b"a")), 9)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
    cluster.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1), 2)
    assert found(cluster) == []
    cluster.topic().partitions[0].log.log_start_offset = 0
    assert found(cluster) == ["I22"]


def test_a_producer_id_and_epoch_is_given_once(cluster: Tapped) -> None:
    facts = facts_of(cluster.services)

    def give(transactional_id: str | None, producer_id: int, epoch: int, expected: int = -1) -> list[str]:
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=1, producer_id=expected, producer_epoch=0
        )
        response = SimpleNamespace(error_code=0, producer_id=producer_id, producer_epoch=epoch)
        facts.violations.clear()
        facts.initialized(_entry(), request, response, _entry())
        return [text[:3] for text in facts.violations]

    assert give("x", 1, 0) == give("x", 1, 1) == give("x", 1, 1, expected=1) == give(None, 2, 0) == []
    assert give("x", 1, 1) == give("y", 1, 2) == give(None, 2, 0) == ["I23"]


def test_a_committed_offset_stays(cluster: Tapped) -> None:
    coordinator(cluster, "g")
    cluster.core.cluster.move_leader(CONSUMER_OFFSETS, _partition_of_group(cluster), 1)
    cluster.run_soon()
    assert cluster.ask(_commit_request(5), 8).topics[0].partitions[0].error_code == 0
    assert found(cluster) == []
    cluster.send(_commit_request(3), 8)  # Past the observers.
    assert found(cluster) == ["I8"]


def _partition_of_group(cluster: Tapped) -> int:
    return cluster.services.groups.store.log.partition_of("g")


def _commit_request(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topic = OffsetCommitRequestTopic(name="t", partitions=[part])
    return OffsetCommitRequest(group_id="g", topics=[topic])


def test_a_commit_must_not_be_of_an_old_generation(cluster: Tapped) -> None:
    facts = facts_of(cluster.services)

    def assign(generation: int, **fields: Any) -> None:
        facts._add(Assignment, group="g", member="m", generation=generation, partitions=(), **fields)

    def commit(generation: int, **fields: Any) -> None:
        about = {"group": "g", "partition": ("t", 0), "offset": 1, "member": "m", "connection": "c"}
        facts._add(Commit, generation=generation, is_answered=True, **{**about, **fields})

    assign(2)
    assign(9, is_classic=False)
    for generation in (2, -1, 3):
        commit(generation)
    commit(1, is_transactional=True)
    assert found(cluster) == []
    commit(1)
    assert found(cluster) == ["I9"]
    assign(-1)
    commit(2)
    assert found(cluster) == ["I9"] * 2
    assign(4)
    commit(4)
    assert found(cluster) == ["I9"] * 2


def test_an_offset_within_the_log_is_in_range(cluster: Tapped) -> None:
    facts = facts_of(cluster.services)
    cluster.ask(produce_request(records(b"a")), 9)
    for offset, rules in ((2, 0), (1, 1), (0, 2)):
        refused = build_failed_partition(0, ErrorCode.OFFSET_OUT_OF_RANGE)
        response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[refused])])
        facts.fetched(_entry(), fetch_request(("t", 0, offset)), response, _entry())
        assert [text[:3] for text in facts.violations] == ["I12"] * rules


def test_a_share_group_gets_nothing_that_it_has_accepted(cluster: Tapped) -> None:
    facts = facts_of(cluster.services)
    acks = [SimpleNamespace(first_offset=0, last_offset=2, acknowledge_types=[1])]
    topic = cluster.topic()

    def fetch(batches: list[Any], *acquired: tuple[int, int]) -> int:
        wanted = SimpleNamespace(partition_index=0, acknowledgement_batches=batches)
        request = SimpleNamespace(
            group_id="g", member_id="m", topics=[SimpleNamespace(topic_id=topic.id, partitions=[wanted])]
        )
        ranges = [SimpleNamespace(first_offset=first, last_offset=last) for first, last in acquired]
        data = SimpleNamespace(partition_index=0, error_code=0, acknowledge_error_code=0, acquired_records=ranges)
        response = SimpleNamespace(responses=[SimpleNamespace(topic_id=topic.id, partitions=[data])], error_code=0)
        facts.share_fetched(_entry(), request, response, cast("Any", None))
        return len(facts.violations)

    assert (fetch([], (0, 3)), fetch(acks, (3, 4)), fetch([], (2, 3))) == (0, 0, 1)
    facts.reset_offsets(_entry(), SimpleNamespace(group_id="g"), None, cast("Any", None))
    assert fetch([], (0, 3)) == 1


def test_a_run_with_a_violation_is_void(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker(chaos=3) as broker:
        monkeypatch.setattr(engine, "find_broker_violations", lambda _: ["I1: a record is gone"])
        chaos = broker.chaos()
        chaos.settle()
        lines = chaos.report()
    assert lines[0].startswith("chaos 1: seed 3")
    assert "void, because of a bug of minibroker; please report it with the seed: I1: a record is gone" in lines


def _entry() -> Any:
    return SimpleNamespace(number=7, client_id="c", fault=None, origin=SimpleNamespace(client="c"))
