"""The share-partition: acquisition, acknowledgement, locks and limits, without sockets and files."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from minibroker.clock import ManualClock
from minibroker.coordinators.share_partitions.in_flight import (
    EXCEEDED,
    REJECTED,
    Acknowledgement,
    Acquired,
    AcquisitionRequest,
    DeadRecords,
    Limits,
    RecordState,
    Span,
    Write,
    exclude_spans,
)
from minibroker.coordinators.share_partitions.share_partition import SharePartition
from minibroker.coordinators.share_state.state import MAX_BATCHES, StateBatch, combine, merge_neighbors
from minibroker_protocol.error_codes import ErrorCode

LOCK_MS = 30_000
ACCEPT, RELEASE, REJECT, RENEW, GAP = 1, 2, 3, 4, 0
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState


class World:
    """A share-partition whose log has batches of ten records, and the changes that it has written."""

    def __init__(self, start: int = 0, batches: Iterable[StateBatch] = (), **limits: Any) -> None:
        self.clock = ManualClock()
        self.limits = Limits(LOCK_MS, 5, 2000)._replace(**limits)
        self.writes: list[Write] = []
        self.refusal = ErrorCode.NONE
        self.changes = 0
        self.log_end = 100
        self.buried: list[DeadRecords] = []
        self.of = SharePartition(
            self.clock, start, batches, lambda: self.limits, self.write, self.on_change, self.buried.extend
        )

    def write(self, write: Write) -> ErrorCode:
        if not self.refusal:
            self.writes.append(write)
        return self.refusal

    def on_change(self) -> None:
        self.changes += 1

    def fetch(
        self, member: str = "m", most: int = 500, *, size: int = 500, strict: bool = False, spans: Sequence[Span] = ()
    ) -> list[Acquired]:
        """Read the log from the next fetch offset, and acquire records."""
        offset = self.of.next_fetch_offset
        read = spans or [Span(base, base + 9) for base in range(offset - offset % 10, self.log_end, 10)]
        return self.of.acquire(AcquisitionRequest(member, most, size, strict), offset, read)

    def acknowledge(self, first: int, last: int, *types: int, member: str = "m") -> ErrorCode:
        return self.of.acknowledge(member, [Acknowledgement(first, last, types)])

    def states(self) -> list[tuple[int, int, RecordState, int]]:
        """Return (first offset, last offset, state, deliveries) of each range in flight."""
        return [(records.first, records.last, records.state, records.deliveries) for records in self.of.ranges]

    def offsets(self) -> dict[int, tuple[RecordState, int]]:
        """Return the state and the number of deliveries of each offset in flight."""
        return {
            offset: (records.state, records.deliveries)
            for records in self.of.ranges
            for offset in range(records.first, records.last + 1)
        }

    def written(self) -> list[StateBatch]:
        return list(self.writes[-1].batches)


def offsets_in(ranges: Iterable[Span | Acquired]) -> list[int]:
    return [offset for records in ranges for offset in range(records.first, records.last + 1)]


def test_acquired_offsets_are_split_by_the_requested_batch_size() -> None:
    world = World()
    assert world.fetch(most=50, size=20) == [Acquired(0, 19, 1), Acquired(20, 39, 1), Acquired(40, 49, 1)]


def test_a_record_that_fails_often_is_delivered_with_few_others_and_finally_alone() -> None:
    world = World(deliveries=5)
    sizes: list[int] = []
    for _ in range(4):
        acquired = world.fetch(most=10)
        sizes.append(acquired[-1].last - acquired[0].first + 1)
        world.of.release("m")
    assert sizes[:3] == [10, 10, 10]
    assert sizes[3] == 5, "half of the batch at the third delivery that failed"
    assert world.fetch("n", most=10) == [Acquired(0, 0, 5)]
    world.of.release("n")
    assert world.fetch("n", most=10) == [Acquired(1, 1, 5)], "the other one is archived"
    assert world.of.start_offset == 1


def test_a_lock_expires_even_if_the_state_cannot_be_written() -> None:
    world = World()
    world.fetch(most=10)
    world.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.clock.advance(LOCK_MS)
    assert world.fetch("n", most=10) == [Acquired(0, 9, 2)]


@pytest.mark.parametrize("ends", [False, True], ids=["released", "locks end"])
@pytest.mark.parametrize("count", [1800, MAX_BATCHES + 1])
def test_many_records_are_released(count: int, *, ends: bool) -> None:
    world = World(locks=2 * count)
    spans = [Span(offset, offset) for offset in range(count)]
    world.fetch(most=count, size=1, spans=spans)
    if ends:
        world.clock.advance(LOCK_MS)
    else:
        world.of.release("m")
    one_by_one = [StateBatch(offset, offset, 1, AVAILABLE) for offset in range(count)]
    assert world.written() == (one_by_one if count <= MAX_BATCHES else [StateBatch(0, count - 1, 1, AVAILABLE)])
    assert world.of.next_fetch_offset == 0
    assert len(world.fetch("n", most=count, size=1, spans=spans)) == count


def test_a_renewed_lock_lasts_longer() -> None:
    world = World()
    world.fetch(most=10)
    world.clock.advance(20_000)
    assert world.acknowledge(0, 4, RENEW) is ErrorCode.NONE
    assert world.writes == [], "nothing has changed"
    world.clock.advance(10_000)
    assert world.states() == [(0, 4, ACQUIRED, 1), (5, 9, AVAILABLE, 1)]
    world.clock.advance(20_000)
    assert world.states() == [(0, 9, AVAILABLE, 1)]


def test_renewal_can_be_switched_off() -> None:
    world = World(renews=False)
    world.fetch(most=10)
    assert world.acknowledge(0, 4, RENEW) is ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("first", "last", "types", "code"),
    [
        (0, 19, [7], ErrorCode.INVALID_REQUEST),
        (0, 20, [ACCEPT], ErrorCode.INVALID_REQUEST),
        (20, 29, [ACCEPT], ErrorCode.INVALID_REQUEST),
        (5, 12, [ACCEPT], ErrorCode.INVALID_RECORD_STATE),
    ],
)
def test_an_invalid_acknowledgement_changes_nothing(first: int, last: int, types: list[int], code: ErrorCode) -> None:
    world = World()
    world.fetch(most=10)
    world.fetch("other", most=10)
    before = world.offsets()
    wrong = [Acknowledgement(2, 3, [RELEASE]), Acknowledgement(first, last, types)]
    assert world.of.acknowledge("m", wrong) is code
    assert world.of.acknowledge("m", [Acknowledgement(0, 9, [ACCEPT]), Acknowledgement(4, 4, [ACCEPT])]) is (
        ErrorCode.INVALID_RECORD_STATE
    )
    assert world.offsets() == before
    assert world.writes == []
    assert world.acknowledge(0, 9, ACCEPT) is ErrorCode.NONE


def test_a_change_that_cannot_be_written_has_no_effect() -> None:
    world = World()
    world.fetch(most=10)
    world.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.acknowledge(0, 4, ACCEPT) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.of.start_offset == 0
    world.refusal = ErrorCode.NONE
    assert world.acknowledge(0, 9, ACCEPT) == ErrorCode.NONE
    assert world.of.start_offset == 10


def test_a_loaded_state_continues_where_it_ended() -> None:
    done, free = StateBatch(14, 16, 1, ACKNOWLEDGED), StateBatch(20, 24, 3, AVAILABLE)
    world = World(10, [done, free])
    assert world.states() == [
        (10, 13, AVAILABLE, 0),
        (14, 16, ACKNOWLEDGED, 1),
        (17, 19, AVAILABLE, 0),
        (20, 24, AVAILABLE, 3),
    ]
    assert world.of.next_fetch_offset == 10
    assert world.fetch(most=4) == [Acquired(10, 13, 1)]
    assert world.acknowledge(10, 13, ACCEPT) is ErrorCode.NONE
    assert world.of.start_offset == 17


def test_records_deleted_from_the_log_are_skipped() -> None:
    world = World()
    world.fetch(most=20)
    world.acknowledge(0, 9, RELEASE)
    world.of.move_start(15)
    assert world.of.start_offset == 15
    assert world.acknowledge(10, 19, ACCEPT) is ErrorCode.NONE
    assert world.of.start_offset == 15, "locks below the start end with their time, as in Kafka"
    world.clock.advance(LOCK_MS)
    assert world.of.start_offset == 20
    world.of.move_start(50)
    assert (world.of.start_offset, world.of.next_fetch_offset) == (50, 50)


def test_compacted_offsets_do_not_block_the_start_offset() -> None:
    world = World()
    world.fetch(most=20)
    world.of.release("m")
    assert world.fetch(spans=[Span(13, 19), Span(20, 29)]) == [Acquired(13, 19, 2), Acquired(20, 29, 1)]
    world.acknowledge(13, 29, ACCEPT)
    assert world.of.start_offset == 30


@pytest.mark.parametrize("seed", range(30))
def test_random_operations_lose_no_record_and_accept_none_twice(seed: int) -> None:
    chance = random.Random(seed)
    world = World(deliveries=10, locks=100)
    held: dict[str, list[Acquired]] = {"a": [], "b": [], "c": []}
    accepted: set[int] = set()
    persisted: list[StateBatch] = []
    start = 0
    for _ in range(300):
        member = chance.choice("abc")
        if chance.random() < 0.5:
            acquired = world.fetch(
                member, chance.randrange(1, 30), size=chance.choice((5, 500)), strict=chance.random() < 0.5
            )
            assert accepted.isdisjoint(offsets_in(acquired))
            held[member] += acquired
        elif held[member] and chance.random() < 0.9:
            span = held[member].pop(chance.randrange(len(held[member])))
            types = chance.choices((ACCEPT, RELEASE), (4, 1), k=span.last - span.first + 1)
            if world.acknowledge(span.first, span.last, *types, member=member) is ErrorCode.NONE:
                accepted |= {span.first + position for position, kind in enumerate(types) if kind == ACCEPT}
        else:
            world.of.release(member)
            held[member].clear()
        for write in world.writes:
            start = write.start_offset
            persisted = combine(persisted, write.batches, start)
        world.writes.clear()
        if chance.random() < 0.05:  # Load the state on another leader.
            world.of = SharePartition(world.clock, start, persisted, lambda: world.limits, world.write, world.on_change)
            held = {name: [] for name in held}
        done = {offset for offset, (state, _) in world.offsets().items() if state is ACKNOWLEDGED}
        assert accepted <= done | set(range(world.of.start_offset))
    for name in held:
        world.of.release(name)
    for _ in range(1000):
        acquired = world.fetch("z")
        if not acquired:
            break
        assert accepted.isdisjoint(offsets_in(acquired))
        accepted.update(offsets_in(acquired))
        for span in acquired:
            assert world.acknowledge(span.first, span.last, ACCEPT, member="z") is ErrorCode.NONE
    dead = {offset for offset, (state, _) in world.offsets().items() if state is ARCHIVED}
    assert len(accepted | dead) >= 90


# Dead-letter queues


def test_a_rejected_record_is_unfinished_until_it_is_in_the_queue() -> None:
    world = World(has_dead_letter_queue=True)
    world.fetch(most=10)
    assert world.acknowledge(0, 9, *[REJECT] * 2, *[ACCEPT] * 8) == ErrorCode.NONE
    assert world.states() == [(0, 1, ARCHIVING, 1), (2, 9, ACKNOWLEDGED, 1)]
    assert world.written()[0] == StateBatch(0, 1, 1, ARCHIVING)
    assert world.buried == [DeadRecords(0, 1, 1, REJECTED)]
    assert (world.of.start_offset, world.writes[-1].delivery_complete_count) == (0, 8)
    assert world.of.next_fetch_offset == 10
    world.of.archive_dead(world.buried)
    assert world.writes[-1] == Write(0, 10, [StateBatch(0, 1, 1, ARCHIVED)])
    assert world.of.start_offset == 10
    assert world.states() == []


@pytest.mark.parametrize("refusal", [ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_failed_last_delivery_is_written_to_the_queue(refusal: ErrorCode) -> None:
    world = World(has_dead_letter_queue=True, deliveries=2)
    world.fetch(most=10)
    world.acknowledge(0, 9, RELEASE)
    world.fetch(most=10)
    assert world.buried == []
    world.refusal = refusal
    world.clock.advance(LOCK_MS)
    assert world.buried == [DeadRecords(0, 9, 2, EXCEEDED)]
    world.of.archive_dead(world.buried)
    assert world.of.start_offset == 10


def test_no_record_is_written_to_the_queue_if_the_state_cannot_be_written() -> None:
    world = World(has_dead_letter_queue=True)
    world.fetch(most=10)
    world.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.acknowledge(0, 9, REJECT) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (world.buried, world.states()) == ([], [(0, 9, ACQUIRED, 1)])


def test_records_on_their_way_to_the_queue_are_written_after_a_restart() -> None:
    world = World(0, [StateBatch(0, 4, 5, ARCHIVING), StateBatch(5, 9, 1, ARCHIVING)], has_dead_letter_queue=True)
    assert world.buried == []
    world.of.resume()
    assert world.buried == [DeadRecords(0, 4, 5, EXCEEDED), DeadRecords(5, 9, 1, REJECTED)]
    world.of.archive_dead(world.buried)
    assert world.of.start_offset == 10


def test_a_fenced_leader_archives_nothing() -> None:
    world = World(has_dead_letter_queue=True)
    world.fetch(most=10)
    world.acknowledge(0, 9, REJECT)
    world.of.fence()
    world.of.archive_dead(world.buried)
    assert world.states() == [(0, 9, ARCHIVING, 1)]


def test_more_ranges_than_a_state_can_hold_are_rejected() -> None:
    records = 3 * MAX_BATCHES
    world = World()
    world.fetch(most=records, size=records, spans=[Span(0, records - 1)])
    assert world.acknowledge(0, records - 1, *[ACCEPT, RELEASE] * (records // 2)) is ErrorCode.INVALID_REQUEST
    assert world.acknowledge(0, records - 1, ACCEPT) is ErrorCode.NONE


def test_aborted_records_are_excluded_from_acquired_ranges() -> None:
    chance = random.Random(5)

    def choose_spans() -> list[Span]:
        bounds = sorted(chance.sample(range(60), 2 * chance.randint(0, 8)))
        return [Span(first, end - 1) for first, end in zip(bounds[::2], bounds[1::2], strict=True)]

    for _ in range(300):
        acquired = [Acquired(first, last, 1) for first, last in choose_spans()]
        spans = choose_spans()
        remaining = exclude_spans(acquired, spans)
        assert offsets_in(remaining) == sorted({*offsets_in(acquired)}.difference(offsets_in(spans)))
        assert exclude_spans(acquired, merge_neighbors(spans)) == remaining


def test_many_aborted_batches_are_archived() -> None:
    spans = [Span(offset, offset) for offset in range(2_000)]
    world = World()
    acquired = world.fetch(most=2_000, size=2_000, spans=spans)
    assert world.of.archive(acquired, spans[::2]) == [Acquired(offset, offset, 1) for offset in range(1, 2_000, 2)]
    assert len(world.states()) == 2_000
