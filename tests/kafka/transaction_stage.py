"""Where a scenario of transactions plays: one broker, Kafka or this one, with names of its own.

What differs from broker to broker is left out of the answers: producer ids are numbered in the order in which they
came, times are only there or not.
"""

import itertools
from typing import Any

from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from tests.broker.coordinators.transactions.producer import Asks, Producer


class Stage:
    """One broker, with a topic "<name>" of two partitions; names are the scenario's own."""

    def __init__(self, broker: Asks, name: str) -> None:
        self.broker = broker
        self.topic = name
        self._names = (f"{name}-{number}" for number in itertools.count())
        self._ids: dict[int, str] = {-1: "none"}

    def named(self) -> str:
        """A transactional id that nobody has used."""
        return next(self._names)

    def producer(self, **fields: Any) -> Producer:
        """A producer with a transactional id of its own."""
        return Producer(self.broker, self.named(), **fields)

    def second_epoch(self) -> Producer:
        """A producer with an epoch before its own."""
        producer = self.producer()
        assert producer.init() == 0
        return producer

    def id(self, producer_id: int) -> str:
        """A producer id by the order in which it came."""
        return self._ids.setdefault(producer_id, f"id {len(self._ids)}")

    def place(self, partition: int = 0) -> tuple[str, int]:
        """A partition of the topic."""
        return self.topic, partition

    def state_of(self, producer: Producer) -> tuple[Any, ...]:
        """The response of DescribeTransactions."""
        return self.described(producer.transactional_id)[1:]

    def described(self, transactional_id: str) -> tuple[Any, ...]:
        """The response of DescribeTransactions, with the error."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (known,) = self.broker.ask(request, 0).transaction_states
        return (
            known.error_code,
            known.transaction_state,
            known.transaction_timeout_ms,
            min(known.transaction_start_time_ms, 1),
            self.id(known.producer_id) if known.transaction_state else None,
            known.producer_epoch,
            sorted((topic.topic, sorted(topic.partitions)) for topic in known.topics),
        )
