"""Kafka and this broker take turns on one data directory, and do whatever chance has them do.

The next one has to know all that its predecessor knew, which is compared with its answers and with a model.
"""

import random
from functools import partial
from typing import Any, Final, NamedTuple

from minibroker_protocol.messages.describe_transactions import DescribeTransactionsRequest
from minibroker_protocol.messages.groups import DeleteGroupsRequest
from minibroker_protocol.messages.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from tests.broker.coordinators.groups import offset_requests as requests
from tests.broker.coordinators.transactions.producer import READ_COMMITTED, Producer, committed_values
from tests.broker.harness import bytes_in, fetch_request, only_partition, produce_request
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.broker_process import BrokerProcess
from tests.kafka.coordinators import wait_for_coordinators
from tests.kafka.exchange import errors_of, hand_over
from tests.kafka.real_kafka import RealKafka
from tests.patience import eventually

COORDINATORS: Final = {
    "offsets.topic.num.partitions": "7",
    "transaction.state.log.num.partitions": "7",
    "transaction.max.timeout.ms": "7200000",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.backoff.ms": "200",
}
"""Few partitions, a number in which a masked sign bit tells, and a cleaner that runs often."""
SMALL_SEGMENTS: Final = {"offsets.topic.segment.bytes": "4096", "transaction.state.log.segment.bytes": "4096"}
"""Segments that are compacted while the test runs. Kafka 4 allows none that are so small."""
_TIMEOUT_MS: Final = 7_200_000
_NAMES: Final = (
    "orders",
    "billing",
    "my-group",
    "consumer-group",
    "g1",
    "payments",
    "größe",
    "\uffff\U0001f600",
    "a b",
)
"""Of groups and of transactional ids; the hashes of most are negative."""
_RECORDS, _COMPACTED = "exchanged-records", "exchanged-keys"
_PLACES: Final = ((_RECORDS, 0), (_RECORDS, 1))
_UNKNOWN_ID: Final = 105
_UNKNOWN_GROUP: Final = 69
_OPERATIONS: Final = 25
_KEYS: Final = 10
Place = tuple[str, int]


class Seen(NamedTuple):
    """The answers of a broker: transactions and all records, also of transactions that are open."""

    transactions: list[Any]
    records: list[Any]


class Exchange:
    """The operations of all rounds, and what has to come of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._number = 0
        self._offsets: dict[str, dict[Place, int]] = {}
        self._keys: dict[bytes, bytes | None] = {}
        self._producers: dict[str, Producer] = {}
        self._open: dict[str, dict[tuple[str, Place], int]] = {}
        self._written: dict[str, list[tuple[int, int, bytes]]] = {}
        self._committed: dict[int, dict[int, bytes]] = {0: {}, 1: {}}  # by offset

    @staticmethod
    def create_topics(client: SocketClient) -> None:
        """Make the topics, in a Kafka: its controller would not hear of those that another broker makes."""
        compacted = [
            CreatableTopicConfig(name=name, value=value)
            for name, value in (("cleanup.policy", "compact"), ("segment.ms", "1000"))
        ]
        topics = [
            CreatableTopic(name=_RECORDS, num_partitions=2, replication_factor=1),
            CreatableTopic(name=_COMPACTED, num_partitions=1, replication_factor=1, configs=compacted),
        ]
        assert not any(topic.error_code for topic in client.ask(CreateTopicsRequest(topics=topics), 7).topics)

    def wait(self, client: SocketClient) -> None:
        """Wait until the coordinators have loaded what is in the directory."""
        wait_for_coordinators(client)
        for name in _NAMES:
            eventually(partial(self._is_loaded, client, name))

    @staticmethod
    def _is_loaded(client: SocketClient, name: str) -> bool:
        request = DescribeTransactionsRequest(transactional_ids=[name])
        (state,) = client.ask(request, 0).transaction_states
        return state.error_code in {0, _UNKNOWN_ID} and requests.fetch_with_error(client, group_id=name)[0] == 0

    def run(self, client: SocketClient) -> None:
        """Do something of everything, in an order that chance decides."""
        for producer in self._producers.values():
            producer.broker = client
        operations = (self._commit, self._commit, self._write_key, self._transact, self._transact, self._transact)
        rare = (self._delete_group, self._delete_offset)
        for _ in range(_OPERATIONS):
            self._number += 1
            self._random.choice(rare if self._random.random() < 0.1 else operations)(client)

    def look(self, client: SocketClient) -> Seen:
        """Hold a broker's answers against the model, and return those that the next broker must give, too."""
        eventually(lambda: not any(each.transaction_state.startswith("Prepare") for each in self._transactions(client)))
        for group in _NAMES:
            expected = self._offsets.get(group, {})
            eventually(partial(self._has_offsets, client, group, expected))
        records = [self._records(client, topic, index) for topic, index in (*_PLACES, (_COMPACTED, 0))]
        for index in (0, 1):
            stable, values = self._values(client, index)
            assert values == {value for offset, value in self._committed[index].items() if offset < stable}
        latest = {key: value for _, key, value in records[-1]}
        assert {key: value for key, value in latest.items() if value is not None} == {
            key: value for key, value in self._keys.items() if value is not None
        }
        return Seen(self._transactions(client), records[:-1])

    # Operations

    def _commit(self, client: SocketClient) -> None:
        group, place = self._random.choice(_NAMES), self._random.choice(_PLACES)
        if any((group, place) in pending for pending in self._open.values()):
            return  # It would count, also when the transaction is committed after it.
        assert requests.commit(client, {place: self._number}, group) == {place: 0}
        self._offsets.setdefault(group, {})[place] = self._number

    def _delete_group(self, client: SocketClient) -> None:
        group = self._random.choice(_NAMES)
        if any(group == name for pending in self._open.values() for name, _ in pending):
            return  # Releases differ in what becomes of pending offsets.
        (result,) = client.ask(DeleteGroupsRequest(groups_names=[group]), 2).results
        assert result.error_code in ({0} if self._offsets.pop(group, None) else {0, _UNKNOWN_GROUP})

    def _delete_offset(self, client: SocketClient) -> None:
        group, place = self._random.choice(_NAMES), self._random.choice(_PLACES)
        if self._offsets.get(group) and not any(group == name for each in self._open.values() for name, _ in each):
            assert requests.delete(client, place, group_id=group)[0] == 0
            self._offsets[group].pop(place, None)

    def _write_key(self, client: SocketClient) -> None:
        key = b"key %d" % self._random.randrange(_KEYS)
        value = None if self._random.random() < 0.2 else b"%d" % self._number
        batch = build_batch([NewRecord(key, value, 1_700_000_000_000 + self._number)])
        response = client.ask(produce_request(batch, _COMPACTED), 9).responses[0].partition_responses[0]
        assert response.error_code == 0
        self._keys[key] = value

    def _transact(self, client: SocketClient) -> None:
        name = self._random.choice(_NAMES)
        producer = self._producers.get(name)
        if producer is None:
            producer = self._producers[name] = Producer(client, name, timeout_ms=_TIMEOUT_MS, init=False)
            eventually(lambda: producer.init() == 0)
        if name not in self._open:
            self._open[name], self._written[name] = {}, []
        elif self._random.random() < 0.6:
            self._end(name, producer)
            return
        if self._random.random() < 0.7:
            index = self._random.randrange(2)
            value = f"{name} {self._number}".encode()
            eventually(lambda: producer.add((_RECORDS, index)) == [0])
            outcome = producer.send(value, topic=_RECORDS, partition=index)
            assert outcome.error_code == 0
            self._written[name].append((index, outcome.base_offset, value))
        if self._random.random() < 0.7 or not self._written[name]:
            group, place = self._random.choice(_NAMES), self._random.choice(_PLACES)
            if any((group, place) in pending for other, pending in self._open.items() if other != name):
                group, place = f"own of {name}", _PLACES[0]
            eventually(lambda: producer.add_offsets(group) == 0)
            assert producer.commit_offset(group, self._number, topic=place[0], partition=place[1]) == 0
            self._open[name][group, place] = self._number

    def _end(self, name: str, producer: Producer) -> None:
        """Commit, abort, or have another producer take the transactional id, which aborts."""
        pending, written = self._open.pop(name), self._written.pop(name)
        way = self._random.choice(("commit", "commit", "abort", "init"))
        if way == "init":
            eventually(lambda: producer.init() == 0)
            return
        assert producer.end(commit=way == "commit") == 0
        # Kafka answers before it writes the markers: what comes next must not overtake them.
        eventually(lambda: not self._described(producer)[1].startswith("Prepare"))
        if way == "commit":
            for index, offset, value in written:
                self._committed[index][offset] = value
            for (group, place), committed in pending.items():
                self._offsets.setdefault(group, {})[place] = committed

    # Answers

    def _described(self, producer: Producer) -> tuple[int, str]:
        request = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
        (state,) = producer.broker.ask(request, 0).transaction_states
        return state.error_code, state.transaction_state

    def _transactions(self, client: SocketClient) -> list[Any]:
        request = DescribeTransactionsRequest(transactional_ids=sorted(self._producers))
        states = client.ask(request, 0).transaction_states
        for state in states:
            if state.transaction_state == "Empty":
                state.transaction_start_time_ms = -1  # Kafka 3.9 remembers an earlier one until it starts again.
            state.topics = sorted((topic.topic, sorted(topic.partitions)) for topic in state.topics)
        return sorted(states, key=lambda state: state.transactional_id)

    @staticmethod
    def _has_offsets(client: SocketClient, group: str, expected: dict[Place, int]) -> bool:
        found = requests.fetch(client, *_PLACES, group_id=group)
        return {place: offset[0] for place, offset in found.items() if offset[0] >= 0} == expected

    @staticmethod
    def _records(client: SocketClient, topic: str, index: int) -> list[Any]:
        """All records with their offsets."""
        offset, records = 0, list[Any]()
        while True:
            data = only_partition(client.ask(fetch_request((topic, index, offset), max_wait_ms=0), 12))
            batches = list(iter_batches(memoryview(bytes_in(data))))
            if not batches:
                return records
            records += [(record.offset, record.key, record.value) for batch in batches for record in batch]
            offset = batches[-1].header.last_offset + 1

    @staticmethod
    def _values(client: SocketClient, index: int) -> tuple[int, set[bytes | None]]:
        """The offset of the first open transaction, and the values of committed ones before it."""
        offset, values = 0, set[bytes | None]()
        while True:
            request = fetch_request((_RECORDS, index, offset), isolation_level=READ_COMMITTED, max_wait_ms=0)
            data = only_partition(client.ask(request, 12))
            batches = list(iter_batches(memoryview(bytes_in(data))))
            if not batches:
                return data.last_stable_offset, values
            values.update(committed_values(data))
            offset = batches[-1].header.last_offset + 1


def take_turns(kafka: RealKafka, ours: BrokerProcess, rounds: int, seed: int) -> None:
    """Have the two brokers take turns. `AssertionError` when one does not know what the other has left."""
    ends = random.Random(seed)
    exchange = Exchange(seed)
    brokers: list[RealKafka | BrokerProcess] = [kafka, ours]
    kafka.start()
    with SocketClient(address_of(kafka.bootstrap)) as client:
        Exchange.create_topics(client)
    for number in range(rounds):
        giver, taker = brokers[number % 2], brokers[1 - number % 2]
        with SocketClient(address_of(giver.bootstrap)) as client:
            exchange.wait(client)
            exchange.run(client)
            left = exchange.look(client)
        hand_over(giver, taker, ends.choice(("killed", "stopped")))
        with SocketClient(address_of(taker.bootstrap)) as client:
            exchange.wait(client)
            found = exchange.look(client)
        different = [pair for pair in zip(left.transactions, found.transactions, strict=True) if pair[0] != pair[1]]
        assert not different, f"round {number}, seed {seed}: {different}"
        assert found.records == left.records, f"round {number}, seed {seed}"
    assert errors_of(kafka) == []
