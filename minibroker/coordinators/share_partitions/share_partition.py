"""A share-partition: the records of one partition in one share group, from the first unfinished record (KIP-932).

This is a state machine without files and sockets. Its callers read the log and write the state. It implements Kafka's
`SharePartition`. All changes are synchronous, so other code never runs during a partial change. A change takes effect
only after the state is written.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from minibroker.clock import Clock
from minibroker.cluster.routing.routes import RefusedRequestError
from minibroker.coordinators.groups.deadlines import Deadline
from minibroker.coordinators.share_partitions.in_flight import (
    EXCEEDED,
    REJECT,
    REJECTED,
    RENEW,
    STATES,
    Acknowledgement,
    Acquired,
    AcquisitionRequest,
    Batches,
    Changes,
    DeadRecords,
    InFlightBatch,
    Limits,
    RecordRange,
    RecordState,
    Span,
    Write,
    end_of_batch,
    exclude_spans,
    find_dead_records,
    split_into_ranges,
    split_into_runs,
    throttling_threshold,
)
from minibroker.coordinators.share_state.state import KEEP_START, MAX_BATCHES, StateBatch, combine, merge_neighbors
from minibroker_protocol.error_codes import ErrorCode

_MAX_UNTHROTTLED_LIMIT: Final = 2
"""The delivery limit up to which a record's last delivery is not made alone."""
_logger = logging.getLogger(__name__)


class SharePartition:
    """A share-partition on its leader.

    Args:
        start_offset: The first unfinished offset.
        batches: The sorted batches of the saved state. Offsets between these batches were in flight, and are
            available again.
        limits: Returns the current limits of the group.
        write: Writes a change of the state, and returns an error code.
        on_change: Called when more records may be available.
        write_dead_letters: Writes records to the dead-letter queue and calls `archive_dead` afterwards.

    Attributes:
        start_offset: The first unfinished offset (SPSO).
        end_offset: The last offset in flight (SPEO), or the next offset if none is in flight.
        is_fenced: True after another broker became leader, or the partition lost its leader. Do not use a fenced
            share-partition.
    """

    def __init__(
        self,
        clock: Clock,
        start_offset: int,
        batches: Iterable[StateBatch],
        limits: Callable[[], Limits],
        write: Callable[[Write], ErrorCode],
        on_change: Callable[[], None],
        write_dead_letters: Callable[[Sequence[DeadRecords]], None] = lambda _: None,
    ) -> None:
        self._clock = clock
        self._limits = limits
        self._write = write
        self._on_change = on_change
        self._write_dead_letters = write_dead_letters
        self._batches = Batches()
        self._looks_for_available = False
        self._lock_deadline = Deadline(clock, self._end_locks)
        self.is_fenced = False
        self.start_offset = self.end_offset = start_offset
        self._load(batches)

    def _load(self, batches: Iterable[StateBatch]) -> None:
        next_offset = self.start_offset
        for batch in batches:
            # Records missing from the saved state were acquired when it was written. They are delivered again.
            if batch.first > next_offset:
                self._batches.add(RecordRange(next_offset, batch.first - 1, RecordState.AVAILABLE))
            self._batches.add(RecordRange(batch.first, batch.last, RecordState(batch.state), batch.deliveries))
            next_offset = batch.last + 1
        if self._batches:
            self._looks_for_available = True
            self.end_offset = next_offset - 1
            self._advance()

    @property
    def in_flight(self) -> int:
        """The number of offsets from the start offset to the end offset, both included."""
        return self.end_offset - self.start_offset + 1 if self._batches else 0

    @property
    def ranges(self) -> Iterator[RecordRange]:
        """All ranges of offsets in flight, in order."""
        return self._batches.ranges

    @property
    def delivery_complete_count(self) -> int:
        """The number of finished offsets above the start offset."""
        return self._batches.count_finished(self.start_offset)

    @property
    def next_fetch_offset(self) -> int:
        """The offset at which to read the log: the first available offset, or else the offset after the end."""
        if not self._batches or self.start_offset > self._batches[-1].last:
            self._looks_for_available = False
            return self.end_offset
        if self._looks_for_available:
            if (available := self._batches.first_available) is not None:
                return available.first
            self._looks_for_available = False
        return self.end_offset + 1

    @property
    def can_acquire(self) -> bool:
        """Whether a member could acquire records if the log has any."""
        return self.next_fetch_offset != self.end_offset + 1 or self.in_flight < self._limits().locks

    def count_acquirable(self, offset: int) -> int:
        """Return the maximum number of offsets that `acquire` accepts, counted from `offset`."""
        return max(self.end_offset + 1 - offset, 0) + max(self._limits().locks - self.in_flight, 0)

    def acquire(self, request: AcquisitionRequest, fetch_offset: int, spans: Sequence[Span]) -> list[Acquired]:
        """Acquire records that were read from the log.

        `spans` are the batches that were read, beginning at `fetch_offset`.
        """
        # The log was read in time slices. Meanwhile a member may have acknowledged all of these records.
        if self.is_fenced or request.max_records <= 0 or not spans or spans[-1].last < self.start_offset:
            return []
        max_records, last = self._limit_acquisition(fetch_offset, request.max_records, spans[-1].last)
        if max_records <= 0:
            return []
        first = spans[0].first
        if fetch_offset < first:
            # Compaction has removed the offsets before the first batch read. No member will ever acknowledge them.
            self._archive_missing(fetch_offset, first)
        floor, base = self._batches.find_floor(first), first
        if floor is None:
            base = max(first, self.start_offset)
        elif floor.last >= first:
            base = floor.first
        request = request._replace(max_records=max_records)
        if batches := self._batches.find_between(min(first, base), last):
            acquired = self._acquire_known(request, batches, Span(first, last), spans)
        else:
            acquired = self._acquire_new(request, base, last, spans)
        self._watch_locks()
        return acquired

    def _limit_acquisition(self, fetch_offset: int, max_records: int, last: int) -> tuple[int, int]:
        """Return the maximum number of records to acquire, and the last offset to acquire.

        Kafka's `lastOffsetAndMaxRecordsToAcquire`.
        """
        max_acquired = min(max_records, self._limits().locks - self.in_flight)
        if max_acquired > 0:
            return max_acquired, last
        # At the lock limit, no new records can be acquired, but released records can be delivered again.
        if fetch_offset > self.end_offset:
            return 0, last
        return min(max_records, self.end_offset - fetch_offset + 1), min(last, self.end_offset)

    def _acquire_new(self, request: AcquisitionRequest, first: int, last: int, spans: Sequence[Span]) -> list[Acquired]:
        if not self._batches:
            first = max(first, self.end_offset)
        if request.max_records < last - first + 1:
            # Acquire whole batches of the log if possible, because a divided batch needs a state for each half.
            last = end_of_batch(first + request.max_records - 1, spans)
        if request.is_strict:
            acquired = [Acquired(first, min(last, first + request.max_records - 1), 1)]
        else:
            acquired = split_into_ranges(first, last, spans, request.batch_size)
        deadline_ms = self._new_deadline_ms()
        for new in acquired:
            self._batches.add(RecordRange(new.first, new.last, RecordState.ACQUIRED, 1, request.member, deadline_ms))
        if acquired[-1].last < last:  # The rest of the log batch stays available.
            batch = self._batches[self._batches.index_of(first)]
            batch.ranges.append(RecordRange(acquired[-1].last + 1, last, RecordState.AVAILABLE))
            batch.last, batch.is_split = last, True
            self._looks_for_available = True
        if self._batches[0].first == first:
            self.start_offset = first
        self.end_offset = max(self.end_offset, last)
        return acquired

    def _acquire_known(
        self, request: AcquisitionRequest, in_flight: Sequence[InFlightBatch], span: Span, spans: Sequence[Span]
    ) -> list[Acquired]:
        """Acquire the available records of the batches in flight, then new records after these batches."""
        acquired: list[Acquired] = []
        count, room = 0, request.max_records
        throttled = throttling_threshold(self._limits().deliveries)
        for batch in in_flight:
            if count >= room:
                break
            is_throttled = batch.is_throttled(span.first, span.last, throttled)
            # A record that may crash members is delivered alone, so that no other record is lost with it.
            if is_throttled and count > 0:
                return acquired
            if (
                batch.first < span.first
                or batch.last > span.last
                or batch.is_split
                or is_throttled
                or (request.is_strict and batch.size > room - count)
            ):
                subset = self._acquire_some(request, room - count, batch, span)
                acquired += subset
                count += sum(new.last - new.first + 1 for new in subset)
                if is_throttled and subset:
                    return acquired
                continue
            (records,) = batch.ranges
            if records.state is RecordState.AVAILABLE:
                self._acquire_range(records, request.member)
                acquired.append(Acquired(records.first, records.last, records.deliveries))
                count += batch.size
        if count < room and in_flight[-1].last < span.last:
            acquired += self._acquire_new(
                request._replace(max_records=room - count), in_flight[-1].last + 1, span.last, spans
            )
        return acquired

    def _acquire_some(self, request: AcquisitionRequest, room: int, batch: InFlightBatch, span: Span) -> list[Acquired]:
        """Acquire the available records of one batch (`acquireSubsetBatchRecords`).

        A record whose next delivery is the last one is acquired alone. A record with many deliveries is acquired
        with only a few others, so that a record that crashes members affects few others.
        """
        limit = self._limits().deliveries
        throttled = throttling_threshold(limit)
        acquired: list[Acquired] = []
        count, max_throttled = 0, None
        if not batch.is_split and batch.ranges[0].state is not RecordState.AVAILABLE:
            return acquired
        batch.is_split = True
        for records in batch.iterate_ranges(span.first, span.last):
            if records.state is not RecordState.AVAILABLE:
                continue
            is_last_time = limit > _MAX_UNTHROTTLED_LIMIT and records.deliveries == limit - 1
            if is_last_time and count:
                break
            if records.deliveries >= throttled and max_throttled is None:
                # Each delivery halves the number of records, so a bad record is found in a few rounds, as in a
                # bisection.
                max_throttled = max(1, batch.size >> (records.deliveries - throttled + 1))
            size_limits = [1] if is_last_time else []
            size_limits += [room - count] if request.is_strict else []
            size_limits += [max_throttled - count] if max_throttled is not None and max_throttled > count else []
            size = min([records.size, *size_limits])
            if size < records.size:  # The remainder stays available.
                batch.ranges.insert(batch.ranges.index(records) + 1, records.split_at(records.first + size))
            self._acquire_range(records, request.member)
            acquired.append(Acquired(records.first, records.last, records.deliveries))
            count += size
            if size_limits and size == min(size_limits):
                break
        batch.join()
        return merge_neighbors(acquired)

    def _acquire_range(self, records: RecordRange, member: str) -> None:
        records.put(RecordState.ACQUIRED, member, self._new_deadline_ms())
        records.deliveries += 1

    def _archive_missing(self, first: int, end: int) -> None:
        """Archive offsets that compaction has removed from the log (`maybeArchiveStaleBatches`)."""
        for batch in self._batches.between(first, end - 1):
            self._archive(batch, first, end - 1, RecordState.AVAILABLE)
            batch.join()

    def archive(self, acquired: Sequence[Acquired], spans: Sequence[Span]) -> list[Acquired]:
        """Archive acquired records of aborted transactions, because no member may get them.

        Returns:
            The ranges that remain acquired.
        """
        changed: dict[InFlightBatch, None] = {}
        for span in merge_neighbors(spans):
            for batch in self._batches.between(span.first, span.last):
                self._archive(batch, span.first, span.last, RecordState.ACQUIRED)
                changed[batch] = None
        for batch in changed:
            batch.join()
        return exclude_spans(acquired, spans)

    def _archive(self, batch: InFlightBatch, first: int, last: int, state: RecordState) -> None:
        if not batch.is_split and batch.ranges[0].state is not state:
            return
        for records in batch.iterate_ranges(first, last):
            if records.state is state:
                records.put(RecordState.ARCHIVED)
                self._looks_for_available = True

    def acknowledge(self, member: str, acknowledgements: Sequence[Acknowledgement]) -> ErrorCode:
        """Apply a member's acknowledgements: all of them, or none if there is an error.

        Returns:
            - NONE: The acknowledgements are applied.
            - INVALID_REQUEST: A type does not exist, an offset is past the end, or the state cannot hold that many
              ranges.
            - INVALID_RECORD_STATE: The member has not acquired all of the records.
            - An error of the share coordinator.
        """
        if self.in_flight > MAX_BATCHES:
            count = sum(len(item.types) for item in acknowledgements if item.last >= self.start_offset)
            if 2 * count + sum(1 for _ in self.ranges) > MAX_BATCHES:
                return ErrorCode.INVALID_REQUEST
        changes = Changes()
        try:
            for acknowledgement in acknowledgements:
                self._acknowledge(member, acknowledgement, changes)
        except RefusedRequestError as refused:
            # Undo the whole request, because the response cannot tell the member which part was applied.
            changes.roll_back()
            return refused.code
        return self._write_changes(changes)

    def _acknowledge(self, member: str, acknowledged: Acknowledgement, changes: Changes) -> None:
        if any(kind not in STATES and kind != RENEW for kind in acknowledged.types):
            raise RefusedRequestError(ErrorCode.INVALID_REQUEST)
        # Retention has moved the start past these offsets. As in Kafka, that is not an error.
        if acknowledged.last < self.start_offset:
            return
        floor = self._batches.find_floor(acknowledged.first)
        if floor is None and acknowledged.first < self.start_offset:
            floor = self._batches.find_floor(self.start_offset)
        if floor is None:
            raise RefusedRequestError(ErrorCode.INVALID_RECORD_STATE)
        batches = self._batches.find_between(floor.first, acknowledged.last)
        if not acknowledged.first <= acknowledged.last <= batches[-1].last or batches[-1].last < acknowledged.first:
            raise RefusedRequestError(ErrorCode.INVALID_REQUEST)
        for batch in batches:
            changes.note(batch)
        for first, last, kind in split_into_runs(acknowledged):
            begin = max(first, self.start_offset)
            for batch in self._batches.between(begin, last):
                for records in batch.iterate_ranges(begin, last):
                    self._change_state(member, records, kind, changes)

    def _change_state(self, member: str, records: RecordRange, kind: int, changes: Changes) -> None:
        if records.state is not RecordState.ACQUIRED or records.member != member:
            raise RefusedRequestError(ErrorCode.INVALID_RECORD_STATE)
        # The lock is renewed (KIP-1222). The state stays the same, so nothing is written.
        if kind == RENEW:
            if not self._limits().renews:
                raise RefusedRequestError(ErrorCode.INVALID_RECORD_STATE)
            records.deadline_ms = self._new_deadline_ms()
        elif kind == REJECT and self._limits().has_dead_letter_queue:
            self._end_lock(records, RecordState.ARCHIVING, changes, REJECTED)
        else:
            self._end_lock(records, STATES[kind], changes)

    def release(self, member: str) -> None:
        """Release all records that a member has acquired, because its session is closed."""
        if not self.is_fenced:
            self._release(lambda records: records.member == member)

    def _release(self, should_release: Callable[[RecordRange], bool]) -> ErrorCode:
        """Release the acquired ranges for which `should_release` returns true."""
        changes = Changes()
        released = (
            (batch, records)
            for batch in self._batches
            for records in batch.ranges  # If a range is split below, its second part comes next.
            if records.state is RecordState.ACQUIRED and should_release(records)
        )
        for batch, records in released:
            changes.note(batch)
            # Records below the start offset are no longer in the log. Only later records can be delivered again.
            if records.first < self.start_offset <= records.last:
                batch.ranges.insert(batch.ranges.index(records) + 1, records.split_at(self.start_offset))
                batch.is_split = True
            state = RecordState.ARCHIVED if records.last < self.start_offset else RecordState.AVAILABLE
            self._end_lock(records, state, changes)
        return self._write_changes(changes)

    def _end_lock(self, records: RecordRange, state: RecordState, changes: Changes, reason: str = EXCEEDED) -> None:
        """End a member's lock on a range, and change the range's state.

        Records that have reached the delivery limit are archived instead of released.
        """
        limits = self._limits()
        if state is RecordState.AVAILABLE and records.deliveries >= limits.deliveries:
            state = RecordState.ARCHIVING if limits.has_dead_letter_queue else RecordState.ARCHIVED
        records.put(state)
        changes.add(records, reason)

    def _write_changes(self, changes: Changes) -> ErrorCode:
        """Write the changes. If the write fails, undo them."""
        self._watch_locks()
        if not changes.states:
            return ErrorCode.NONE
        # The number of batches in a coordinator record is limited, so equal neighbors are merged.
        states = changes.states if len(changes.states) <= MAX_BATCHES else combine((), changes.states, KEEP_START)
        # An acknowledgement that is not saved must not take effect (KIP-932). After a restart, its records would be
        # delivered twice without any error.
        if code := self._write(Write(self.start_offset, self.delivery_complete_count, states)):
            changes.roll_back()
            self._watch_locks()
            return code
        self._apply_changes(changes.dead)
        return ErrorCode.NONE

    def _apply_changes(self, dead: Sequence[DeadRecords] = ()) -> None:
        for batch in self._batches:
            if len(batch.ranges) > 1:
                batch.join()
        self._looks_for_available = True
        self._advance()
        self._on_change()
        if dead:
            self._write_dead_letters(dead)

    def resume(self) -> None:
        """Write records to the dead-letter queue again if they were on their way to it when the state was saved."""
        if dead := find_dead_records(self.ranges, self._limits().deliveries):
            self._write_dead_letters(dead)

    def archive_dead(self, dead: Sequence[DeadRecords]) -> None:
        """Archive records after the attempt to write them to the dead-letter queue (`initiateDLQAndArchive`).

        They are archived whether or not that write succeeded.
        """
        if self.is_fenced:
            return
        for item in dead:
            for batch in self._batches.between(item.first, item.last):
                self._archive(batch, item.first, item.last, RecordState.ARCHIVING)
        states = [StateBatch(item.first, item.last, item.deliveries, int(RecordState.ARCHIVED)) for item in dead]
        if code := self._write(Write(self.start_offset, self.delivery_complete_count, states)):
            _logger.warning("records are archived, and the state is not written: %s", code.name)
        self._apply_changes()

    def _new_deadline_ms(self) -> float:
        return self._clock.monotonic_ms() + self._limits().lock_ms

    def _watch_locks(self) -> None:
        """Set the timer to the time at which the first lock expires."""
        first_ms = self._batches.first_deadline_ms
        if first_ms is None or self.is_fenced:
            self._lock_deadline.cancel()
        else:
            self._lock_deadline.restart(max(first_ms - self._clock.monotonic_ms(), 0))

    def _end_locks(self) -> None:
        """Release records whose locks have expired, even if the state cannot be written."""
        now_ms = self._clock.monotonic_ms()

        def is_late(records: RecordRange) -> bool:
            return records.deadline_ms is not None and records.deadline_ms <= now_ms

        if code := self._release(is_late):
            # Even if the coordinator is unavailable, a lost member must not keep its records.
            _logger.warning("locks of records have ended, and the state is not written: %s", code.name)
            changes = Changes()
            for late_range in filter(is_late, self._batches.ranges):
                self._end_lock(late_range, RecordState.AVAILABLE, changes)
            self._apply_changes(changes.dead)
        self._watch_locks()

    def move_start(self, log_start_offset: int) -> None:
        """Move the start offset, and archive available records that left the log (`updateCacheAndOffsets`)."""
        if log_start_offset <= self.start_offset:
            return
        for batch in self._batches:
            if batch.first < log_start_offset:
                self._archive(batch, self.start_offset, log_start_offset - 1, RecordState.AVAILABLE)
                batch.join()
        self.start_offset = log_start_offset
        self.end_offset = max(self.end_offset, log_start_offset) if self._batches else log_start_offset

    def fence(self) -> None:
        """Mark the share-partition as fenced, and stop its timer."""
        self.is_fenced = True
        self._lock_deadline.cancel()

    def _advance(self) -> None:
        """Move the start offset past the finished records (`maybeUpdateCachedStateAndOffsets`)."""
        floor = self._batches.find_floor(self.start_offset)
        # Finished records above an unfinished record do not move the start offset.
        if floor is None or not floor.range_at(self.start_offset).state.is_final:
            return
        if (last_finished := self._batches.last_finished_range) is None:
            return
        if last_finished.last == self._batches[-1].last:
            self.start_offset = self.end_offset = last_finished.last + 1
            self._batches.clear()
            return
        index = self._batches.index_of(last_finished.last)
        if last_finished.last == self._batches[index].last:
            index += 1
            self.start_offset = max(self.start_offset, self._batches[index].first)
        else:
            self.start_offset = max(self.start_offset, last_finished.last + 1)
        del self._batches[:index]
