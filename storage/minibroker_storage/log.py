"""One partition's log as clients see it: appends at its end, reads from anywhere in it (Kafka's `UnifiedLog`).

One file of more than 500 lines, because reads, appends, retention and truncation keep the same few offsets in step.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self

from minibroker_protocol.records.header import (
    LAST_OFFSET_DELTA,
    MAX_TIMESTAMP,
    NO_PARTITION_LEADER_EPOCH,
    PRODUCER_ID,
    BatchHeader,
    make_header,
    read_entry_header,
    stamp,
)
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.checkpoints import LeaderEpochCheckpoint
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.errors import LogClosedError, LogWriteError, OffsetOutOfRangeError, RecordBatchTooLargeError
from minibroker_storage.files import FilePool, LogSlice
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, delete_directory_name, rename_if_there
from minibroker_storage.local_log import LocalLog
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.recovery import LoadedLog, load_log, replay_producers
from minibroker_storage.retention import count_below, count_beyond_size, count_expired
from minibroker_storage.segment import LogSegment

SNAPSHOT_INTERVAL_BYTES: Final = 32 * 1024 * 1024
"""Whenever a segment has grown by so much, the producers are written down: a start replays what lies behind that."""
SNAPSHOT_INTERVAL_BYTES_PER_PRODUCER: Final = 4096
"""Less often with many producers, so that writing them down stays below a hundredth of the work."""

AppendListener = Callable[[Any], None]
"""A function that is called with the log after each append."""
MakeDirectory = Callable[[], None]
"""Makes a partition's directory and the files of its empty first segment. `OSError`, and there is nothing of it."""

_ALWAYS_LOOK: Final = -2
"""A limit that every batch exceeds: the first batch of a segment has not said yet when the segment's time is over."""


class Log(LocalLog):
    """The batches of one partition, the offsets that clients may read, the producers and the leader epochs.

    Appends are staged: `append` stamps a batch and assigns its offset, `commit` writes all staged batches in one call
    and lets readers see them. The caller commits before the buffers of the batches are used again. There are no
    replicas, so that the high watermark is the log end offset as soon as a commit returns.

    Bytes: a directory `<topic>-<partition>`; see `LogSegment`, `OffsetIndex`, `TimeIndex`, `TransactionIndex`,
    `ProducerStateManager` and `LeaderEpochCheckpoint`. Crash rule: what `commit` has written survives the death of the
    process, what `flush` has written that of the machine; `open` gets the kind, and repairs. Segments come and
    go by renames, see `replacement`. A failed write is undone: the log then is as it was before the staged appends,
    and takes appends again.

    Not thread-safe: one event loop owns a log.
    """

    __slots__ = (
        "_byte_limit",
        "_epoch",
        "_failure",
        "_is_made",
        "_listeners",
        "_make_directory",
        "_offset_limit",
        "_roll_after",
        "_snapshot_at",
        "_staged_epochs",
        "epochs",
        "high_watermark",
        "log_start_offset",
        "producers",
    )

    def __init__(
        self, directory: str, config: LogConfig, files: FilePool, loaded: LoadedLog, *, recovery_point: int
    ) -> None:
        super().__init__(
            directory,
            config,
            files,
            loaded.segments,
            log_end_offset=loaded.log_end_offset,
            recovery_point=max(recovery_point, loaded.log_start_offset),
        )
        self._listeners: dict[AppendListener, None] = {}
        #: Makes the directory before the first write; None where it is there.
        self._make_directory: MakeDirectory | None = None
        self._is_made = True
        self.producers: ProducerStateManager = loaded.producers
        self.epochs: LeaderEpochCheckpoint = loaded.epochs
        #: The first offset that clients may read.
        self.log_start_offset: int = loaded.log_start_offset
        #: Readers see what lies below.
        self.high_watermark: int = loaded.log_end_offset
        self._epoch = self.epochs.latest_epoch
        self._staged_epochs: LeaderEpochCheckpoint | None = None
        self._failure: LogWriteError | None = None
        self._snapshot_at = 0
        self._segment_begins()

    @classmethod
    def open(
        cls,
        directory: str,
        *,
        config: LogConfig,
        files: FilePool,
        now_ms: int,
        last_stop: LastStop,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> Self:
        """Open the log in an existing directory; see `load_log` for what `last_stop` means and what is repaired.

        `recovery_point` and `log_start_offset` are the ones that the owner checkpointed. Checkpoint the recovery point
        again afterwards: it may have gone back. `OSError`.
        """
        loaded = load_log(
            directory,
            config,
            files,
            last_stop=last_stop,
            recovery_point=recovery_point,
            now_ms=now_ms,
            log_start_offset=log_start_offset,
        )
        return cls(directory, config, files, loaded, recovery_point=recovery_point)

    @classmethod
    def begin(
        cls, directory: str, *, config: LogConfig, files: FilePool, now_ms: int, make_directory: MakeDirectory
    ) -> Self:
        """The empty log of a partition without a directory. Touches no file: the first append calls `make_directory`.

        An append for which that fails is refused with `LogWriteError`; the next one tries again.
        """
        loaded = LoadedLog(
            [LogSegment(directory, 0, config, files, size=0, created_ms=now_ms)],
            ProducerStateManager(directory, config.producer_id_expiration_ms),
            LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}"),
            log_start_offset=0,
            log_end_offset=0,
        )
        log = cls(directory, config, files, loaded, recovery_point=0)
        log._make_directory = make_directory
        log._is_made = False
        return log

    def __repr__(self) -> str:
        return f"Log({self._directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The configuration in force. A new one counts from the next batch; index sizes from the next segment."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.producers.set_expiration_ms(config.producer_id_expiration_ms)
        self._segments.set_index_interval(config.index_interval_bytes)
        self._active.set_jitter(config)
        self._set_limits()

    def _segment_begins(self) -> None:
        self._take_active()
        self._plan_snapshot()

    def _plan_snapshot(self) -> None:
        interval = max(SNAPSHOT_INTERVAL_BYTES, len(self.producers.active) * SNAPSHOT_INTERVAL_BYTES_PER_PRODUCER)
        self._snapshot_at = self._active.size + interval
        self._set_limits()

    def _set_limits(self) -> None:
        self._byte_limit = -1 if self._closed else min(self._config.segment_bytes, self._snapshot_at)
        self._offset_limit = self._active.base_offset + INT32_MAX
        self._roll_after = _ALWAYS_LOOK

    # Reading

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided: what read_committed consumers see."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def read(
        self, offset: int, max_bytes: int, *, min_one_batch: bool = True, end_offset: int | None = None
    ) -> LogSlice:
        """Where the bytes from `offset` on are: the start of the batch that holds it, and how many bytes to take.

        At most `max_bytes`, ending with a whole batch where the index knows one (Kafka cuts it), but with
        `min_one_batch` at least the first one whole; never past the high watermark or the batch of `end_offset`; from
        one segment only. A gap is skipped. The bytes are not touched. At the end the slice is empty.
        `OffsetOutOfRangeError` below the log start or above the log end offset. `OSError`.
        """
        limit = self.high_watermark
        if end_offset is not None and end_offset < limit:
            limit = end_offset
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        if offset >= limit:
            return self._empty
        if limit == self.log_end_offset:  # consumers are usually at the end, and shall not pay for another call
            segment = self._active
            position = segment.recent_position(offset)
            if position is not None and segment.size - position <= max_bytes:
                return LogSlice(segment.log, position, segment.size - position)
        return self._locate(offset, max_bytes, limit, min_one_batch=min_one_batch)

    def readable_size(self, data: LogSlice, *, end_offset: int | None = None) -> int | None:
        """The number of bytes from the start of what `read` gave to the end of what may be read.

        None where this end is in a later segment. The slice is one that is not empty. `OSError`.
        """
        return self._size_up_to(
            data, self.high_watermark if end_offset is None else min(self.high_watermark, end_offset)
        )

    def resume_behind(self, data: LogSlice, offset: int) -> None:
        """Remember where a reader goes on that has taken less than `read` gave: with `offset`, behind whole batches."""
        if data.handle is self._active.log:
            self._active.resume_at(data.position + data.size, offset, offset)

    def add_append_listener(self, listener: AppendListener) -> None:
        """Have `listener` called with this log after each commit, whenever one of its ends moves, and when it closes.

        Its owner may call it, too. Takes constant time.
        """
        self._listeners[listener] = None

    def remove_append_listener(self, listener: AppendListener) -> None:
        """Stop calling `listener`; one that is not there is no error. Takes constant time, also from a listener."""
        self._listeners.pop(listener, None)

    def call_listeners(self) -> None:
        """Wake those that wait for the log to change."""
        for listener in tuple(self._listeners):
            listener(self)

    # Appending

    def append(self, batch: memoryview, header: tuple[int, ...], leader_epoch: int, now_ms: int) -> int:
        """Stage one whole, valid v2 batch with its header as it arrived; returns the base offset that it gets.

        The fields of the header may come without names, those of `BatchHeader` in their order.

        The bytes are stamped in place and must stay as they are until `commit`. Idempotent producers' batches went
        through `producers.check` before. May roll, which commits what was staged. `RecordBatchTooLargeError` when no
        segment can hold it. `LogWriteError` when rolling failed: the batch is not staged; if batches staged before
        are lost with it, `commit` says so too.
        """
        base_offset = self.next_offset
        last_offset = base_offset + header[LAST_OFFSET_DELTA]
        max_timestamp = header[MAX_TIMESTAMP]
        segment = self._active
        if (
            # One comparison each for all that is rare. `_byte_limit` is -1 for a closed or failed log, so that these
            # need no test.
            segment.end + len(batch) > self._byte_limit
            or max_timestamp > self._roll_after
            or last_offset > self._offset_limit
            or segment.is_full
            or leader_epoch != self._epoch
        ):
            self._prepare(len(batch), last_offset, max_timestamp, leader_epoch, now_ms)
            segment = self._active
        stamp(batch, base_offset, leader_epoch)
        if header[PRODUCER_ID] >= 0:
            # Only batches of idempotent producers need the fields by name: the others are spared the object.
            named = header if isinstance(header, BatchHeader) else make_header(header)
            aborted = self.producers.update(named, base_offset, batch)
            if aborted is not None:
                segment.stage_aborted(aborted)
        segment.stage(batch, base_offset, last_offset, max_timestamp, last_offset)
        self.next_offset = last_offset + 1
        return base_offset

    def append_message_set(
        self, data: memoryview, *, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int, now_ms: int
    ) -> int:
        """Stage a whole set of valid v0 or v1 messages; returns the offset of the first, which is `next_offset`.

        The messages have their offsets already. Nothing is stamped, since these formats have no leader epoch: the log
        forgets the epochs it knows, as Kafka does. As for the rest see `append`.
        """
        base_offset = self.next_offset
        segment = self._active
        if (
            segment.end + len(data) > self._byte_limit
            or max_timestamp > self._roll_after
            or last_offset > self._offset_limit
            or segment.is_full
            or self._epoch != NO_PARTITION_LEADER_EPOCH
        ):
            self._prepare(len(data), last_offset, max_timestamp, NO_PARTITION_LEADER_EPOCH, now_ms)
            segment = self._active
        first = read_entry_header(data).last_offset  # an index entry for the set points to its first message
        segment.stage(data, base_offset, first, max_timestamp, offset_of_max_timestamp)
        self.next_offset = last_offset + 1
        return base_offset

    def _prepare(self, size: int, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int) -> None:
        """Make room for an append where needed: a new segment, a snapshot, the segment's clock, a new leader epoch."""
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        if self._failure is not None:
            raise self._failure
        # As `UnifiedLog.append`: a new segment could not hold it either.
        if size > self._config.segment_bytes:
            raise RecordBatchTooLargeError(f"a batch of {size} bytes in segments of {self._config.segment_bytes}")
        self._begin_files()
        # The limits of `append` are cheap and may be too strict. This is Kafka's own rule.
        rolls = self._active.should_roll(size, last_offset, max_timestamp, self._config, now_ms)
        if rolls or self._active.end + size > self._snapshot_at:
            try:
                self.commit()
            except LogWriteError as error:
                # The caller has other batches staged, whose handlers wait for `commit`: it must hear of the loss there,
                # too.
                self._fail(error)
                raise
            if rolls:
                self._roll(now_ms)
            else:
                self._take_snapshot(passing=True)
        segment = self._active
        # The first batch starts the clock of `segment.ms` by its own timestamp, as in Kafka, not by the broker's clock.
        if not segment.end:
            segment.first_timestamp = max_timestamp
        if segment.first_timestamp is not None and segment.first_timestamp >= 0:
            self._roll_after = segment.first_timestamp + self._config.max_segment_ms - segment.roll_jitter_ms
        # The epoch begins at the next offset, so it is staged with the batch, and undone with it.
        if leader_epoch != self._epoch:
            self._stage_epoch(leader_epoch)

    @property
    def has_directory(self) -> bool:
        """Whether its directory has been made; until then it has held nothing."""
        return self._is_made

    def _begin_files(self) -> None:
        """Make directory and files if they are not there. `LogWriteError`."""
        if self._make_directory is None:
            return
        try:
            if not self._is_made:
                self._make_directory()
                self._is_made = True
                self._durability.directory_made()
            self._active.preallocate_indexes()
        except OSError as error:
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error
        self._make_directory = None

    def _stage_epoch(self, leader_epoch: int) -> None:
        if self._staged_epochs is None:
            self._staged_epochs = self.epochs.copy()
        if leader_epoch == NO_PARTITION_LEADER_EPOCH:
            self._staged_epochs.truncate_from_end(0)
        else:
            self._staged_epochs.assign(leader_epoch, self.next_offset)
        self._epoch = leader_epoch

    def commit(self) -> None:
        """Write what is staged, move the log end offset and the high watermark, call the listeners.

        `LogWriteError` when a write fails, now or while rolling since the last commit: everything that was not
        written yet is undone, in the files and in memory; see the error's `log_end_offset` for what was. The log goes
        on.
        """
        if self._failure is not None:
            error, self._failure = self._failure, None
            self._undo_staged()
            raise error
        if self.next_offset == self.log_end_offset:
            return
        try:
            if self._staged_epochs is not None:
                # Before the batches (KIP-101): an epoch without records is cut at the next start, records without their
                # epoch are not found again by OffsetsForLeaderEpoch.
                self._staged_epochs.write()
            segment = self._active
            written = segment.size
            segment.commit()
            self.appended_bytes += segment.size - written
        except (OSError, LogClosedError) as error:
            self._undo_staged()
            # Frames of the traceback would keep the caller's buffers from being resized for as long as the error lives.
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error.with_traceback(None)
        if self._staged_epochs is not None:
            self.epochs, self._staged_epochs = self._staged_epochs, None
            self._durability.names_changed = True
        if self.producers.staged:
            self.producers.commit()
        # Only now may readers see the batches. There are no followers to wait for.
        self.log_end_offset = self.high_watermark = self.next_offset
        if self._listeners:
            self.call_listeners()

    def _fail(self, error: LogWriteError) -> None:
        """Remember for `commit` that batches staged before were lost inside `append`; until then nothing goes."""
        self._failure = error
        self._byte_limit = -1

    def _undo_staged(self) -> None:
        self._active.rollback()
        self.producers.rollback()
        self._staged_epochs = None
        self._epoch = self.epochs.latest_epoch
        self.next_offset = self.log_end_offset
        self._set_limits()

    # Segments

    def roll(self, now_ms: int) -> LogSegment:
        """Commit, then begin a new segment at the end unless the active one is empty. `LogWriteError`."""
        self.commit()
        if self._active.size:
            self._roll(now_ms)
        return self._active

    def _roll(self, now_ms: int) -> None:
        active = self._active
        if not active.size and active.base_offset == self.log_end_offset:
            return  # its indexes are too small for a single entry: a new segment would be no better
        # Kafka's order in `UnifiedLog.roll`: a snapshot at the base of each segment, so that a start replays one
        # segment at most.
        self._add_segment(now_ms)
        self._take_snapshot(passing=False)
        self._segment_begins()

    def take_producer_snapshot(self) -> None:
        """Commit, then write down what is known of the producers: a start has to replay less. `LogWriteError`."""
        self.commit()
        self._take_snapshot(passing=True)

    def _take_snapshot(self, *, passing: bool) -> None:
        if not self._is_made:
            return
        self.producers.map_end_offset = self.log_end_offset
        with contextlib.suppress(OSError):  # recovery then replays from the snapshot before
            self.producers.take_snapshot(passing=passing)
        self._plan_snapshot()

    def delete_old_segments(self, now_ms: int) -> int:
        """Let go of the oldest segments that the log need not keep; says how many.

        Those below the log start offset; with `cleanup.policy=delete` those beyond `retention.bytes` and
        `retention.ms`. If these are all, a new one is begun. Their files are only renamed: see `take_deleted_files`.
        The log start offset moves up to the first segment that is left. Pinned files stay readable. `LogWriteError`,
        `OSError`.
        """
        self.commit()
        # Whatever `cleanup.policy` says: DeleteRecords has promised that these are gone.
        removed = self._remove_oldest(count_below(self.segments, self.log_start_offset), now_ms)
        if self._config.delete:
            # Kafka's order (`UnifiedLog.deleteOldSegments`): size, then time.
            removed += self._remove_oldest(count_beyond_size(self.segments, self._config), now_ms)
            removed += self._remove_oldest(count_expired(self.segments, self._config, now_ms), now_ms)
        return removed

    def _remove_oldest(self, count: int, now_ms: int) -> int:
        if not count:
            return 0
        if count == len(self.segments):
            try:
                self._roll(now_ms)
            except LogWriteError:
                count -= 1  # a disk with no room for a new segment: keep the last one, and let the others go
                if not count:
                    raise
        # Before the files go: should a rename fail half-way, no reader is sent to a file that is gone.
        self.advance_log_start_offset(self.segments[count].base_offset)
        removed = self._remove_segments(count)
        for base_offset in removed:
            self.producers.delete_snapshot(base_offset)
        return len(removed)

    def replace_segments(self, base_offset: int, old_base_offsets: Sequence[int]) -> None:
        """Put the cleaned segment `base_offset` in the place of closed ones; see `replacement` for the order.

        Its `.cleaned` files are complete and on disk; there is no `.cleaned` file of a smaller offset. Pinned files
        stay readable. `StorageError` when one of the old segments is not there any more, and `OSError` when a file
        cannot be renamed: the cleaned files are removed.
        """
        self._swap_segments(base_offset, old_base_offsets)
        # The snapshot of the first one stays: the cleaned segment has its base offset.
        for old_base_offset in old_base_offsets[1:]:
            self.producers.delete_snapshot(old_base_offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Let the log begin at `offset` (DeleteRecords); a smaller one than now changes nothing. No segment is removed.

        `OffsetOutOfRangeError` above the high watermark. It needs no room on the disk.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.producers.on_log_start_offset_incremented(offset)
            if self.epochs.truncate_from_start(offset):
                with contextlib.suppress(OSError):  # opening the log cuts them again
                    self.epochs.write()
            self.call_listeners()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Drop everything from `offset` on, and with it the whole batch that holds it; the log then ends at `offset`.

        Staged batches are dropped, producers go back to that point. At or above the log end offset nothing is removed.
        `OSError`.
        """
        # Staged batches lie behind every offset that can be truncated to.
        self._undo_staged()
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        self._truncate_segments(offset, now_ms)
        # Producers can't be taken back batch by batch: go to a snapshot below, and replay the headers from there.
        self.producers.truncate_and_reload(self.log_start_offset, offset, now_ms)
        self._ends_at(offset)
        replay_producers(self.segments, self.producers, self.log_start_offset, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Drop everything and begin again at `offset`. Producers are forgotten. `OSError`."""
        self._undo_staged()
        self._begin_files()
        # Before the segments: a kill in between must not leave the producers of a log that is empty.
        self.producers.delete_snapshots()
        self._begin_at(offset, now_ms)
        self.log_start_offset = offset
        self.producers.truncate_fully_and_start_at(offset)
        self._ends_at(offset)

    def _ends_at(self, offset: int) -> None:
        self.log_end_offset = self.high_watermark = self.next_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.call_listeners()
        self._durability.truncate(offset)
        if self.epochs.truncate_from_end(offset):
            self.epochs.write()
        self._epoch = self.epochs.latest_epoch
        self._segment_begins()

    # The end

    def close(self) -> None:
        """Commit, trim the indexes, write a producer snapshot, close the files. A second call does nothing.

        Afterwards the directory opens with `LastStop.CLEAN`; a `flush` behind it lets that outlast the machine. A log
        without a directory leaves none.
        `LogWriteError`, `OSError`; the files are closed even then.
        """
        if self._closed:
            return
        try:
            self.commit()
            if not self._is_made:
                return
            self._active.become_inactive()
            self._durability.names_changed = True
            # A clean start trusts this snapshot, and replays nothing.
            self.producers.map_end_offset = self.log_end_offset
            self.producers.take_snapshot(passing=True)
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._byte_limit = -1
        listeners, self._listeners = tuple(self._listeners), {}
        self._close_segments()
        for listener in listeners:
            listener(self)

    def delete(self, target: str | None = None) -> str:
        """Close without writing and rename the directory to `<topic>-<p>.<uuid>-delete`; returns its new path.

        Quick, whatever the log's size; `layout.purge` then removes the directory. Pinned files stay readable.
        Another name may be given as `target`. `OSError`.
        """
        self._undo_staged()
        target = target or delete_directory_name(self._directory)
        rename_if_there(self._directory, target)
        self.abandon(target)
        return target

    def abandon(self, directory: str) -> None:
        """Close without writing: the log's directory was moved to `directory`. Pinned files stay readable."""
        self._undo_staged()
        self._directory = directory
        self._close_files()
        self.producers.move(directory)
        self.epochs.move(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")


class LogShape(NamedTuple):
    """A log as it was at one moment: its log start offset, and (base offset, bytes) of each segment."""

    start: int
    segments: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """The bytes of all segments."""
        return sum(size for _, size in self.segments)


def shape_of(log: Log) -> LogShape:
    """Return the outline of a log as it is now."""
    return LogShape(log.log_start_offset, tuple((each.base_offset, each.size) for each in log.segments))
