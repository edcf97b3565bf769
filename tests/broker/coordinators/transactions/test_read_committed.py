"""Consumers with read_committed, which never see aborted records, or any records after an open transaction."""

import random
from typing import Final

import pytest

from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tests.broker.coordinators.transactions.producer import READ_COMMITTED, Producer, committed_values, read_committed
from tests.broker.harness import Harness, Pending, batch, fetch_request, only_partition
from tests.broker.logs.world import log_of

SEEDS: Final = range(12)


def end_offset(harness: Harness, isolation_level: int) -> int:
    partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation_level, topics=[ListOffsetsTopic(name="t", partitions=[partition])]
    )
    return int(harness.ask(request, 7).topics[0].partitions[0].offset)


def test_the_last_stable_offset_waits_for_the_oldest_transaction(harness: Harness) -> None:
    assert harness.produce(batch(b"plain")).error_code == 0
    one, other = Producer(harness, "one"), Producer(harness, "other")
    one.write(b"1")
    other.write(b"2")
    assert harness.produce(batch(b"plain too")).error_code == 0
    stable = [end_offset(harness, READ_COMMITTED)]
    assert other.commit() == 0
    stable.append(end_offset(harness, READ_COMMITTED))
    assert one.commit() == 0
    stable.append(end_offset(harness, READ_COMMITTED))
    assert stable == [1, 1, 6]
    assert end_offset(harness, 0) == 6


def aborted_in(data: PartitionData) -> list[tuple[int, int]]:
    """Return the (producer id, first offset) of each aborted transaction in a response."""
    return [(transaction.producer_id, transaction.first_offset) for transaction in data.aborted_transactions or []]


@pytest.mark.parametrize("commit", [True, False])
def test_a_waiting_reader_wakes_when_the_transaction_ends(harness: Harness, commit: bool) -> None:  # noqa: FBT001 - a parameter
    producer = Producer(harness)
    assert producer.add(("t", 0)) == [0]
    waiting = harness.send(fetch_request(("t", 0, 0), isolation_level=READ_COMMITTED), 12)
    assert isinstance(waiting, Pending)
    assert producer.send(b"x").error_code == 0
    answered = [waiting.is_answered]
    assert producer.end(commit=commit) == 0
    assert [*answered, waiting.is_answered] == [False, True]
    data = only_partition(waiting.response)
    assert committed_values(data) == ([b"x"] if commit else [])
    assert aborted_in(data) == ([] if commit else [(producer.id, 0)])


def test_a_waiting_reader_wakes_when_the_transaction_times_out(harness: Harness) -> None:
    producer = Producer(harness, timeout_ms=1000)
    producer.write(b"x")
    request = fetch_request(("t", 0, 0), isolation_level=READ_COMMITTED, max_wait_ms=60_000)
    waiting = harness.send(request, 12)
    assert isinstance(waiting, Pending)
    harness.clock.advance(10_000)
    harness.run_soon()
    assert waiting.is_answered


def test_aborted_transactions_are_known_after_a_roll_and_a_restart(harness: Harness) -> None:
    producer = Producer(harness)
    producer.write(b"aborted")
    log_of(harness).roll(harness.clock.now_ms())
    assert producer.abort() == 0
    producer.write(b"committed")
    assert producer.commit() == 0
    for restart in (harness.restart, harness.crash):
        restart()
        first = harness.fetch_one(0, isolation_level=READ_COMMITTED)
        assert aborted_in(first) == [(producer.id, 0)]
        assert committed_values(first) == []
        assert read_committed(harness, offset=1) == [b"committed"]


class _World:
    """Random transactional producers, and the records that read_committed consumers must see.

    Attributes:
        transaction: The number of each producer's current transaction.
        written: The written values in log order, each with the number of its transaction, by partition.
        ended: Whether each ended transaction was committed.
    """

    def __init__(self, harness: Harness, seed: int) -> None:
        self.harness = harness
        self.random = random.Random(seed)
        self.producers = [Producer(harness, f"id-{number}") for number in range(3)]
        self.transaction = [0, 1, 2]
        self.next_transaction = 3
        self.written: dict[int, list[tuple[bytes, int]]] = {0: [], 1: []}
        self.ended: dict[int, bool] = {}
        self.has_written = [False] * 3
        self.count = 0

    def write(self, who: int) -> None:
        partition = self.random.randrange(2)
        values = [b"%d" % (self.count + number) for number in range(self.random.randint(1, 3))]
        self.count += len(values)
        self.producers[who].write(*values, topic="two", partition=partition)
        self.written[partition] += [(value, self.transaction[who]) for value in values]
        self.has_written[who] = True

    def end(self, who: int) -> None:
        commit = self.random.random() < 0.6
        if self.has_written[who]:
            assert self.producers[who].end(commit=commit) == 0
            self._note(who, commit=commit)

    def take_over(self, who: int) -> None:
        code = self.producers[who].init(version=self.random.randint(0, 5))
        assert code == (51 if self.has_written[who] else 0)
        if code:
            assert self.producers[who].init() == 0
        self._note(who, commit=False)

    def _note(self, who: int, *, commit: bool) -> None:
        self.ended[self.transaction[who]] = commit
        self.transaction[who] = self.next_transaction
        self.next_transaction += 1
        self.has_written[who] = False

    def restart(self, _: int) -> None:
        self.random.choice([self.harness.restart, self.harness.crash])()
        if self.random.random() < 0.5:
            self.harness.run_soon()

    def roll(self, _: int) -> None:
        log_of(self.harness, "two", self.random.randrange(2)).roll(self.harness.clock.now_ms())

    def step(self) -> None:
        act = self.random.choices([self.write, self.end, self.take_over, self.restart, self.roll], [10, 6, 1, 1, 2])[0]
        act(self.random.randrange(3))

    def check(self) -> None:
        for partition, written in self.written.items():
            first_undecided = next(
                (number for number, (_, transaction) in enumerate(written) if transaction not in self.ended),
                len(written),
            )
            values = self._read(partition)
            assert values == [value for value, transaction in written[:first_undecided] if self.ended[transaction]]

    def _read(self, partition: int) -> list[bytes | None]:
        log = log_of(self.harness, "two", partition)
        offset, values = 0, list[bytes | None]()
        while offset < log.last_stable_offset:
            data = self.harness.fetch_one(offset, "two", partition, isolation_level=READ_COMMITTED)
            values += committed_values(data)
            offset = log.upper_bound_of(log.read(offset, 1 << 20, end_offset=log.last_stable_offset))
        return values


@pytest.mark.parametrize("seed", SEEDS)
def test_readers_see_only_committed_records_after_random_operations(harness: Harness, seed: int) -> None:
    harness.create("two", 2)
    world = _World(harness, seed)
    for _ in range(60):
        world.step()
        world.check()
