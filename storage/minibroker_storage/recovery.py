"""Loads a log from the files in its directory and repairs it (Kafka's `LogLoader`)."""

import contextlib
import os
from collections.abc import Callable
from typing import Final, NamedTuple

from minibroker_protocol.errors import DecodeError
from minibroker_protocol.records.header import MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX, INT64_MAX
from minibroker_storage.checkpoints import LeaderEpochCheckpoint
from minibroker_storage.config import LogConfig
from minibroker_storage.data_directory.clean_shutdown import LastStop
from minibroker_storage.entries import BASE_OFFSET, LAST_OFFSET_DELTA, LEADER_EPOCH, MAGIC, MAX_TIMESTAMP, scan
from minibroker_storage.errors import CorruptCheckpointError, CorruptIndexError, StorageError
from minibroker_storage.files import FilePool
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, TXN_INDEX_SUFFIX, file_name
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.replacement import clean_up_directory
from minibroker_storage.segment import LogSegment

REPLAY_WINDOW_BYTES: Final = 64 * 1024
MIN_REPLAY_FOR_SNAPSHOT_BYTES: Final = 1024 * 1024
"""A start that replays more than this writes a snapshot, so that the next start need not replay it again."""
MAX_MESSAGE_SET_BYTES: Final = 4 * 1024 * 1024
"""Assumed maximum size of a message set in an old format. An offset index with a larger gap is rebuilt."""
_SAMPLED_ENTRIES: Final = 8
MAX_RECALLED_BATCHES: Final = 2_000
"""Maximum number of batches read backwards to find producers' last batches: five in flight for 400 producers."""
RECALL_WINDOW_BYTES: Final = 16 * 1024
_EMPTY: Final = memoryview(b"")

EpochListener = Callable[[int, int], None]


class LoadedLog(NamedTuple):
    """A loaded log. Its segments, at least one, are in ascending order, and the last one is ready for appends."""

    segments: list[LogSegment]
    producers: ProducerStateManager
    epochs: LeaderEpochCheckpoint
    log_start_offset: int
    log_end_offset: int


def load_log(
    directory: str,
    config: LogConfig,
    files: FilePool,
    *,
    last_stop: LastStop,
    recovery_point: int,
    now_ms: int,
    log_start_offset: int,
) -> LoadedLog:
    """Load the log in `directory`, and repair the damage that a stop of kind `last_stop` can have caused.

    First, leftovers of interrupted operations are removed. Then the untrusted part is scanned, truncated after its
    last valid batch, and indexed again. Segments after a truncated one are removed.

    - After CLEAN, nothing is scanned. Only the ends of the indexes and the end of the last segment are read.
    - After KILLED and CRASHED, the log is scanned from the last index entry below `recovery_point` on.

    After any stop, an index that is missing or invalid is rebuilt from its whole segment. Producers are loaded from
    the newest snapshot and from the headers after it.

    Raises:
        OSError: a file cannot be read or written.
    """
    bases, snapshots, names = clean_up_directory(directory)
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(CorruptCheckpointError):
        # Ignore a corrupt checkpoint: the scanned batches add their epochs again, and an epoch that is missing does not
        # cause wrong responses.
        epochs.load()
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots)
    segments = [LogSegment.load(directory, base, config, files, now_ms) for base in bases]
    try:
        loader = _Loader(segments, epochs, last_stop, recovery_point)
        # Without segments, the log begins at the log start offset set by DeleteRecords, not at 0.
        log_end_offset = loader.load(names) if segments else log_start_offset
        # A log that ends below its checkpointed start has lost its end. Like Kafka's `LogLoader`, begin again at the
        # start offset, because an offset must not be assigned twice.
        if segments and log_end_offset >= log_start_offset:
            segments[-1].preallocate_indexes()
            log_start_offset = max(log_start_offset, segments[0].base_offset)
            producers.remove_stray_snapshots([segment.base_offset for segment in segments])
            replay_from = loader.replay_from
            if last_stop is LastStop.CLEAN and not producers.snapshots and replay_from > log_end_offset:
                producers.map_end_offset = log_end_offset  # As in Kafka, no snapshot after a clean stop: no producers.
            else:
                producers.truncate_and_reload(log_start_offset, log_end_offset, now_ms, at_most=replay_from)
                replayed = replay_producers(segments, producers, log_start_offset, log_end_offset)
                if replayed > MIN_REPLAY_FOR_SNAPSHOT_BYTES:
                    # If the snapshot cannot be written, only the next start is slower.
                    with contextlib.suppress(OSError):
                        producers.take_snapshot(temporary=True)
        else:
            for segment in segments:
                segment.delete()
            segments[:] = [LogSegment.create(directory, log_start_offset, config, files, now_ms)]
            log_end_offset = log_start_offset
            producers.truncate_fully_and_start_at(log_start_offset)
        changed = epochs.truncate_from_end(log_end_offset)
        if epochs.truncate_from_start(log_start_offset) or changed or loader.epochs_changed:
            epochs.write()
    except BaseException:
        for segment in segments:
            segment.close_files()
        raise
    return LoadedLog(segments, producers, epochs, log_start_offset, log_end_offset)


class _Loader:
    """The state of load_log() while it loads and repairs the segments."""

    def __init__(
        self, segments: list[LogSegment], epochs: LeaderEpochCheckpoint, last_stop: LastStop, recovery_point: int
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        #: Batches and index entries below this offset are trusted.
        self._trusted_below = INT64_MAX if last_stop is LastStop.CLEAN else recovery_point
        self._last_stop = last_stop
        self.epochs_changed = False
        #: Transaction indexes are complete below this offset.
        self.replay_from = INT64_MAX

    def load(self, names: set[str]) -> int:
        """Load and repair every segment, and return the log end offset."""
        segments = self._segments
        first_untrusted = self._find_first_untrusted()
        for index, segment in enumerate(segments):
            next_base = segments[index + 1].base_offset if index + 1 < len(segments) else None
            has_transactions = file_name(segment.base_offset, TXN_INDEX_SUFFIX) in names
            if index < first_untrusted and _is_sound(segment, next_base):
                if next_base is not None:
                    # A crash during a roll can leave free slots in the indexes, because the next segment is created
                    # before this one is trimmed. Kafka would read the free slots as entries.
                    segment.trim_free_slots()
                # The file is looked up in the names from one `listdir`. Most segments have no transaction index, so
                # this saves a `stat` for each of them.
                if has_transactions:
                    self._load_transactions(segment, next_base)
                continue
            if has_transactions:
                self._load_transactions(segment, None)
            cut = self._scan_segment(segment, resume=index >= first_untrusted)
            if next_base is None:
                break
            segment.become_inactive()
            # If an untrusted segment was truncated, delete the later segments, because they were written after the lost
            # records. If a trusted segment was damaged, only its damaged bytes are lost, because everything after it
            # had been flushed.
            if cut and index >= first_untrusted:
                for dropped in segments[index + 1 :]:
                    dropped.delete()
                del segments[index + 1 :]
                break
        return self._find_end(segments[-1])

    def _find_first_untrusted(self) -> int:
        """Return the index of the first segment to scan."""
        segments = self._segments
        if self._last_stop is LastStop.CLEAN:
            return len(segments)
        index = len(segments) - 1
        # A roll creates the next segment before it closes the previous one, so if the last segment is empty, both are
        # untrusted.
        while index > 0 and (not segments[index].size or segments[index].base_offset > self._trusted_below):
            index -= 1
        return index

    def _find_end(self, last: LogSegment) -> int:
        try:
            end = last.next_offset()
        except StorageError:  # The log is damaged, although it was marked as cleanly closed.
            self._last_stop, self._trusted_below = LastStop.CRASHED, last.base_offset
            self._scan_segment(last, resume=False)
            end = last.next_offset()
        last.transaction_index.truncate_to(end)
        return end

    def _load_transactions(self, segment: LogSegment, next_base: int | None) -> None:
        try:
            segment.transaction_index.load(next_base)
        except CorruptIndexError:
            self._distrust_transactions(segment, segment.base_offset)

    def _distrust_transactions(self, segment: LogSegment, offset: int) -> None:
        """Drop the segment's aborted transactions from `offset` on, and schedule a replay that finds them again."""
        if offset <= segment.base_offset:
            segment.transaction_index.clear()
        else:
            segment.transaction_index.truncate_to(offset)
        self.replay_from = min(self.replay_from, offset)

    def _scan_segment(self, segment: LogSegment, *, resume: bool) -> int:
        """Scan the untrusted part of a segment, or all of it if necessary, and return the number of bytes truncated."""
        index = segment.offset_index
        trusted_end = segment.base_offset
        try:
            if resume:
                segment.resume_indexes(self._trusted_below)
                check_time_index(segment)
                trusted_end = index.last_offset + 1 if index.entries else trusted_end
            cut = recover_segment(segment, self._add_epoch, resumed=resume)
        except (StorageError, DecodeError, FileNotFoundError):
            trusted_end = segment.base_offset
            cut = recover_segment(segment, self._add_epoch)
        if self._last_stop is LastStop.CRASHED:
            self._distrust_transactions(segment, trusted_end)
        return cut

    def _add_epoch(self, epoch: int, base_offset: int) -> None:
        if epoch > self._epochs.latest_epoch:
            self.epochs_changed |= self._epochs.assign(epoch, base_offset)


def load_segment(segment: LogSegment, next_base: int) -> None:
    """Load a closed segment whose files were just created, and rebuild its indexes if necessary.

    Raises:
        OSError: a file cannot be read or written.
    """
    if not _is_sound(segment, next_base):
        recover_segment(segment)
        segment.become_inactive()
    if os.path.exists(segment.transaction_index.file.path):
        segment.transaction_index.load(next_base)


def _is_sound(segment: LogSegment, next_base: int | None) -> bool:
    try:
        segment.load_indexes(next_base)
        check_indexes(segment)
    except (StorageError, DecodeError, FileNotFoundError):
        return False
    return True


def check_indexes(segment: LogSegment) -> None:
    """Check loaded indexes against the end of the log, because indexes have no checksum.

    The batch of the last offset index entry must exist, no later batch may lack an entry, and the time index must
    cover the batches after that entry. One index interval of the log is read. See also `check_time_index`.

    Raises:
        CorruptIndexError: an index does not match the log.
        StorageError, DecodeError: the log contains bytes that are not batches.
        OSError: a file cannot be read.
    """
    index = segment.offset_index
    start, entries = index.last_position, index.entries
    # `index.interval.bytes` may have been larger when these entries were written, so allow up to twice their average
    # distance.
    interval = max(segment.index_interval_bytes, 2 * start // entries if entries else 0)
    reached = not entries
    for position, header in segment.headers_from(start):
        reached = reached or header.last_offset == index.last_offset
        # A message set in an old format counts as one batch, so many of its messages can follow the last entry.
        if position - start > interval and (header.magic == MAGIC_V2 or not entries):
            raise CorruptIndexError(f"{index.file.path}: ends {segment.size - start} bytes before the log")
        if header.max_timestamp > max(segment.max_timestamp, 0):
            raise CorruptIndexError(f"{segment.time_index.file.path}: does not know {header.max_timestamp}")
    if not reached:
        raise CorruptIndexError(f"{index.file.path}: offset {index.last_offset} is not at byte {start}")
    check_time_index(segment)


def check_time_index(segment: LogSegment) -> None:
    """Check that the last time index entry is correct and covers the timestamps of a few indexed batches.

    If timestamps ascend, this detects an index that lost its last entries.

    Raises:
        CorruptIndexError: the index does not match the log.
        StorageError, DecodeError: the log contains bytes that are not batches.
        OSError: a file cannot be read.
    """
    index, times = segment.offset_index, segment.time_index
    entry = segment.translate(times.last_offset) if times.entries else None
    if times.entries and (entry is None or segment.header_at(entry.position).max_timestamp != times.last_timestamp):
        raise CorruptIndexError(f"{times.file.path}: {times.last_timestamp} is not at offset {times.last_offset}")
    # Check only samples, because checking every indexed batch would read the whole log at every start.
    for slot in range(index.entries - 1, -1, -(index.entries // _SAMPLED_ENTRIES + 1)):
        timestamp = segment.header_at(index.entry(slot).position).max_timestamp
        if timestamp > max(segment.max_timestamp, 0):
            raise CorruptIndexError(f"{segment.time_index.file.path}: does not know {timestamp}")


def recover_segment(segment: LogSegment, on_epoch: EpochListener | None = None, *, resumed: bool = False) -> int:
    """Scan a segment, truncate it after its last valid batch, and rebuild both indexes (`LogSegment.recover`).

    Args:
        segment: the segment.
        on_epoch: called with the leader epoch and base offset of each batch whose epoch differs from the previous
            one.
        resumed: whether to scan only from the end set by `LogSegment.resume_indexes` on.

    Returns:
        The number of bytes truncated.

    Raises:
        OSError: a file cannot be read or written.
        CorruptIndexError: a resumed index does not match the log.
    """
    size = segment.size
    if not resumed:
        segment.reset_indexes()
    index = segment.offset_index
    indexed = index.last_offset if index.entries else -1
    # A message set in an old format counts as one batch. The offset index points to its first message, but the time
    # index may point to a later one, and no further entries are added up to that message.
    timed = segment.time_index.last_offset if segment.time_index.entries else -1
    reached = -1
    next_offset, last_possible = segment.base_offset, segment.base_offset + INT32_MAX
    leader_epoch = None
    add_batch = segment.add_batch
    with segment.log as fd:
        for batch, fields in scan(fd, size, segment.end):
            base_offset = fields[BASE_OFFSET]
            last_offset = base_offset + fields[LAST_OFFSET_DELTA]
            # A valid checksum is not enough. Offsets must ascend and stay within 32 bits of the base offset, or indexes
            # could not store them.
            if base_offset < next_offset or last_offset > last_possible:
                break
            if last_offset <= indexed:
                segment.skip_batches(len(batch))
                reached = last_offset
            elif reached != indexed:
                break
            elif fields[MAGIC] < MAGIC_V2 and last_offset <= timed:
                segment.skip_batches(len(batch))
                if segment.end - index.last_position > MAX_MESSAGE_SET_BYTES:
                    reached = -1
                    break
            else:
                add_batch(len(batch), last_offset, fields[MAX_TIMESTAMP], last_offset)
            if fields[LEADER_EPOCH] != leader_epoch and on_epoch is not None:
                leader_epoch = fields[LEADER_EPOCH]
                on_epoch(leader_epoch, base_offset)
            next_offset = last_offset + 1
    if reached != indexed:
        raise CorruptIndexError(f"{index.file.path}: offset {indexed} is not at byte {index.last_position}")
    segment.finish_scan(next_offset)
    return size - segment.size


def replay_producers(
    segments: list[LogSegment], producers: ProducerStateManager, log_start_offset: int, end_offset: int
) -> int:
    """Replay the log from `producers.map_end_offset` to `end_offset` into the producers and transaction indexes.

    Only the headers of batches are read, except for transaction markers, which are read completely.

    Returns:
        The number of bytes of the log that were replayed.

    Raises:
        OSError: a file cannot be read or written.
    """
    recall_batches(segments, producers)
    start = max(producers.map_end_offset, log_start_offset)
    replayed = 0
    next_bases = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, next_base in zip(segments, next_bases, strict=True):
        entry = segment.translate(start) if next_base > start else None
        if entry is None:
            continue
        replayed += segment.size - entry.position
        index = segment.transaction_index
        for position, header in segment.headers_from(entry.position, REPLAY_WINDOW_BYTES):
            # This includes a batch that begins below the log start offset but ends above it.
            if header.producer_id >= 0:
                batch = segment.batch_at(position) if header.is_control else _EMPTY
                aborted = producers.update(header, header.base_offset, batch)
                # The batch is already in the log, so this update is never rolled back.
                producers.commit()
                # The replay may begin before the end of a complete index, so skip entries that the index already has.
                if aborted is not None and aborted.last_offset > index.last_offset:
                    index.stage(aborted)
        index.commit()
    producers.map_end_offset = end_offset
    return replayed


def recall_batches(segments: list[LogSegment], producers: ProducerStateManager) -> None:
    """Restore the earlier batches of each producer, because a snapshot has only the last one (see `add_earlier_batch`).

    The log is read backwards from the snapshot's offset, until all batches are found or `MAX_RECALLED_BATCHES`
    batches have been read. That limit covers the requests in flight at the time of the snapshot.

    Raises:
        OSError: a file cannot be read.
    """
    incomplete = producers.find_incomplete()
    headers_read = 0
    for segment in reversed(segments if incomplete else []):
        # Skip segments after the snapshot, because their batches are replayed anyway.
        if segment.base_offset >= producers.map_end_offset:
            continue
        end = segment.position_of(producers.map_end_offset)
        while end > 0:
            start = segment.offset_index.entry_at_or_below(max(end - RECALL_WINDOW_BYTES, 0)).position
            headers = [header for _, header in segment.headers_from(start, RECALL_WINDOW_BYTES, end=end)]
            for header in reversed(headers):
                if header.producer_id in incomplete and producers.add_earlier_batch(header):
                    incomplete.remove(header.producer_id)
            headers_read += len(headers)
            if not incomplete or headers_read >= MAX_RECALLED_BATCHES:
                return
            end = start
