"""Clients that stay connected through a restore or a reset continue, or get an error that Kafka has."""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest

from minibroker import Broker
from tests.clients.staying import STAYING, StayError, Staying

PRODUCERS: Final = ("plain", "idempotent", "transactional")
REPLACEMENTS: Final = ("restore", "restore without the topic", "reset", "reset with topics")
_IN_TEST: Final = {
    ("java-4.4.0", "restore"),
    ("aiokafka", "restore without the topic"),
    ("kafka-python", "reset"),
}
_OUT_OF_ORDER: Final = r"out_?of_?order|\b_FATAL\b"
_NO_TRANSACTION: Final = (
    "invalid_?(pid|producer_?id)_?mapping|fenced|error state|fatal_error"
    "|Unexpected error during batch delivery"  # all that aiokafka says of INVALID_PRODUCER_ID_MAPPING
)
_NO_MEMBER: Final = "illegal_?generation|group id does not exist|unknown_?member_?id|rebalanced|inconsistent_topic_id"
_TRUNCATED: Final = "truncat|out[ _]?of[ _]?range|inconsistent_topic_id"


def values_of(broker: Broker) -> list[str]:
    return [record.text() or "" for record in broker.records("t")]


@contextmanager
def errors(expected: str) -> Iterator[list[StayError]]:
    """Collect the error of a block. AssertionError if it is none of these."""
    collected: list[StayError] = []
    try:
        yield collected
    except StayError as error:
        if not re.search(expected, str(error), re.IGNORECASE):
            raise AssertionError(f"not {expected}: {error}") from error
        collected.append(error)


def produce_and_commit(clients: Staying, value: str) -> None:
    for role in PRODUCERS:
        if role == "transactional":
            clients.begin("t", f"{value} {role}")
            clients.commit()
        else:
            clients.send(role, "t", f"{value} {role}")


def produce_after(clients: Staying) -> list[str]:
    """Return the values that were acknowledged after a replacement with a transaction open."""
    acknowledged = []
    with errors(_NO_TRANSACTION) as refused:
        clients.commit()
    assert refused
    for value in ("after", "later"):
        clients.send("plain", "t", f"{value} plain")
        acknowledged.append(f"{value} plain")
        with errors(_OUT_OF_ORDER) as refused:
            clients.send("idempotent", "t", f"{value} idempotent")
        acknowledged += [] if refused else [f"{value} idempotent"]
    with errors(_NO_TRANSACTION) as refused:
        clients.begin("t", "next")
        clients.commit()
    return acknowledged if refused else [*acknowledged, "next"]


def read_on(clients: Staying, role: str, until: str) -> list[str]:
    """Return what a consumer reads up to a value; a member may have to join again before."""
    while True:
        with errors(_NO_MEMBER) as refused:
            values = clients.read(role, "t", until)
        if not refused:
            return [value for value in values if value != "open"]  # read before the transaction was lost


@pytest.mark.parametrize(
    ("client", "replacement"),
    [
        pytest.param(client, replacement, marks=() if (client, replacement) in _IN_TEST else pytest.mark.torture)
        for client in STAYING
        for replacement in REPLACEMENTS
    ],
)
def test_clients_that_stay_continue_or_get_an_error_of_kafka(client: str, replacement: str) -> None:
    with Broker(topics=["t"]) as broker:
        broker.delete_topic("t")
        snapshot = broker.snapshot()
        broker.create_topic("t", 1)
        with closing(STAYING[client](broker.bootstrap_servers, "name")) as clients:
            consumers = [role for role in clients.roles if role not in PRODUCERS]
            produce_and_commit(clients, "first")
            for role in consumers:
                clients.read(role, "t", "first transactional")
            if replacement == "restore":
                snapshot = broker.snapshot()
            for value in ("second", "third"):
                produce_and_commit(clients, value)
            for role in consumers:
                clients.read(role, "t", "third transactional")
            assert "t" in clients.topics()
            clients.begin("t", "open")

            if replacement.startswith("restore"):
                broker.restore(snapshot)
            else:
                broker.reset(keep_topics=replacement == "reset with topics")

            restored = [f"first {role}" for role in PRODUCERS] if replacement == "restore" else []
            acknowledged = [*produce_after(clients), "last"]
            broker.produce("t", "last")
            assert values_of(broker) == restored + acknowledged

            for role in consumers:
                if role == "strict":
                    with errors(_TRUNCATED) as truncated:
                        clients.read(role, "t", "last")
                    # It misses nothing if it had read up to the offset at which the kept topic begins now.
                    assert truncated or replacement == "reset with topics"
                    continue
                values = read_on(clients, role, "last")
                # One that cannot tell where the log was cut reads the records again that are there from before.
                assert values == (restored + acknowledged)[-len(values) :], role
                assert len(values) >= len(acknowledged), role
            broker.produce("t", "end")
            for role in consumers:
                assert role == "strict" or read_on(clients, role, "end")[-1] == "end", role
            assert "t" in clients.topics()
