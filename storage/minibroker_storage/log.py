"""One partition's log as clients see it: appends at its end and reads anywhere (Kafka's `UnifiedLog`).

This is one file of more than 500 lines because reads, appends, retention and truncation share a few offsets.
"""

import contextlib
from collections.abc import Callable, Sequence
from copy import copy
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
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, delete_directory_name, rename_if_exists
from minibroker_storage.local_log import LocalLog
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.recovery import LoadedLog, load_log, replay_producers
from minibroker_storage.retention import count_below, count_beyond_size, count_expired
from minibroker_storage.segment import LogSegment

SNAPSHOT_INTERVAL_BYTES: Final = 32 * 1024 * 1024
"""Bytes that a segment grows between producer snapshots. A start replays the log after the newest snapshot."""
SNAPSHOT_INTERVAL_BYTES_PER_PRODUCER: Final = 4096
"""Additional bytes between snapshots for each producer, so that writing snapshots takes less than 1 % of the work."""

AppendListener = Callable[[Any], None]
"""A function called with the log after each append."""
MakeDirectory = Callable[[], None]
"""Creates a partition's directory and its empty first segment. Leaves nothing behind if it raises `OSError`."""

_ALWAYS_CHECK: Final = -2
"""A timestamp limit that every batch exceeds, used until the first batch of a segment sets the time of its roll."""


class Log(LocalLog):
    """The batches of one partition, the offsets visible to clients, the producers and the leader epochs.

    `append` stages a batch after stamping it with its offset and leader epoch. `commit` writes all staged batches
    in one call and makes them visible to readers. The caller must commit before it reuses the buffers of the
    batches. Since there are no replicas, the high watermark equals the log end offset after each commit, unless it is
    held (see `hold`).

    A log is stored in a directory `<topic>-<partition>`; see `LogSegment`, `OffsetIndex`, `TimeIndex`,
    `TransactionIndex`, `ProducerStateManager` and `LeaderEpochCheckpoint` for its files. Committed batches survive
    a process crash, and flushed batches survive a machine crash. `open` repairs the files according to the kind of
    crash. Segments are added and removed by renaming files (see `replacement`). A failed write is undone: the log
    returns to its state before the staged appends and accepts further appends.

    A log is not thread-safe: one event loop owns it.
    """

    __slots__ = (
        "_byte_limit",
        "_epoch",
        "_failure",
        "_listeners",
        "_make_directory",
        "_offset_limit",
        "_roll_after",
        "_snapshot_at",
        "_staged_epochs",
        "epochs",
        "has_directory",
        "high_watermark",
        "is_held",
        "log_start_offset",
        "producers",
    )

    def __init__(
        self, directory: str, config: LogConfig, files: FilePool, loaded: LoadedLog, recovery_point: int
    ) -> None:
        super().__init__(directory, config, files, loaded, recovery_point)
        self._listeners: dict[AppendListener, None] = {}
        #: The function that creates the directory before the first write, or None if the directory exists.
        self._make_directory: MakeDirectory | None = None
        #: Whether the log's directory exists. If it does not, the log has never held a record.
        self.has_directory = True
        self.producers: ProducerStateManager = loaded.producers
        self.epochs: LeaderEpochCheckpoint = loaded.epochs
        #: The first offset that clients may read.
        self.log_start_offset: int = loaded.log_start_offset
        #: Readers see only the records below this offset.
        self.high_watermark: int = loaded.log_end_offset
        #: Whether the high watermark is kept where it is, see `hold`.
        self.is_held = False
        self._epoch = self.epochs.latest_epoch
        self._staged_epochs: LeaderEpochCheckpoint | None = None
        self._failure: LogWriteError | None = None
        self._plan_snapshot()

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
        """Open the log in an existing directory and repair it (see `load_log`).

        The owner should checkpoint the recovery point again afterwards, since it may have moved back.

        Args:
            directory: the partition's directory.
            config: the log's configuration.
            files: the pool for the log's files.
            now_ms: the current time.
            last_stop: how the log was last closed. This determines what is repaired.
            recovery_point: the recovery point last checkpointed by the owner.
            log_start_offset: the log start offset last checkpointed by the owner.

        Raises:
            OSError: a file cannot be read or written.
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
        return cls(directory, config, files, loaded, recovery_point)

    @classmethod
    def begin(
        cls, directory: str, *, config: LogConfig, files: FilePool, now_ms: int, make_directory: MakeDirectory
    ) -> Self:
        """Create the empty log of a partition that has no directory yet, without accessing any file.

        The first append calls `make_directory`. If that fails, the append raises `LogWriteError`, and the next append
        tries again.
        """
        loaded = LoadedLog(
            [LogSegment(directory, 0, config, files, size=0, created_ms=now_ms)],
            ProducerStateManager(directory, config.producer_id_expiration_ms),
            LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}"),
            log_start_offset=0,
            log_end_offset=0,
        )
        log = cls(directory, config, files, loaded, 0)
        log._make_directory = make_directory
        log.has_directory = False
        return log

    def __repr__(self) -> str:
        return f"Log({self._directory!r}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def config(self) -> LogConfig:
        """The current configuration.

        A change applies from the next batch on. Changed index sizes apply from the next segment on.
        """
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.producers.expiration_ms = config.producer_id_expiration_ms
        for segment in self.segments:
            segment.index_interval_bytes = config.index_interval_bytes
        self._active.set_jitter(config)
        self._set_limits()

    def _plan_snapshot(self) -> None:
        interval = max(SNAPSHOT_INTERVAL_BYTES, len(self.producers.active) * SNAPSHOT_INTERVAL_BYTES_PER_PRODUCER)
        self._snapshot_at = self._active.size + interval
        self._set_limits()

    def _set_limits(self) -> None:
        self._byte_limit = -1 if self._closed else min(self._config.segment_bytes, self._snapshot_at)
        self._offset_limit = self._active.base_offset + INT32_MAX
        self._roll_after = _ALWAYS_CHECK

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction has ended. Consumers with read_committed read up to it."""
        unstable = self.producers.first_unstable_offset
        if unstable is None or unstable >= self.high_watermark:
            return self.high_watermark
        return max(unstable, self.log_start_offset)

    def hold(self) -> None:
        """Keep the high watermark where it is, as if no follower fetched any more. Appends continue.

        Commit staged batches first: their producers may not know that they have to wait. Transaction markers must not
        be appended meanwhile, because their transactions would have ended for readers.
        """
        self.is_held = True

    def release(self) -> None:
        """Move the high watermark to the log end offset, and let it follow again."""
        self.is_held = False
        if self.high_watermark < self.log_end_offset:
            self.high_watermark = self.log_end_offset
            self.call_listeners()

    def read(
        self, offset: int, max_bytes: int, *, min_one_batch: bool = True, end_offset: int | None = None
    ) -> LogSlice:
        """Return the slice of a log file for a fetch from `offset`, without reading its bytes.

        The slice starts with the batch that contains `offset` or, if `offset` is in a gap, with the next batch. It
        stays within one segment and ends at a batch boundary if the index has a suitable one (Kafka cuts anywhere). At
        the end of the log, the slice is empty.

        Args:
            offset: the first offset to read.
            max_bytes: the maximum size of the slice.
            min_one_batch: whether the first batch is returned whole, even if it is larger than `max_bytes`.
            end_offset: an upper limit for the slice. The high watermark always limits the slice as well.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start offset or above the log end offset.
            OSError: an index or log file cannot be read.
        """
        limit = self.high_watermark
        if end_offset is not None and end_offset < limit:
            limit = end_offset
        if offset < self.log_start_offset or offset > self.log_end_offset:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.log_end_offset)
        if offset >= limit:
            return self._empty
        # Fast path: most consumers read at the end of the log.
        if limit == self.log_end_offset:
            segment = self._active
            position = segment.recent_position(offset)
            if position is not None and segment.size - position <= max_bytes:
                return LogSlice(segment.log, position, segment.size - position)
        return self._locate(offset, max_bytes, limit, min_one_batch=min_one_batch)

    def readable_size(self, data: LogSlice, *, end_offset: int | None = None) -> int | None:
        """Return the number of readable bytes from the start of a slice returned by `read`.

        Returns None if the readable part ends in a later segment. The slice must not be empty.

        Raises:
            OSError: an index or log file cannot be read.
        """
        limit = self.high_watermark if end_offset is None else min(self.high_watermark, end_offset)
        segment = self._active
        if data.handle is not segment.log:
            index = self._find_segment_index(data)
            if index is None or self._base_offsets[index + 1] <= limit:
                return None
            segment = self.segments[index]
        return (segment.size if limit == self.log_end_offset else segment.position_of(limit)) - data.position

    def resume_after(self, data: LogSlice, offset: int) -> None:
        """Remember that a reader of this slice, which ends with a whole batch, continues at `offset`."""
        if data.handle is self._active.log:
            self._active.resume_at(data.position + data.size, offset, offset)

    def add_append_listener(self, listener: AppendListener) -> None:
        """Register a function to call with this log after each commit, when its start or end moves, and when it closes.

        The owner may call the listeners as well. Registering takes constant time.
        """
        self._listeners[listener] = None

    def remove_append_listener(self, listener: AppendListener) -> None:
        """Unregister a listener if it is registered.

        This takes constant time. Listeners may call this method.
        """
        self._listeners.pop(listener, None)

    def call_listeners(self) -> None:
        """Call all listeners with this log."""
        for listener in tuple(self._listeners):
            listener(self)

    def append(self, batch: memoryview, header: tuple[int, ...], leader_epoch: int, now_ms: int) -> int:
        """Stage a complete, valid v2 batch, and return its assigned base offset.

        The bytes are stamped in place and must not change until `commit`. A batch of an idempotent producer must first
        pass `producers.check`. An append can roll the segment; rolling commits the staged batches.

        Args:
            batch: the bytes of the batch.
            header: the batch's header as received: a `BatchHeader`, or a plain tuple of its fields.
            leader_epoch: the leader epoch to stamp.
            now_ms: the current time.

        Raises:
            RecordBatchTooLargeError: the batch is larger than a segment.
            LogWriteError: rolling failed, and the batch is not staged. If earlier staged batches were lost as well,
                `commit` raises the error again.
        """
        base_offset = self.next_offset
        last_offset = base_offset + header[LAST_OFFSET_DELTA]
        max_timestamp = header[MAX_TIMESTAMP]
        segment = self._active
        if (
            # Each of these rare cases costs one comparison. A closed or failed log needs no comparison of its own,
            # because its `_byte_limit` is -1.
            segment.end + len(batch) > self._byte_limit
            or max_timestamp > self._roll_after
            or last_offset > self._offset_limit
            or segment.is_full
            or leader_epoch != self._epoch
        ):
            self._prepare_append(len(batch), last_offset, max_timestamp, leader_epoch, now_ms)
            segment = self._active
        stamp(batch, base_offset, leader_epoch)
        if header[PRODUCER_ID] >= 0:
            # Only batches of idempotent producers need named fields, so other batches skip creating the object.
            fields = header if isinstance(header, BatchHeader) else make_header(header)
            aborted = self.producers.update(fields, base_offset, batch)
            if aborted is not None:
                segment.stage_aborted(aborted)
        segment.stage(batch, base_offset, last_offset, max_timestamp, last_offset)
        self.next_offset = last_offset + 1
        return base_offset

    def append_message_set(
        self, data: memoryview, *, last_offset: int, max_timestamp: int, offset_of_max_timestamp: int, now_ms: int
    ) -> int:
        """Stage a set of valid v0 or v1 messages, and return the offset of the first one, which is `next_offset`.

        The messages must already have their offsets. They are not stamped, because these formats have no leader epoch;
        as in Kafka, the log drops its leader epochs. Otherwise this works like `append`.
        """
        base_offset = self.next_offset
        self._prepare_append(len(data), last_offset, max_timestamp, NO_PARTITION_LEADER_EPOCH, now_ms)
        first = read_entry_header(data).last_offset  # An index entry for the set points to its first message.
        self._active.stage(data, base_offset, first, max_timestamp, offset_of_max_timestamp)
        self.next_offset = last_offset + 1
        return base_offset

    def _prepare_append(self, size: int, last_offset: int, max_timestamp: int, leader_epoch: int, now_ms: int) -> None:
        """Prepare the log for an append: create files, roll, take a snapshot, or begin a leader epoch, as needed."""
        if self._closed:
            raise LogClosedError(f"{self._directory}: closed")
        if self._failure is not None:
            raise self._failure
        # A new segment could not hold the batch either (`UnifiedLog.append`).
        if size > self._config.segment_bytes:
            raise RecordBatchTooLargeError(f"a batch of {size} bytes in segments of {self._config.segment_bytes}")
        self._create_files()
        # The limits in `append` are cheap to check, but may be too strict. This is Kafka's actual rule.
        rolls = self._active.should_roll(size, last_offset, max_timestamp, self._config, now_ms)
        if rolls or self._active.end + size > self._snapshot_at:
            try:
                self.commit()
            except LogWriteError as error:
                # Handlers of other staged batches wait for `commit`, which must therefore report this error as well.
                # Reject appends until then.
                self._failure, self._byte_limit = error, -1
                raise
            if rolls:
                self._roll(now_ms)
            else:
                self._take_snapshot(temporary=True)
        segment = self._active
        # As in Kafka, `segment.ms` counts from the first batch's own timestamp, not from the broker's clock.
        if not segment.end:
            segment.first_timestamp = max_timestamp
        if segment.first_timestamp is not None and segment.first_timestamp >= 0:
            self._roll_after = segment.first_timestamp + self._config.max_segment_ms - segment.roll_jitter_ms
        # The epoch begins at the next offset, so it is staged and undone together with the batch.
        if leader_epoch != self._epoch:
            self._stage_epoch(leader_epoch)

    def _create_files(self) -> None:
        """Create the directory and its files if they do not exist.

        Raises:
            LogWriteError: they cannot be created.
        """
        if self._make_directory is None:
            return
        try:
            if not self.has_directory:
                self._make_directory()
                self.has_directory = True
                self._durability.is_new = self._durability.names_changed = True
            self._active.preallocate_indexes()
        except OSError as error:
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error
        self._make_directory = None

    def _stage_epoch(self, leader_epoch: int) -> None:
        if self._staged_epochs is None:
            self._staged_epochs = copy(self.epochs)
        if leader_epoch == NO_PARTITION_LEADER_EPOCH:
            self._staged_epochs.truncate_from_end(0)
        else:
            self._staged_epochs.assign(leader_epoch, self.next_offset)
        self._epoch = leader_epoch

    def commit(self) -> None:
        """Write the staged batches, advance the log end offset and high watermark, and call the listeners.

        Raises:
            LogWriteError: a write failed, now or in a roll since the last commit. Batches below the error's
                `log_end_offset` were written; all others are discarded, in the files and in memory. The log remains
                usable.
        """
        if self._failure is not None:
            error, self._failure = self._failure, None
            self._undo_staged()
            raise error
        if self.next_offset == self.log_end_offset:
            return
        try:
            if self._staged_epochs is not None:
                # Write the epoch before the batches (KIP-101). After a crash in between, the next start removes the
                # epoch without records. In the opposite order, a crash could leave records without an epoch, which
                # OffsetsForLeaderEpoch could not find.
                self._staged_epochs.write()
            segment = self._active
            written = segment.size
            segment.commit()
            self.appended_bytes += segment.size - written
        except (OSError, LogClosedError) as error:
            self._undo_staged()
            # Drop the traceback. Its frames refer to the caller's buffers, which cannot be resized while the error
            # exists.
            raise LogWriteError(f"{self._directory}: {error}", self.log_end_offset) from error.with_traceback(None)
        if self._staged_epochs is not None:
            self.epochs, self._staged_epochs = self._staged_epochs, None
            self._durability.names_changed = True
        if self.producers.staged:
            self.producers.commit()
        self.log_end_offset = self.next_offset
        # Readers may see the batches only from here on. There are no followers to wait for, unless one is simulated.
        if not self.is_held:
            self.high_watermark = self.next_offset
        if self._listeners:
            self.call_listeners()

    def _undo_staged(self) -> None:
        self._active.rollback()
        self.producers.rollback()
        self._staged_epochs = None
        self._epoch = self.epochs.latest_epoch
        self.next_offset = self.log_end_offset
        self._set_limits()

    def roll(self, now_ms: int) -> None:
        """Commit, then begin a new segment at the end of the log unless the active segment is empty.

        Raises:
            LogWriteError: a file cannot be written.
        """
        self.commit()
        if self._active.size:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> None:
        active = self._active
        if not active.size and active.base_offset == self.log_end_offset:
            # Rolling an empty segment would not help: it is full only if its indexes cannot hold a single entry, and
            # the indexes of a new segment would be no larger.
            return
        # As in Kafka's `UnifiedLog.roll`, there is a snapshot at the base of each segment, so a start replays at most
        # one segment.
        self._add_segment(now_ms)
        self._take_snapshot(temporary=False)

    def take_producer_snapshot(self) -> None:
        """Commit, then write a producer snapshot, which shortens the replay at the next start.

        Raises:
            LogWriteError: the staged batches cannot be written.
        """
        self.commit()
        self._take_snapshot(temporary=True)

    def _take_snapshot(self, *, temporary: bool) -> None:
        if not self.has_directory:
            return
        self.producers.map_end_offset = self.log_end_offset
        with contextlib.suppress(OSError):  # If this fails, recovery replays from the previous snapshot.
            self.producers.take_snapshot(temporary=temporary)
        self._plan_snapshot()

    def delete_old_segments(self, now_ms: int) -> int:
        """Remove the oldest segments that the log need not keep, and return their number.

        These are the segments below the log start offset and, with `cleanup.policy=delete`, those beyond
        `retention.bytes` and `retention.ms`. If all segments are to be removed, a new one is created first. The files
        are only renamed; see `take_deleted_files`. The log start offset advances to the first remaining segment. Pinned
        files stay readable.

        Raises:
            LogWriteError: staged batches or a new segment cannot be written.
            OSError: a file cannot be renamed.
        """
        self.commit()
        # Segments below the log start offset, which DeleteRecords advances, are removed under every `cleanup.policy`.
        removed = self._remove_oldest(count_below(self.segments, self.log_start_offset), now_ms)
        if self._config.delete:
            # Size comes before time, as in Kafka's `UnifiedLog.deleteOldSegments`.
            removed += self._remove_oldest(count_beyond_size(self.segments, self._config), now_ms)
            removed += self._remove_oldest(count_expired(self.segments, self._config, now_ms), now_ms)
        return removed

    def _remove_oldest(self, count: int, now_ms: int) -> int:
        if self.is_held:
            count = min(count, self.segment_index(self.high_watermark))
        if not count:
            return 0
        if count == len(self.segments):
            try:
                self._roll(now_ms)
            except LogWriteError:
                count -= 1  # Without disk space for a new segment, keep the active segment and remove only the others.
                if not count:
                    raise
        # Advance the offset before renaming the files, so that no reader opens a missing file after an error.
        self.advance_log_start_offset(self.segments[count].base_offset)
        removed = self._remove_segments(count)
        for base_offset in removed:
            self.producers.delete_snapshot(base_offset)
        return len(removed)

    def replace_segments(self, base_offset: int, old_base_offsets: Sequence[int]) -> None:
        """Replace closed segments with the cleaned segment `base_offset`. See `replacement` for the order of steps.

        The `.cleaned` files of that segment must be complete and on disk, and no `.cleaned` file with a smaller offset
        may exist. Pinned files stay readable.

        Raises:
            StorageError: one of the old segments no longer exists; the cleaned files are removed.
            OSError: a file cannot be renamed; the cleaned files are removed.
        """
        super().replace_segments(base_offset, old_base_offsets)
        # The first snapshot is kept, since the cleaned segment has the same base offset.
        for old_base_offset in old_base_offsets[1:]:
            self.producers.delete_snapshot(old_base_offset)

    def advance_log_start_offset(self, offset: int) -> None:
        """Advance the log start offset to `offset` (DeleteRecords), without removing segments.

        A lower offset is ignored. The method works even on a full disk.

        Raises:
            OffsetOutOfRangeError: the offset is above the high watermark.
        """
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError(offset, self.log_start_offset, self.high_watermark)
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.producers.on_log_start_offset_incremented(offset)
            if self.epochs.truncate_from_start(offset):
                with contextlib.suppress(OSError):  # If this fails, opening the log truncates the epochs again.
                    self.epochs.write()
            self.call_listeners()

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """End the log at `offset`, removing the batch that contains `offset` and all later ones.

        Staged batches are discarded, and the producers return to their state at that point. An offset at or above the
        log end offset removes no committed records.

        Raises:
            OSError: a file cannot be truncated or removed.
        """
        # Staged batches follow the log end offset, so every truncation discards them.
        self._undo_staged()
        if offset >= self.log_end_offset:
            return
        if offset < self.segments[0].base_offset:
            self.truncate_fully_and_start_at(offset, now_ms)
            return
        self._truncate_segments(offset, now_ms)
        self.high_watermark = min(self.high_watermark, offset)
        # Producer state cannot be undone batch by batch, so load an earlier snapshot and replay the headers from there.
        self.producers.truncate_and_reload(self.log_start_offset, offset, now_ms)
        self._set_end(offset)
        replay_producers(self.segments, self.producers, self.log_start_offset, offset)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int) -> None:
        """Remove all records and producers, and let the empty log begin at `offset`.

        Raises:
            OSError: a file cannot be removed or created.
        """
        self._undo_staged()
        self._create_files()
        # Delete the snapshots before the segments, so that a killed process cannot leave producer state for an empty
        # log.
        self.producers.delete_snapshots()
        self._restart_at(offset, now_ms)
        self.log_start_offset = self.high_watermark = offset
        self.producers.truncate_fully_and_start_at(offset)
        self._set_end(offset)

    def _set_end(self, offset: int) -> None:
        self.log_end_offset = self.next_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.call_listeners()
        self._durability.truncate(offset)
        if self.epochs.truncate_from_end(offset):
            self.epochs.write()
        self._epoch = self.epochs.latest_epoch
        self._plan_snapshot()

    def close(self) -> None:
        """Commit, trim the indexes, write a producer snapshot and close the files. A second call has no effect.

        The directory can then be opened with `LastStop.CLEAN`, even after a machine crash if a `flush` followed the
        close. A log without a directory creates no files. The files are closed even if an error is raised.

        Raises:
            LogWriteError: staged batches cannot be written.
            OSError: another file cannot be written.
        """
        if self._closed:
            return
        try:
            self.commit()
            if not self.has_directory:
                return
            self._active.become_inactive()
            self._durability.names_changed = True
            # A start after a clean stop loads this snapshot and replays nothing.
            self.producers.map_end_offset = self.log_end_offset
            self.producers.take_snapshot(temporary=True)
        finally:
            self._close_files()

    def _close_files(self) -> None:
        self._byte_limit = -1
        listeners, self._listeners = tuple(self._listeners), {}
        self._closed = True
        for segment in self.segments:
            segment.close_files()
        for listener in listeners:
            listener(self)

    def delete(self, target: str | None = None) -> str:
        """Close without writing anything, rename the directory to `<topic>-<p>.<uuid>-delete`, and return its new path.

        This is quick for a log of any size; `layout.purge` removes the directory later. Pinned files stay readable.

        Args:
            target: the new path of the directory, if not the default.

        Raises:
            OSError: the directory cannot be renamed.
        """
        self._undo_staged()
        target = target or delete_directory_name(self._directory)
        rename_if_exists(self._directory, target)
        self.abandon(target)
        return target

    def abandon(self, directory: str) -> None:
        """Close without writing, after the log's directory was moved to `directory`.

        Pinned files stay readable.
        """
        self._undo_staged()
        self._directory = directory
        self._close_files()
        self.producers.directory = directory
        self.epochs.path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"


class LogShape(NamedTuple):
    """A log's start offset, and the base offset and size in bytes of each segment, at one moment."""

    start: int
    segments: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Total size of the segments in bytes."""
        return sum(size for _, size in self.segments)


def shape_of(log: Log) -> LogShape:
    """Return the current shape of a log."""
    return LogShape(log.log_start_offset, tuple((segment.base_offset, segment.size) for segment in log.segments))
