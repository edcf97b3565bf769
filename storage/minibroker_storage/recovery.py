"""From a directory of files to a log that can be trusted (Kafka's `LogLoader`)."""

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
from minibroker_storage.replacement import tidy_directory
from minibroker_storage.segment import LogSegment

REPLAY_WINDOW_BYTES: Final = 64 * 1024
WORTH_A_SNAPSHOT_BYTES: Final = 1024 * 1024
"""A start that has replayed more than this writes a snapshot, so that the next one need not do it again."""
LARGE_SET_BYTES: Final = 4 * 1024 * 1024
"""No set of old messages is taken to be larger: an offset index with such a gap is made again."""
_LOOKS: Final = 8
RECALLED_BATCHES: Final = 2_000
"""The most batches that the walk back for producers' last batches reads: five in flight of 400 producers."""
RECALL_WINDOW_BYTES: Final = 16 * 1024
_EMPTY: Final = memoryview(b"")

EpochListener = Callable[[int, int], None]


class LoadedLog(NamedTuple):
    """The contents of a directory: segments ascending, at least one, the last one ready for appends."""

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
    """Load the log in `directory`, repairing what `last_stop` can have left.

    Leftovers of interrupted operations go first. Then the untrusted part is scanned, cut behind its last good
    batch, and indexed again; nothing survives behind a cut.

    - After CLEAN: nothing. The ends of the indexes are read, and of the last log what lies behind its last index entry.
    - After KILLED and CRASHED: all after `recovery_point`, from the last index entry below it on, batch by batch.

    An index that is missing or does not check out is rebuilt from the whole segment, after any stop. Producers come
    from the newest snapshot, and from the headers behind it. `OSError`.
    """
    bases, snapshots, names = tidy_directory(directory)
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(CorruptCheckpointError):
        # A damaged checkpoint is made again as far as batches are scanned: an epoch less is no wrong answer.
        epochs.load()
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots)
    segments = [LogSegment.load(directory, base, config, files, now_ms) for base in bases]
    try:
        loader = _Loader(segments, epochs, last_stop, recovery_point)
        # A directory without segments begins where DeleteRecords has put the log start offset, not at 0.
        log_end_offset = loader.load(names) if segments else log_start_offset
        # A log that ends below its checkpointed start has lost its tail: Kafka (`LogLoader`) begins again at the start
        # offset, since an offset that was used once must not be given again.
        if segments and log_end_offset >= log_start_offset:
            segments[-1].preallocate_indexes()
            log_start_offset = max(log_start_offset, segments[0].base_offset)
            producers.remove_stray_snapshots([segment.base_offset for segment in segments])
            _load_producers(
                producers, segments, loader.replay_from, log_start_offset, log_end_offset, now_ms, last_stop=last_stop
            )
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
    """The steps of `load_log` that make each segment usable."""

    def __init__(
        self, segments: list[LogSegment], epochs: LeaderEpochCheckpoint, last_stop: LastStop, recovery_point: int
    ) -> None:
        self._segments = segments
        self._epochs = epochs
        #: Batches and index entries below this offset are trusted.
        self._trusted_below = INT64_MAX if last_stop is LastStop.CLEAN else recovery_point
        self._last_stop = last_stop
        self.epochs_changed = False
        #: Transaction indexes lack nothing below this offset.
        self.replay_from = INT64_MAX

    def load(self, names: set[str]) -> int:
        """Make every segment usable; the log end offset."""
        segments = self._segments
        suspect = self._first_suspect()
        for number, segment in enumerate(segments):
            next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
            has_transactions = file_name(segment.base_offset, TXN_INDEX_SUFFIX) in names
            if number < suspect and _is_sound(segment, next_base):
                if next_base is not None:
                    # A roll makes the next segment first. Kafka takes the free slots of an older index for entries.
                    segment.trim_free_slots()
                # The names come from one `listdir`: most segments have no transaction index, and need no `stat` to
                # learn it.
                if has_transactions:
                    self._load_transactions(segment, next_base)
                continue
            if has_transactions:
                self._load_transactions(segment, None)
            cut = self._recover(segment, resume=number >= suspect)
            if next_base is None:
                break
            segment.become_inactive()
            # A cut in the suspect part means that later segments were written after what is lost. A closed segment in
            # the trusted part loses only damaged bytes; all behind it was flushed, and stays.
            if cut and number >= suspect:
                for dropped in segments[number + 1 :]:
                    dropped.delete()
                del segments[number + 1 :]
                break
        return self._end_of_last(segments[-1])

    def _first_suspect(self) -> int:
        """The number of the first segment that has to be scanned."""
        segments = self._segments
        if self._last_stop is LastStop.CLEAN:
            return len(segments)
        number = len(segments) - 1
        # A roll makes the next segment before it closes the one before: with an empty last segment both are suspect.
        while number > 0 and (not segments[number].size or segments[number].base_offset > self._trusted_below):
            number -= 1
        return number

    def _end_of_last(self, last: LogSegment) -> int:
        try:
            end = last.next_offset()
        except StorageError:  # the mark of a clean stop was wrong
            self._last_stop, self._trusted_below = LastStop.CRASHED, last.base_offset
            self._recover(last, resume=False)
            end = last.next_offset()
        last.transaction_index.truncate_to(end)
        return end

    def _load_transactions(self, segment: LogSegment, next_base: int | None) -> None:
        try:
            segment.transaction_index.load(next_base)
        except CorruptIndexError:
            self._distrust_transactions(segment, segment.base_offset)

    def _distrust_transactions(self, segment: LogSegment, offset: int) -> None:
        """Have the segment's aborted transactions from `offset` on found again."""
        if offset <= segment.base_offset:
            segment.transaction_index.clear()
        else:
            segment.transaction_index.truncate_to(offset)
        self.replay_from = min(self.replay_from, offset)

    def _recover(self, segment: LogSegment, *, resume: bool) -> int:
        """Scan what is not trusted of a segment, or else all of it; the number of bytes that were cut."""
        index = segment.offset_index
        trusted_end = segment.base_offset
        try:
            if resume:
                segment.resume_indexes(self._trusted_below)
                check_time_index(segment)
                trusted_end = index.last_offset + 1 if index.entries else trusted_end
            cut = recover_segment(segment, self._note_epoch, resumed=resume)
        except (StorageError, DecodeError, FileNotFoundError):
            trusted_end = segment.base_offset
            cut = recover_segment(segment, self._note_epoch)
        if self._last_stop is LastStop.CRASHED:
            self._distrust_transactions(segment, trusted_end)
        return cut

    def _note_epoch(self, epoch: int, base_offset: int) -> None:
        if epoch > self._epochs.latest_epoch:
            self.epochs_changed |= self._epochs.assign(epoch, base_offset)


def load_segment(segment: LogSegment, next_base: int) -> None:
    """Make a closed segment usable whose files have just been put there; rebuilds its indexes if need be. `OSError`."""
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
    """Hold loaded indexes against the end of the log, and see `check_time_index`: an index has no checksum.

    The last entry's batch is there, no entry is missing behind it, and the time index knows of the batches there.
    Reads an index interval. `CorruptIndexError`, `StorageError`, `DecodeError`, `OSError`.
    """
    index = segment.offset_index
    start, entries = index.last_position, index.entries
    # `index.interval.bytes` may have been larger when these entries were written.
    interval = max(segment.index_interval_bytes, 2 * start // entries if entries else 0)
    reached = not entries
    for position, header in segment.headers_from(start):
        reached = reached or header.last_offset == index.last_offset
        # A set of old messages counts as one batch, so that there may be many behind the last entry.
        if position - start > interval and (header.magic == MAGIC_V2 or not entries):
            raise CorruptIndexError(f"{index.file.path}: ends {segment.size - start} bytes before the log")
        if header.max_timestamp > max(segment.max_timestamp, 0):
            raise CorruptIndexError(f"{segment.time_index.file.path}: does not know {header.max_timestamp}")
    if not reached:
        raise CorruptIndexError(f"{index.file.path}: offset {index.last_offset} is not at byte {start}")
    check_time_index(segment)


def check_time_index(segment: LogSegment) -> None:
    """See that the last entry of the time index is true, and that it knows of the timestamps of a few indexed batches.

    One that has lost entries at its end is known by this, if timestamps rise. Raises as `check_indexes`.
    """
    index, times = segment.offset_index, segment.time_index
    found = segment.translate(times.last_offset) if times.entries else None
    if times.entries and (found is None or segment.header_at(found.position).max_timestamp != times.last_timestamp):
        raise CorruptIndexError(f"{times.file.path}: {times.last_timestamp} is not at offset {times.last_offset}")
    # A sample: to look at each indexed batch would read the whole log at every start.
    for slot in range(index.entries - 1, -1, -(index.entries // _LOOKS + 1)):
        timestamp = segment.header_at(index.entry(slot).position).max_timestamp
        if timestamp > max(segment.max_timestamp, 0):
            raise CorruptIndexError(f"{segment.time_index.file.path}: does not know {timestamp}")


def recover_segment(segment: LogSegment, on_epoch: EpochListener | None = None, *, resumed: bool = False) -> int:
    """Scan a segment, cut it behind its last good batch, rebuild both indexes (`LogSegment.recover`).

    The whole of it, or with `resumed` what lies behind the end that `LogSegment.resume_indexes` has set.
    `on_epoch` gets each batch's leader epoch that differs from that of the one before, and its base offset. Returns
    the number of bytes that were cut. `OSError`; `CorruptIndexError` when a resumed index is wrong.
    """
    size = segment.size
    if not resumed:
        segment.reset_indexes()
    index = segment.offset_index
    indexed = index.last_offset if index.entries else -1
    # A set of old messages counts as one batch, which the offset index knows by its first message and the time index
    # perhaps by a later one: up to there it gets no further entries.
    timed = segment.time_index.last_offset if segment.time_index.entries else -1
    reached = -1
    next_offset, last_possible = segment.base_offset, segment.base_offset + INT32_MAX
    leader_epoch = None
    note = segment.note
    with segment.log as fd:
        for batch, fields in scan(fd, size, segment.end):
            base_offset = fields[BASE_OFFSET]
            last_offset = base_offset + fields[LAST_OFFSET_DELTA]
            # A good checksum is not enough: offsets rise, and are at most 32 bits above the base, or no index could
            # name them.
            if base_offset < next_offset or last_offset > last_possible:
                break
            if last_offset <= indexed:
                segment.pass_over(len(batch))
                reached = last_offset
            elif reached != indexed:
                break
            elif fields[MAGIC] < MAGIC_V2 and last_offset <= timed:
                segment.pass_over(len(batch))
                if segment.end - index.last_position > LARGE_SET_BYTES:
                    reached = -1
                    break
            else:
                note(len(batch), last_offset, fields[MAX_TIMESTAMP], last_offset)
            if fields[LEADER_EPOCH] != leader_epoch and on_epoch is not None:
                leader_epoch = fields[LEADER_EPOCH]
                on_epoch(leader_epoch, base_offset)
            next_offset = last_offset + 1
    if reached != indexed:
        raise CorruptIndexError(f"{index.file.path}: offset {indexed} is not at byte {index.last_position}")
    segment.adopt_noted_size(next_offset)
    return size - segment.size


def _load_producers(
    producers: ProducerStateManager,
    segments: list[LogSegment],
    replay_from: int,
    log_start_offset: int,
    log_end_offset: int,
    now_ms: int,
    *,
    last_stop: LastStop,
) -> None:
    """Load the newest snapshot at or below both `replay_from` and the end; replay what the log has behind it."""
    if last_stop is LastStop.CLEAN and producers.latest_snapshot_offset is None and replay_from > log_end_offset:
        producers.map_end_offset = log_end_offset
        return  # as Kafka: a clean stop without a snapshot knew no producers
    producers.truncate_and_reload(log_start_offset, log_end_offset, now_ms, at_most=replay_from)
    replayed = replay_producers(segments, producers, log_start_offset, log_end_offset)
    if replayed > WORTH_A_SNAPSHOT_BYTES:
        # A failure costs only time at the next start.
        with contextlib.suppress(OSError):
            producers.take_snapshot(passing=True)


def replay_producers(
    segments: list[LogSegment], producers: ProducerStateManager, log_start_offset: int, end_offset: int
) -> int:
    """Bring the producers from where they know the log to `end_offset`, and the transaction indexes with them.

    Reads the headers from there on, and of transaction markers all; returns how many bytes of log this was. `OSError`.
    """
    recall_batches(segments, producers)
    start = max(producers.map_end_offset, log_start_offset)
    replayed = 0
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        found = segment.translate(start) if next_base > start else None
        if found is None:
            continue
        replayed += segment.size - found.position
        index = segment.transaction_index
        for position, header in segment.headers_from(found.position, REPLAY_WINDOW_BYTES):
            if header.producer_id >= 0:  # also a batch that begins below the log start: its tail can be read
                batch = segment.batch_at(position) if header.is_control else _EMPTY
                aborted = producers.update(header, header.base_offset, batch)
                # Here nothing is undone: the batch is in the log.
                producers.commit()
                # The replay may begin before the end of an index that is whole: an entry must not come twice.
                if aborted is not None and aborted.last_offset > index.last_offset:
                    index.stage(aborted)
        index.commit()
    producers.map_end_offset = end_offset
    return replayed


def recall_batches(segments: list[LogSegment], producers: ProducerStateManager) -> None:
    """Find again what a snapshot does not have: the batches before each producer's last one (see `recall`).

    Walks back from where the snapshot was taken, until all are found or `RECALLED_BATCHES` were looked at. That number
    covers the batches of the requests that were in flight at that moment. `OSError`.
    """
    incomplete = producers.incomplete()
    looked = 0
    for segment in reversed(segments if incomplete else []):
        # What lies behind the snapshot is replayed, and recalled there.
        if segment.base_offset >= producers.map_end_offset:
            continue
        end = segment.position_of(producers.map_end_offset)
        while end > 0:
            start = segment.offset_index.entry_at_or_below(max(end - RECALL_WINDOW_BYTES, 0)).position
            headers = [header for _, header in segment.headers_from(start, RECALL_WINDOW_BYTES, end=end)]
            for header in reversed(headers):
                if header.producer_id in incomplete and producers.recall(header):
                    incomplete.remove(header.producer_id)
            looked += len(headers)
            if not incomplete or looked >= RECALLED_BATCHES:
                return
            end = start
