"""Producers that know of raised epochs (KIP-890) beside those that do not: what they ask for, and what comes of it."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import pytest

from minibroker import Broker
from tests.clients.contract import Message
from tests.clients.java_programs import client_command
from tests.clients.kafka_python_client import KafkaPython
from tests.clients.transactional import TransactionalProducer
from tests.clients.transactors import FRANZ_GO, KAFKAJS, Transactor, TransactorOptions
from tests.programs import run_to_success

ADDING: Final = frozenset({"AddPartitionsToTxn", "AddOffsetsToTxn"})
LAST: Final = "last"


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that keeps a journal and soon aborts transactions that have timed out."""
    config = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
    with Broker(config=config, journal=True) as running:
        yield running


def asked(broker: Broker, transactional_ids: set[str] | None = None) -> dict[str, set[int]]:
    """The versions of each API that was asked for, by those who name one of these transactional ids if any is given."""
    versions: dict[str, set[int]] = {}
    for entry in broker.requests:
        named = {each.transactional_id for each in entry.targets}
        if transactional_ids is None or named & transactional_ids:
            versions.setdefault(entry.api, set()).add(entry.version)
    return versions


@pytest.mark.torture
@pytest.mark.parametrize("version", ["3.9.1", "4.4.0"])
def test_only_java_clients_of_kafka_3_announce_where_they_write(broker: Broker, version: str) -> None:
    command = [*client_command("Transactions", version), broker.bootstrap_servers, "run-"]
    run_to_success(command)
    versions = asked(broker)
    if version == "3.9.1":
        assert versions.keys() >= ADDING
        assert (versions["EndTxn"], versions["Produce"], versions["TxnOffsetCommit"]) == ({4}, {11}, {4})
    else:
        assert not versions.keys() & ADDING
        assert (versions["EndTxn"], versions["Produce"], versions["TxnOffsetCommit"]) == ({5}, {13}, {6})


def test_producers_of_either_kind_write_into_one_topic_at_the_same_time(broker: Broker, topic: str) -> None:
    plain = KafkaPython(broker.bootstrap_servers)
    plain.create_topic(topic, 1)
    names = {kind: f"{kind}-{uuid.uuid4().hex[:12]}" for kind in ("franz-go", "kafkajs", "librdkafka")}
    with ExitStack() as ends:
        programs = {
            program.name: Transactor(program, TransactorOptions(broker.bootstrap_servers, names[program.name]))
            for program in (FRANZ_GO, KAFKAJS)
        }
        library = TransactionalProducer(broker.bootstrap_servers, names["librdkafka"])
        ends.callback(library.close)
        for program in programs.values():
            ends.callback(program.close)
        for number in range(3):
            commits = number != 1
            library.begin()
            library.send(topic, b"%d of librdkafka" % number)
            for name, program in programs.items():
                program.transaction(topic, [f"{number} of {name}"], end="commit" if commits else "abort")
            library.commit() if commits else library.abort()
        plain.produce(topic, [Message(LAST.encode())])
        expected = [f"{number} of {writer}" for number in (0, 2) for writer in ("librdkafka", *programs)]
        # Not kafkajs, which loses its way where aborted transactions overlap: it takes them for sorted by their starts.
        assert programs["franz-go"].values(topic, LAST) == [*expected, LAST]
    assert not asked(broker, {names["franz-go"]}).keys() & ADDING
    for older in ("kafkajs", "librdkafka"):
        assert "AddPartitionsToTxn" in asked(broker, {names[older]}), older


def test_offsets_and_records_of_one_transaction_count_together_without_being_announced(
    broker: Broker, topic: str
) -> None:
    plain = KafkaPython(broker.bootstrap_servers)
    source = f"{topic}-source"
    plain.create_topic(source, 1)
    plain.create_topic(topic, 1)
    values = [f"value {number}" for number in range(5)]
    plain.produce(source, [Message(value.encode()) for value in values])
    copy = {"group": f"{topic}-group", "source": source, "target": topic, "count": len(values)}
    copier = Transactor(FRANZ_GO, TransactorOptions(broker.bootstrap_servers, f"{topic}-copier"))
    try:
        for commits in (False, True):
            assert copier.ask("copy", **copy)["values"] == values
            copier.ask("end_copy", commit=commits)
        plain.produce(topic, [Message(LAST.encode())])
        assert copier.values(topic, LAST) == [*values, LAST]
    finally:
        copier.close()
    assert asked(broker)["TxnOffsetCommit"] <= {5, 6}
    assert not asked(broker).keys() & ADDING
