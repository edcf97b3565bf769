"""Wrong applications are found, each by the check that is about its bug, and with certainty where the broker saw it."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer  # type: ignore[import-untyped]  # it has no types
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from minibroker import Broker
from minibroker_chaos.check.facts import facts_of
from minibroker_chaos.check.results import CheckFailedError, Finding
from tests.broker.check.applications import (
    consumer,
    copy,
    fill,
    keep_polling,
    producer,
    read,
    send_offsets,
    serial,
    transactional,
)
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.clients.kafka_python_client import TopicPartition as KafkaPythonPartition
from tests.patience import PATIENCE_S


@contextmanager
def broker_with_inputs(count: int, *, partitions: int = 1, journal: int = 0) -> Iterator[Broker]:
    """Start a broker with `count` inputs and an empty `out`."""
    with Broker(check=True, topics=[f"in:{partitions}", "out"], journal=journal) as broker:
        fill(broker, count)
        yield broker


def findings(broker: Broker, check: str, **about: str) -> list[Finding]:
    """Return what a check finds. All of it must be certain, and every time line short."""
    with pytest.raises(CheckFailedError) as failure:
        broker.check.run(check, "in", "out", **about)  # type: ignore[arg-type]  # a dict of texts
    result = failure.value.result
    assert result.outcome == "failed"
    assert result.certain == result.findings, result
    assert all(1 < len(finding.time_line) <= 20 for finding in result.findings)
    for finding in result.findings:
        numbers = [int(number) for number in re.findall(r"^request (\d+):", "\n".join(finding.time_line), re.MULTILINE)]
        assert numbers == sorted(numbers)
    return list(result.findings)


def offsets(found: list[Finding]) -> list[int]:
    """Return the offsets of findings."""
    return [finding.offset for finding in found]


def test_a_commit_before_the_work_is_ahead_and_loses_what_a_crash_interrupts() -> None:
    with broker_with_inputs(3) as broker:
        with consumer(broker) as opened:
            output = producer(broker)
            for message in read(opened, 3):
                opened.commit(message=message, asynchronous=False)
                if message.value() != b"2":
                    copy(output, message)
        assert offsets(findings(broker, "no_commit_ahead")) == [0, 1, 2]
        (lost,) = findings(broker, "no_loss")
        assert lost.summary.startswith("in-0@2 was committed by app-consumer at request")
        assert "app-consumer committed 3 of in-0 for g" in lost.time_line[-2]
        assert lost.time_line[-1] == "until then the broker had no fault, no chaos and no new leader"


@pytest.mark.parametrize("check", ["no_loss", "no_commit_ahead", "no_duplicates", "all"])
def test_outputs_with_ids_of_another_kind_are_no_findings(check: str) -> None:
    with broker_with_inputs(3) as broker:
        with consumer(broker) as opened:
            for message in read(opened, 3):
                broker.produce("out", message.value() or b"", key="c0")
                opened.commit(message=message, asynchronous=False)
        with pytest.raises(CheckFailedError) as failure:
            broker.check.run(check, "in", "out")
        assert failure.value.result.findings == ()
        assert "no output has the id of an input, such as 'k0'; theirs are 'c0': give output_key" in str(failure.value)
        broker.check.no_loss("in", "out", key="value")


def test_a_pool_that_commits_its_highest_offset_is_ahead_of_slower_workers() -> None:
    with broker_with_inputs(3) as broker:
        with consumer(broker) as opened:
            output = producer(broker)
            slow, *others = read(opened, 3)
            for message in others:
                copy(output, message)
            opened.commit(message=others[-1], asynchronous=False)
            assert offsets(findings(broker, "no_loss")) == [0]
            copy(output, slow)
        broker.check.no_loss("in", "out")
        (ahead,) = findings(broker, "no_commit_ahead")
        assert (ahead.offset, "its output came only at request" in ahead.summary) == (0, True)


def test_ignored_errors_of_sends_lose_records() -> None:
    with broker_with_inputs(3) as broker:
        opened = KafkaConsumer(
            "in", bootstrap_servers=broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        )
        output = KafkaProducer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False)
        with broker.fault(api="Produce", topic="out", error="INVALID_RECORD", times=1):
            count = 0
            while count < 3:
                for records in opened.poll(100).values():
                    for record in records:
                        output.send("out", record.value, record.key)
                        output.flush()
                        count += 1
        opened.commit()
        assert offsets(findings(broker, "no_loss")) == [0]
        (ahead,) = findings(broker, "no_commit_ahead")
        assert "a fault hit Produce of kafka-python-producer" in "\n".join(ahead.time_line)
        output.close()
        opened.close()


def test_several_requests_in_flight_without_idempotence_change_the_order() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        for number in range(4):
            broker.produce("in", str(number), key="k")
        with consumer(broker) as opened:
            output = producer(broker, batch_num_messages=1)
            # The first request is refused once the others are in flight, too.
            with broker.fault(api="Produce", topic="out", error="NOT_LEADER_OR_FOLLOWER", delay_ms=500, times=1):
                for message in read(opened, 4):
                    output.produce("out", message.value(), message.key())
                assert output.flush(PATIENCE_S) == 0
            opened.commit(asynchronous=False)
        found = findings(broker, "order_by_key", key="value")
        assert offsets(found) == [0]
        assert "after that of the later in-0@" in found[0].summary
        broker.check.all("in", "out", key="value")


def test_records_that_are_not_flushed_before_the_end_are_lost() -> None:
    with broker_with_inputs(3) as broker:
        with consumer(broker) as opened:
            output = producer(broker, linger_ms=200_000)
            for message in read(opened, 3):
                output.produce("out", message.value(), message.key())
            opened.commit(asynchronous=False)
        output.purge()
        assert offsets(findings(broker, "no_loss")) == [0, 1, 2]


def test_a_reset_to_the_latest_offset_loses_what_came_before() -> None:
    with broker_with_inputs(2, journal=100) as broker:
        with consumer(broker, auto_offset_reset="latest") as opened:
            keep_polling(opened, lambda: bool(broker.requests.entries(api="Fetch", topic="in")))
            fill(broker, 1, first=2)
            for message in read(opened, 1):
                copy(producer(broker), message)
                opened.commit(message=message, asynchronous=False)
        assert offsets(findings(broker, "no_loss")) == [0, 1]


def test_state_kept_over_a_rebalance_is_written_by_a_zombie() -> None:
    with broker_with_inputs(2) as broker, consumer(broker, "a-consumer") as old:
        kept: list[Message] = list(read(old, 2))
        broker.clock.advance(3600)
        with consumer(broker, "b-consumer") as new:
            output = producer(broker, "b-producer")
            for message in read(new, 2):
                copy(output, message)
                new.commit(message=message, asynchronous=False)
            zombie = producer(broker, "a-producer")
            for message in kept:
                copy(zombie, message)
        found = findings(broker, "no_zombie_writes")
        assert offsets(found) == [0, 1]
        assert "a-consumer wrote the output 'k0' of in-0@0 at request" in found[0].summary
        assert offsets(findings(broker, "no_duplicates")) == [2, 3]
        broker.check.no_loss("in", "out")


def test_a_seek_to_the_own_position_after_a_rebalance_skips_what_was_not_processed() -> None:
    with broker_with_inputs(3) as broker:
        opened = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        partition = KafkaPythonPartition("in", 0)
        output = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)
        for position in (0, 3):
            opened.unsubscribe()
            opened.subscribe(["in"])
            while not opened.assignment():
                opened.poll(100)
            opened.seek(partition, position)
            if position:
                fill(broker, 1, first=3)
            count = 0
            while not count:
                for records in opened.poll(100).values():
                    count += len(records)
                    for record in records if position else ():
                        output.send("out", record.value, record.key)
        output.flush()
        opened.commit()
        assert offsets(findings(broker, "no_loss")) == [0, 1, 2]
        output.close()
        opened.close()


def test_deduplication_by_offset_drops_records_of_other_partitions() -> None:
    with Broker(check=True, topics=["in:2", "out"]) as broker:
        fill(broker, 2, partition=0)
        fill(broker, 2, first=2, partition=1)

        async def run() -> None:
            config = {"bootstrap_servers": broker.bootstrap_servers}
            opened = AIOKafkaConsumer("in", group_id="g", auto_offset_reset="earliest", **config)
            output = AIOKafkaProducer(**config)
            await opened.start()
            await output.start()
            seen: set[int] = set()
            for _ in range(4):
                record = await opened.getone()
                if record.offset not in seen:
                    seen.add(record.offset)
                    await output.send_and_wait("out", record.value, record.key)
            await opened.commit()
            await output.stop()
            await opened.stop()

        asyncio.run(run())
        assert len(findings(broker, "no_loss")) == 2
        assert len(findings(broker, "no_commit_ahead")) == 2


def test_offsets_without_group_metadata_let_a_zombie_commit() -> None:
    with broker_with_inputs(2) as broker, consumer(broker, "a-consumer") as old:
        output = producer(broker, "a-producer", transactional_id="a")
        output.init_transactions(PATIENCE_S)
        output.begin_transaction()
        for message in read(old, 2):
            output.produce("out", message.value(), message.key())
        output.flush(PATIENCE_S)
        broker.clock.advance(50)
        transactional(broker, 2, name="b")
        stranger = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        output.send_offsets_to_transaction([TopicPartition("in", 0, 2)], stranger.consumer_group_metadata(), PATIENCE_S)
        output.commit_transaction(PATIENCE_S)
        stranger.close()
        assert len(findings(broker, "exactly_once")) == 2
        assert len(findings(broker, "no_duplicates")) == 2


def test_an_abort_after_a_commit_of_unknown_outcome_processes_twice() -> None:
    with broker_with_inputs(2) as broker, consumer(broker) as opened:
        messages = list(read(opened, 2))
        with broker.fault(api="EndTxn", disconnect="after", times=100):
            output = producer(broker, transactional_id="t", transaction_timeout_ms=2000)
            output.init_transactions(PATIENCE_S)
            output.begin_transaction()
            for message in messages:
                output.produce("out", message.value(), message.key())
            with pytest.raises(KafkaException):
                output.commit_transaction(1)
        again = producer(broker, transactional_id="t")
        again.init_transactions(PATIENCE_S)
        again.begin_transaction()
        for message in messages:
            again.produce("out", message.value(), message.key())
        send_offsets(opened, again)
        again.commit_transaction(PATIENCE_S)
        found = findings(broker, "exactly_once")
        assert [finding.check for finding in found] == ["exactly_once"] * 2
        assert "is visible 2 times" in found[0].summary
        assert "a fault hit EndTxn of app-producer" in "\n".join(found[0].time_line)


def test_a_fenced_producer_that_goes_on_loses_records() -> None:
    with broker_with_inputs(2) as broker, consumer(broker) as opened:
        output = producer(broker, transactional_id="t")
        output.init_transactions(PATIENCE_S)
        output.begin_transaction()
        twin = producer(broker, transactional_id="t")
        twin.init_transactions(PATIENCE_S)
        for message in read(opened, 2):
            output.produce("out", message.value(), message.key())
        with pytest.raises(KafkaException):
            output.commit_transaction(PATIENCE_S)
        opened.commit(asynchronous=False)
        assert offsets(findings(broker, "no_loss")) == [0, 1]
        assert offsets(findings(broker, "no_commit_ahead")) == [0, 1]


def test_a_pause_without_a_resume_is_stuck() -> None:
    with broker_with_inputs(1) as broker, consumer(broker) as opened:
        for message in read(opened, 1):
            copy(producer(broker), message)
            opened.commit(message=message, asynchronous=False)
        opened.pause(opened.assignment())
        fill(broker, 1, first=1)
        beats = facts_of(broker.services).heartbeats["g"]
        beats.clear()
        keep_polling(opened, lambda: len(beats) == beats.maxlen)
        with pytest.raises(CheckFailedError, match="1 behind; nothing has moved for some heartbeats") as failure:
            broker.check.caught_up("g", timeout=1)
        assert failure.value.result.findings


def test_counting_records_up_to_the_end_offset_never_ends() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        feeder = producer(broker, "feeder", transactional_id="feeder")
        feeder.init_transactions(PATIENCE_S)
        feeder.begin_transaction()
        feeder.produce("in", b"v", b"k0")
        feeder.commit_transaction(PATIENCE_S)
        with consumer(broker) as opened:
            (message,) = read(opened, 1)
            _, end = opened.get_watermark_offsets(TopicPartition("in", 0), PATIENCE_S)
            copy(producer(broker), message)
            assert end == 2
            keep_polling(opened, lambda: len(facts_of(broker.services).heartbeats["g"]) == 3)
            with pytest.raises(CheckFailedError, match="caught_up"):
                broker.check.caught_up("g", timeout=0.5)


def test_a_lower_commit_after_an_answered_one_goes_back() -> None:
    with broker_with_inputs(3) as broker:
        with consumer(broker) as opened:
            for message in read(opened, 3):
                copy(producer(broker), message)
            for offset in (3, 1):
                opened.commit(offsets=[TopicPartition("in", 0, offset)], asynchronous=False)
        (back,) = findings(broker, "commits_do_not_go_back")
        assert "app-consumer committed 1 of in-0 for g at request" in back.summary
        serial(broker, 2)
        broker.check.no_loss("in", "out")
