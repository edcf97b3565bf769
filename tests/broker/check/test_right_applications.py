"""Right applications pass every check that they can promise, whatever the broker and its operators do."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import AcknowledgeType, ConsumerGroupTopicPartitions, ShareConsumer, TopicPartition
from confluent_kafka.admin import AdminClient

from minibroker import Broker
from minibroker_chaos.check.results import CheckFailedError
from tests.broker.check.applications import (
    batches,
    concurrent,
    consumer,
    copy,
    fill,
    producer,
    read,
    send_offsets,
    serial,
    transactional,
)
from tests.broker.operations.members import SHARING
from tests.patience import PATIENCE_S


@pytest.mark.parametrize("copier", [serial, batches, concurrent, transactional])
def test_a_copier_passes_all_checks(copier: Callable[[Broker, int], None]) -> None:
    with Broker(check=True, topics=["in:2", "out:2"]) as broker:
        fill(broker, 10)
        copier(broker, 10)
        broker.check.caught_up("g")
        broker.check.all("in", "out")
        for check in ("no_duplicates", "order_by_key", "exactly_once", "no_zombie_writes"):
            assert broker.check.run(check, "in", "out", group="g").outcome == "passed"


def test_a_restart_with_the_new_protocol_and_aborted_transactions_passes() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        feeder = producer(broker, "feeder", transactional_id="feeder")
        feeder.init_transactions(PATIENCE_S)
        for number, commits in enumerate((True, False, True)):
            feeder.begin_transaction()
            feeder.produce("in", b"v", f"k{number}")
            if commits:
                feeder.commit_transaction(PATIENCE_S)
            else:
                feeder.flush(PATIENCE_S)
                feeder.abort_transaction(PATIENCE_S)
        for _ in range(2):
            serial(broker, 1, group_protocol="consumer")
        broker.check.caught_up("g")
        broker.check.all("in", "out")
        broker.check.exactly_once("in", "out")


def test_an_expelled_member_whose_transaction_is_refused_passes() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 4)
        with consumer(broker, "a-consumer") as old:
            output = producer(broker, "a-producer", transactional_id="a")
            output.init_transactions(PATIENCE_S)
            output.begin_transaction()
            for message in read(old, 4):
                output.produce("out", message.value(), message.key())
            output.flush(PATIENCE_S)
            broker.clock.advance(3600)
            transactional(broker, 4, name="b")
            with pytest.raises(Exception, match=r"UNKNOWN_MEMBER|ILLEGAL_GENERATION|fenced|FENCED"):
                send_offsets(old, output)
        broker.check.exactly_once("in", "out", group="g")
        broker.check.no_zombie_writes("in", "out", group="g")
        broker.check.all("in", "out")


def test_a_filter_and_a_fan_out_pass_with_their_expected_outputs() -> None:
    with Broker(check=True, topics=["in", "out", "dead"]) as broker:
        for number in range(4):
            broker.produce("in", {"id": number}, key=f"k{number}")
        with consumer(broker) as opened:
            output = producer(broker)
            for message in read(opened, 4):
                number = json.loads(message.value() or b"")["id"]
                topic = "dead" if number == 3 else "out"
                for part in range(number):
                    output.produce(topic, b"v", f"{number}-{part}")
                output.flush(PATIENCE_S)
                opened.commit(message=message, asynchronous=False)
        expected = {str(number): [f"{number}-{part}" for part in range(number)] for number in range(4)}
        broker.check.all("in", ["out", "dead"], key="json:id", output_key="key", expected=expected)
        with pytest.raises(CheckFailedError, match=r"in-0@3 was committed .* 3 of its 3 outputs are missing"):
            broker.check.no_loss("in", "out", key="json:id", output_key="key", expected=expected)


def test_tombstones_and_compacted_outputs_pass() -> None:
    compacted: dict[str, str | float | bool] = {"cleanup.policy": "compact", "segment.ms": 1}
    with Broker(check=True, topics=["in"]) as broker:
        broker.create_topic("out", configs={**compacted, "min.cleanable.dirty.ratio": 0.0})
        for value in ("1", None, "2", "3"):
            broker.produce("in", value, key="k", headers={"id": value or "none"})
        with consumer(broker) as opened:
            output = producer(broker)
            for message in read(opened, 4):
                output.produce("out", message.value(), message.key(), headers=message.headers())
                output.flush(PATIENCE_S)
                opened.commit(message=message, asynchronous=False)
        broker.check.all("in", "out", key="header:id")
        broker.clock.advance(1)
        broker.produce("out", "last", key="other", headers={"id": "last"})
        broker.compact("out")
        assert len(broker.records("out")) == 2
        broker.check.no_loss("in", "out", key="header:id")
        with pytest.raises(CheckFailedError, match="inconclusive"):
            broker.check.no_commit_ahead("in", "out", key="header:id")


def test_records_deleted_by_retention_make_a_check_inconclusive() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 3)
        serial(broker, 3)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for topic in ("in", "out"):
            for deleted in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
                deleted.result(PATIENCE_S)
            with pytest.raises(CheckFailedError, match=f"inconclusive(.|\n)*{topic}-0 has lost records"):
                broker.check.no_loss("in", "out")


def test_offsets_that_an_operator_moves_are_not_those_of_the_application() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 5)
        serial(broker, 3)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for offset in (1, 5):
            moved = ConsumerGroupTopicPartitions("g", [TopicPartition("in", 0, offset)])
            for result in admin.alter_consumer_group_offsets([moved]).values():
                result.result(PATIENCE_S)
            broker.check.commits_do_not_go_back("in")
            broker.check.no_commit_ahead("in", "out", group="g")


def test_a_topic_made_again_is_judged_by_its_new_records() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 3)
        serial(broker, 3)
        broker.delete_topic("in")
        broker.create_topic("in", 1)
        fill(broker, 2, first=10)
        serial(broker, 2)
        broker.check.all("in", "out")
        broker.check.commits_do_not_go_back("in")


def test_a_share_consumer_with_explicit_acknowledgements_passes_and_rejections_are_excused() -> None:
    with Broker(check=True, topics=["in", "out"], config=SHARING) as broker:
        config = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "s",
            "client.id": "sharer",
            "share.acknowledgement.mode": "explicit",
        }
        opened, output = ShareConsumer(config), producer(broker)
        opened.subscribe(["in"])
        broker.group("s").wait_until_stable(timeout=PATIENCE_S)
        opened.poll(0.1)
        fill(broker, 3)
        seen = 0
        while seen < 3:
            for message in opened.poll(0.1):
                seen += 1
                is_bad = message.key() == b"k1"
                if not is_bad:
                    copy(output, message)
                opened.acknowledge(message, AcknowledgeType.REJECT if is_bad else AcknowledgeType.ACCEPT)
            opened.commit_sync(PATIENCE_S)
        broker.group("s").wait_until_caught_up(timeout=PATIENCE_S)
        broker.check.no_loss("in", "out")
        opened.close()


def test_a_retry_without_idempotence_is_a_duplicate_but_no_loss() -> None:
    with Broker(check=True, topics=["in", "out"]) as broker:
        fill(broker, 3)
        with broker.fault(api="Produce", topic="out", disconnect="after", times=1):
            serial(broker, 3)
        broker.check.all("in", "out")
        broker.check.order_by_key("in", "out")
        with pytest.raises(CheckFailedError, match="produced twice by a producer without idempotence") as failure:
            broker.check.no_duplicates("in", "out")
        assert "a fault hit Produce of app-producer" in str(failure.value)
