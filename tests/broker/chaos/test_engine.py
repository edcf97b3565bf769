"""Chaos on a running broker: what a correct service feels, and what it never loses."""

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final
from unittest.mock import Mock

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from minibroker import AsyncBroker, Broker, NotFoundError, WaitTimeoutError
from minibroker.cluster.hooks import FaultHit
from minibroker_chaos import decisions, engine
from minibroker_chaos.check.fact_types import Step as StepFact
from minibroker_chaos.check.facts import facts_of
from minibroker_chaos.rows import ROWS, Row
from minibroker_chaos.steps import VERSION, ChaosError, Step
from minibroker_lab.page.rows import Events
from tests.patience import PATIENCE_S

COUNT: Final = 20
_CLUSTER: Final[dict[str, Any]] = {
    "brokers": 3,
    "config": {"default.replication.factor": 3, "min.insync.replicas": 2, "offsets.topic.num.partitions": 1},
}
_ELSEWHERE: Final = frozenset(
    {
        "acknowledgement-answer-lost",
        "black-hole",
        "fetch-session-gone",  # librdkafka begins no session
        "member-removed",
        "member-stalled",
        "producer-forgotten",
        "topic-not-known-yet",
        "transaction-timed-out",
        "unanswered-append-failed",
    }
)
"""Rows that this service cannot meet, or that need minutes or an application that joins again."""
_MEMBER: Final = {"group.id": "g", "heartbeat.interval.ms": 100, "auto.offset.reset": "earliest"}
_QUICK: Final = frozenset({"answer-lost", "broker-bounced", "rebalance"})


def _quiet(servers: str, **settings: Any) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "log_level": 0, "reconnect.backoff.max.ms": 200, **settings}


def _feed(servers: str, **options: Any) -> None:
    producer = Producer(_quiet(servers, **{"enable.idempotence": True, "client.id": "feeder", **options}))
    for number in range(COUNT):
        producer.produce("in", f"v{number}", f"k{number % 3}")
    assert producer.flush(PATIENCE_S) == 0


def _serve(servers: str, *, commits_in_transactions: bool = True) -> None:
    """Copy all records in transactions of five, and commit the offsets with them and again in the group."""
    consumer = Consumer(
        _quiet(servers, **{"group.id": "g", "auto.offset.reset": "earliest", "enable.auto.commit": False})
    )
    producer = Producer(_quiet(servers, **{"transactional.id": "t", "transaction.timeout.ms": 20_000}))
    _insist(lambda: producer.init_transactions(PATIENCE_S))
    consumer.subscribe(["in"])
    copied = 0
    while copied < COUNT:
        messages = [message for message in consumer.consume(5, 0.2) if message.error() is None]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            producer.produce("out", message.value(), message.key())
        if commits_in_transactions:
            _insist(
                lambda: producer.send_offsets_to_transaction(
                    consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), PATIENCE_S
                )
            )
        _insist(lambda: producer.commit_transaction(PATIENCE_S))
        _insist(lambda: consumer.commit(asynchronous=False))
        copied += len(messages)
    consumer.close()


def _insist(call: Any) -> None:
    """Repeat a call as long as the client says that it may be repeated."""
    for _ in range(20):
        try:
            call()
        except KafkaException as error:
            cause = error.args[0]
            if not (cause.retriable() or cause.code() in {14, 15, 16, 27, -168}):
                raise
        else:
            return


def _values(broker: Broker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records(topic))


@pytest.fixture
def broker() -> Iterator[Broker]:
    """Three brokers with the topics of the service."""
    with Broker(topics=["in:2", "out:2"], **_CLUSTER) as running:
        yield running


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=() if row.name in _QUICK else pytest.mark.torture)
        for row in ROWS
        if row.act is not None and row.name not in _ELSEWHERE
    ],
)
def test_each_misbehaviour_alone_loses_and_doubles_nothing(
    row: Row, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decisions, "_RATES", (0.5 / row.weight, 0.5 / row.weight))
    monkeypatch.setattr(decisions, "_ON", 1)
    for seed in range(6, 12):  # A program that is quickly done has few points of some kinds.
        broker.reset()
        with broker.chaos(seed=seed, only=[row.name]) as chaos:
            _feed(broker.bootstrap_servers)
            # In a transaction, librdkafka waits forever for a group coordinator that the metadata has once not named.
            _serve(broker.bootstrap_servers, commits_in_transactions=row.name != "broker-bounced")
            chaos.settle()
            assert _values(broker, "in") == _values(broker, "out") == sorted(f"v{n}".encode() for n in range(COUNT))
        if chaos.steps:
            assert {step.row for step in chaos.steps} == {row.name}
            return
    assert row.name == "join-answer-lost"


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.torture)])
def test_a_run_is_repeated_from_its_steps(seed: int, broker: Broker) -> None:
    with broker.chaos(seed=seed, only=["answer-lost", "not-leader", "coordinator-loading"]) as chaos:
        _feed(broker.bootstrap_servers)
        _serve(broker.bootstrap_servers)
    broker.reset()
    with broker.chaos(steps=chaos.to_json()) as again:
        _feed(broker.bootstrap_servers)
        _serve(broker.bootstrap_servers)
    exact, near, missed = again.met
    assert exact + near + missed == len(chaos.steps)
    assert len(again.steps) == exact + near
    assert missed <= len(chaos.steps) / 4
    assert all(step.number for step in again.steps)


def test_a_lost_answer_is_felt_and_the_record_is_there_once(broker: Broker) -> None:
    step = Step("answer-lost", "", 0)
    with broker.chaos(seed=0, profile="network", only=["black-hole"]) as chaos:
        assert (chaos.steps, chaos.is_felt) == ([], False)
        assert (
            chaos.report()[-1]
            == "not exercised: seed 0 drew nothing for the requests that came; take another seed, or send more"
        )
    _feed(broker.bootstrap_servers)
    label = "Produce of 'k0' (a8304246) to in-1 by feeder"
    broker.reset()
    with broker.chaos(steps=[step, Step("answer-lost", label)]) as chaos:
        _feed(broker.bootstrap_servers)
    (happened,) = chaos.steps
    assert (happened.row, happened.point) == ("answer-lost", label)
    assert "reconnected" in happened.felt
    assert chaos.is_felt
    assert chaos.met == (1, 0, 1)
    assert any(line.endswith("1 not met") for line in chaos.report())
    assert not any("connected before the run" in line for line in chaos.report())
    assert len(_values(broker, "in")) == COUNT


def test_a_refused_commit_is_felt_by_a_client_that_then_gives_up(broker: Broker) -> None:
    broker.produce("in", "order")
    at = "Produce of 'bill' (72834dc8) to out-0 by biller"
    stall = Step("member-stalled", at, parameters={"member": 0, "requests": 4})
    with broker.chaos(steps=[stall]) as chaos:
        consumer = Consumer(
            {
                **_quiet(broker.bootstrap_servers, **{"client.id": "reader", "group.id": "billing"}),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 30_000,
            }
        )
        consumer.subscribe(["in"])
        order = consumer.poll(PATIENCE_S)
        assert order is not None
        producer = Producer(_quiet(broker.bootstrap_servers, **{"client.id": "biller"}))
        producer.produce("out", b"bill", partition=0)
        producer.flush(PATIENCE_S)
        with pytest.raises(KafkaException):
            consumer.commit(message=order, asynchronous=False)
        assert chaos.is_felt, chaos.report()
        assert not any("not exercised" in line for line in chaos.report())
        consumer.close()


@pytest.mark.parametrize("row", ["answer-late", "leader-moved", "old-metadata"])
def test_the_journal_the_time_line_and_checks_name_each_step(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decisions, "_RATES", (50, 50))
    monkeypatch.setattr(decisions, "_ON", 1)
    events = Events()
    with Broker(topics=["in:2"], journal=True, **_CLUSTER) as broker:
        events.watch(broker.services.core)
        with broker.chaos(seed=3, only=[row]) as chaos:
            _feed(broker.bootstrap_servers)
        steps = [str(step.pending()) for step in chaos.steps]
        assert [f"Chaos: {step}." for step in steps] == [event.text for event in events.all() if event.kind == "chaos"]
        noted = [fact.text for fact in facts_of(broker.services).of(StepFact) if not fact.text.startswith("the leader")]
        assert noted == steps
        entries = [entry for entry in broker.requests if entry.chaos is not None]
        # Each Metadata request that an old view answers names the step that began it.
        named = dict.fromkeys(entry.to_json()["chaos"] for entry in entries)
        assert list(named) == [str(step) for step in chaos.steps]
        assert all(f"chaos {entry.chaos.row}" in str(entry) for entry in entries)
        assert {step.row for step in chaos.steps} == {row}
        assert not [event for event in events.all() if event.kind == "fault"]


def test_what_follows_a_refused_first_batch_is_refused_too(broker: Broker) -> None:
    step = Step("not-leader", "Produce of 'k0' (a8304246) to in-1 by feeder")
    hits: list[FaultHit] = []
    broker.services.core.hooks.fault_hit.subscribe(hits.append)
    with broker.chaos(steps=[step]) as chaos:
        _feed(broker.bootstrap_servers, **{"batch.num.messages": 1})
    assert chaos.met == (1, 0, 0)
    assert not hits
    assert _values(broker, "in") == sorted(f"v{number}".encode() for number in range(COUNT))


def test_a_request_of_a_stalled_member_waits_until_the_group_goes_on() -> None:
    stalled = Step("member-stalled", "Produce of 'v' (f2d11d06) to in-0 by app", 0, {"member": 0, "requests": 4})
    with Broker(topics=["in"], journal=True) as broker, broker.chaos(steps=[stalled]) as chaos:
        members = [Consumer(_quiet(broker.bootstrap_servers, **_MEMBER)) for _ in range(2)]
        for member in members:
            member.subscribe(["in"])
        while True:
            for member in members:
                member.poll(0.01)
            with suppress(WaitTimeoutError):
                broker.group("g").wait_until_stable(2, timeout=0.1)
                break
        producer = Producer(_quiet(broker.bootstrap_servers, **{"client.id": "app"}))
        producer.produce("in", b"v")
        while producer.flush(0.01):
            for member in members:
                member.poll(0.01)
        (produced,) = broker.requests.entries(api="Produce")
        assert any(entry.number > produced.number for entry in broker.requests.entries(api="JoinGroup"))
        for member in members:
            member.close()
        (step,) = chaos.steps
        assert "joined its group again" in step.felt


def test_chaos_ends_although_the_broker_cannot_be_judged(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, pytest.raises(OSError, match="damaged"), broker.chaos(seed=1):
        patch.setattr(engine, "find_broker_violations", Mock(side_effect=OSError("damaged")))
    with broker.chaos(seed=2):
        pass


def test_a_broker_may_begin_with_chaos() -> None:
    with Broker(topics=["in:2"], chaos="7:network") as broker:
        chaos = broker.chaos()
        assert len(broker.brokers) == 3
        assert chaos.to_json() == {"chaos": VERSION, "seed": 7, "profile": "network", "steps": []}
        assert broker.topic_config("in")["min.insync.replicas"] == "2"
        with broker.chaos(seed=1):
            assert chaos.to_json()["seed"] == 1
        assert chaos.to_json()["seed"] == 7
        _feed(broker.bootstrap_servers)
        broker.reset()
        assert chaos.steps == []
    with pytest.raises(ChaosError, match="not a seed"):
        Broker(chaos="network")


def test_a_restored_snapshot_begins_the_run_again(broker: Broker) -> None:
    step = Step("answer-lost", "Produce of 'k0' (a8304246) to in-1 by feeder")
    with broker.snapshot() as empty, broker.chaos(steps=[step]) as chaos:
        for _ in range(2):
            _feed(broker.bootstrap_servers)
            assert [happened.row for happened in chaos.steps] == ["answer-lost"]
            broker.restore(empty)
            assert chaos.steps == []


def test_wrong_arguments_are_explained(broker: Broker) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "either a seed or steps"),
        ({"seed": 1, "profile": "storm"}, "there is no 'storm'"),
        ({"seed": 1, "only": ["answer-lots"]}, "did you mean answer-lost"),
        ({"steps": [Step("no-such-row", "p")]}, "no-such-row"),
    ]
    for arguments, expected in cases:
        with pytest.raises(ChaosError, match=expected), broker.chaos(**arguments):
            pass
    with pytest.raises(NotFoundError, match="there is no chaos"):
        broker.chaos().report()


def test_an_asynchronous_broker_has_the_same() -> None:
    async def run() -> list[str]:
        async with AsyncBroker(topics=["in"]) as broker:
            with pytest.raises(TypeError, match="async with"), broker.chaos(seed=1):
                pass
            async with broker.chaos(seed=1) as chaos:
                await chaos.settle()
            return chaos.report()

    assert asyncio.run(run())[0] == f"chaos {VERSION}: seed 1, profile default, 1 broker"
