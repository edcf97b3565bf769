"""From a directory of files to a log that can be trusted (Kafka's `LogLoader`)."""

import contextlib
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from minibroker_protocol.records import HEADER, LOG_OVERHEAD, RECORD_BATCH_OVERHEAD, BatchHeader, compute_crc
from minibroker_protocol.records.header import MAGIC_V2
from minibroker_protocol.records.varint import INT32_MAX
from minibroker_storage.checkpoints import TMP_SUFFIX, LeaderEpochCheckpoint
from minibroker_storage.config import LogConfig
from minibroker_storage.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    StorageError,
    UnsupportedLogFormatError,
)
from minibroker_storage.files import FilePool
from minibroker_storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    offset_of,
)
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.segment import LogSegment

SCAN_CHUNK_BYTES: Final = 4 * 1024 * 1024
_EMPTY: Final = memoryview(b"")

# Places in the tuple that HEADER unpacks to: in the scan, naming the fields would cost more than reading them.
_BASE_OFFSET: Final = 0
_BATCH_LENGTH: Final = 1
_LEADER_EPOCH: Final = 2
_MAGIC: Final = 3
_CRC: Final = 4
_LAST_OFFSET_DELTA: Final = 6
_MAX_TIMESTAMP: Final = 8
_PRODUCER_ID: Final = 9

_OLD_CRC_AT: Final = 12
_OLD_CRC_COVERS_FROM: Final = 16


class LoadedLog(NamedTuple):
    """What a directory holds: segments ascending, at least one, the last one ready for appends."""

    segments: list[LogSegment]
    producers: ProducerStateManager
    epochs: LeaderEpochCheckpoint
    log_start_offset: int
    log_end_offset: int


def load_log(
    directory: str, config: LogConfig, files: FilePool, *, clean: bool, now_ms: int, log_start_offset: int
) -> LoadedLog:
    """Load the log in `directory`, repairing what an unclean stop can have left.

    Leftovers of interrupted operations go first. Then: `clean` trusts the files and reads their ends only. Otherwise
    the last segment is scanned in full and cut behind its last good batch (the one before it too while the last is
    empty), and the indexes of all others are checked against their logs; whatever fails is rebuilt. Nothing survives
    behind a cut. `OSError`, `UnsupportedLogFormatError`.
    """
    bases, snapshots = tidy_directory(directory)
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(CorruptCheckpointError):
        epochs.load()
    producers = ProducerStateManager(directory, config.producer_id_expiration_ms, snapshots)
    segments = [LogSegment.load(directory, base, config, files, now_ms) for base in bases]
    loader = _Loader(segments, producers, epochs, log_start_offset, now_ms)
    log_end_offset = loader.load(clean=clean) if segments else log_start_offset
    if segments and log_end_offset >= log_start_offset:
        segments[-1].preallocate_indexes()
        log_start_offset = max(log_start_offset, segments[0].base_offset)
    else:
        for segment in segments:
            segment.delete()
        segments[:] = [LogSegment.create(directory, log_start_offset, config, files, now_ms)]
        log_end_offset = log_start_offset
        producers.truncate_fully_and_start_at(log_start_offset)
    changed = epochs.truncate_from_end(log_end_offset)
    if epochs.truncate_from_start(log_start_offset) or changed or loader.epochs_changed:
        epochs.write()
    return LoadedLog(segments, producers, epochs, log_start_offset, log_end_offset)


class _Loader:
    """The steps of `load_log` that share the segments."""

    def __init__(
        self,
        segments: list[LogSegment],
        producers: ProducerStateManager,
        epochs: LeaderEpochCheckpoint,
        log_start_offset: int,
        now_ms: int,
    ) -> None:
        self._segments = segments
        self._producers = producers
        self._epochs = epochs
        self._log_start_offset = max(log_start_offset, segments[0].base_offset) if segments else log_start_offset
        self._now_ms = now_ms
        self._clean = True
        self._producers_known = False
        self.epochs_changed = False

    def load(self, *, clean: bool) -> int:
        """Make every segment usable and bring the producers to the log end offset, which it returns."""
        segments = self._segments
        self._clean = clean
        self._producers.remove_stray_snapshots([segment.base_offset for segment in segments])
        suspect = len(segments) if clean else _first_suspect(segments)
        for number, segment in enumerate(segments):
            next_base = segments[number + 1].base_offset if number + 1 < len(segments) else None
            if number == suspect:
                self._load_producers(segments[:number], segment.base_offset)
                with contextlib.suppress(OSError):  # it only saves the next recovery some work
                    self._producers.take_snapshot()
            elif number < suspect and self._is_sound(segment, next_base):
                continue
            cut = recover_segment(segment, self._note_batch if self._producers_known else self._note_epoch)
            if next_base is None:
                break
            segment.become_inactive()
            if cut:
                self._drop_behind(number)
                break
        end = self._next_offset()
        if not self._producers_known:
            self._load_producers(segments, end)
        self._producers.map_end_offset = end
        return end

    def _next_offset(self) -> int:
        last = self._segments[-1]
        try:
            return last.next_offset()
        except StorageError:  # the mark of a clean stop was wrong
            recover_segment(last, self._note_epoch)
            return last.next_offset()

    def _is_sound(self, segment: LogSegment, next_base: int | None) -> bool:
        try:
            segment.load_indexes(next_base)
            if not self._clean:
                check_index_tail(segment)
        except (StorageError, FileNotFoundError):
            return False
        return True

    def _drop_behind(self, number: int) -> None:
        for segment in self._segments[number + 1 :]:
            segment.delete()
            self._producers.delete_snapshot(segment.base_offset)
        del self._segments[number + 1 :]

    def _note_epoch(self, header: BatchHeader, _: memoryview) -> None:
        epoch = header.partition_leader_epoch
        if epoch > self._epochs.latest_epoch:
            self.epochs_changed |= self._epochs.assign(epoch, header.base_offset)

    def _note_batch(self, header: BatchHeader, batch: memoryview) -> None:
        self._note_epoch(header, batch)
        if header.producer_id >= 0 and header.base_offset >= self._log_start_offset:
            self._producers.update(header, header.base_offset, batch)
            self._producers.commit()

    def _load_producers(self, segments: list[LogSegment], end_offset: int) -> None:
        """Load the newest snapshot at or below `end_offset` and replay what `segments` have behind it."""
        producers = self._producers
        self._producers_known = True
        if self._clean and producers.latest_snapshot_offset is None:
            return  # as Kafka: a clean stop without a snapshot knew no producers
        producers.truncate_and_reload(self._log_start_offset, end_offset, self._now_ms)
        replay_producers(segments, producers, self._log_start_offset, end_offset)


def _first_suspect(segments: list[LogSegment]) -> int:
    number = len(segments) - 1
    while number > 0 and not segments[number].size:
        number -= 1
    return number


def replay_producers(
    segments: list[LogSegment], producers: ProducerStateManager, log_start_offset: int, end_offset: int
) -> None:
    """Bring the producers from where they know the log to `end_offset`. Reads the headers from there on. `OSError`."""
    start = max(producers.map_end_offset, log_start_offset)
    for number, segment in enumerate(segments):
        next_base = segments[number + 1].base_offset if number + 1 < len(segments) else end_offset
        found = segment.translate(start) if next_base > start else None
        if found is None:
            continue
        for position, header in segment.headers_from(found.position, SCAN_CHUNK_BYTES):
            if header.producer_id >= 0 and header.base_offset >= start:
                batch = segment.batch_at(position) if header.is_control else _EMPTY
                producers.update(header, header.base_offset, batch)
                producers.commit()
    producers.map_end_offset = end_offset


def check_index_tail(segment: LogSegment) -> None:
    """Hold the last index entry against the log, and see that no entry is missing behind it.

    `CorruptIndexError`, `StorageError`. Reads the end of the log: an index interval and the batch behind it.
    """
    index = segment.offset_index
    start = index.last_position
    last_entry = None
    for position, header in segment.headers_from(start):
        if position == start:
            last_entry = header.last_offset
        elif position - start > segment.index_interval_bytes:
            raise CorruptIndexError(f"{index.file.path}: ends {segment.size - start} bytes before the log")
    if index.entries and last_entry != index.last_offset:
        raise CorruptIndexError(f"{index.file.path}: offset {index.last_offset} is not at byte {start}")


def recover_segment(segment: LogSegment, on_batch: Callable[[BatchHeader, memoryview], None]) -> int:
    """Scan the whole segment, cut it behind its last good batch, rebuild both indexes (`LogSegment.recover`).

    `on_batch` gets the header and the bytes of each good batch that has a producer id or another leader epoch than
    the one before it. Returns the number of bytes that were cut. `OSError`, `UnsupportedLogFormatError`.
    """
    size = segment.size
    segment.reset_indexes()
    next_offset, last_possible = segment.base_offset, segment.base_offset + INT32_MAX
    leader_epoch = None
    note = segment.note
    with segment.log as fd:
        for batch, fields in scan(fd, size):
            base_offset = fields[_BASE_OFFSET]
            last_offset = base_offset + fields[_LAST_OFFSET_DELTA]
            if base_offset < next_offset or last_offset > last_possible:
                break
            note(len(batch), last_offset, fields[_MAX_TIMESTAMP])
            if fields[_PRODUCER_ID] >= 0 or fields[_LEADER_EPOCH] != leader_epoch:
                leader_epoch = fields[_LEADER_EPOCH]
                on_batch(BatchHeader._make(fields), batch)
            next_offset = last_offset + 1
    segment.adopt_noted_size()
    return size - segment.size


def scan(fd: int, size: int) -> Iterator[tuple[memoryview, tuple[int, ...]]]:
    """Bytes and header fields of each good batch from the start of a log file, until the first one that is not.

    Good is a whole batch of magic 2 with a right checksum. Reads big chunks. `OSError`; `UnsupportedLogFormatError`
    for a whole message of format v0 or v1, which must not be taken for a torn one.
    """
    position = needed = 0
    unpack = HEADER.unpack_from
    while size - position >= max(needed, RECORD_BATCH_OVERHEAD):
        wanted = min(max(needed, SCAN_CHUNK_BYTES), size - position)
        chunk = memoryview(os.pread(fd, wanted, position))
        at, end, needed = 0, len(chunk), 0
        while end - at >= RECORD_BATCH_OVERHEAD:
            fields = unpack(chunk, at)
            behind = at + LOG_OVERHEAD + fields[_BATCH_LENGTH]
            if behind > end:
                needed = behind - at  # more than is left of the file ends the scan: that batch is torn
                break
            batch = chunk[at:behind]
            if (
                fields[_MAGIC] != MAGIC_V2
                or fields[_LAST_OFFSET_DELTA] < 0
                or len(batch) < RECORD_BATCH_OVERHEAD
                or compute_crc(batch) != fields[_CRC]
            ):
                _refuse_old_message(batch)
                return
            yield batch, fields
            at = behind
        position += at
        if end < wanted:
            return  # someone cuts the file meanwhile
    if position < size:
        _refuse_old_message(memoryview(os.pread(fd, min(RECORD_BATCH_OVERHEAD, size - position), position)))


def _refuse_old_message(data: memoryview) -> None:
    """`UnsupportedLogFormatError` if a whole v0 or v1 message with a right checksum stands here."""
    end = LOG_OVERHEAD + int.from_bytes(data[8:12], "big", signed=True)
    if len(data) <= _OLD_CRC_COVERS_FROM or not _OLD_CRC_COVERS_FROM < end <= len(data) or data[16] not in {0, 1}:
        return
    if zlib.crc32(data[_OLD_CRC_COVERS_FROM:end]) == int.from_bytes(data[_OLD_CRC_AT:_OLD_CRC_COVERS_FROM], "big"):
        raise UnsupportedLogFormatError(f"a message of format v{data[16]}: only v2 is kept in logs")


def tidy_directory(directory: str) -> tuple[list[int], list[int]]:
    """Finish or undo what a crash interrupted; returns base offsets of segments and offsets of snapshots, ascending.

    `.deleted` and `.tmp` files go, and `.cleaned` ones with every `.swap` that belongs to the same unfinished
    cleaning. Other `.swap` segments are complete: they take the place of the segments whose offsets they cover.
    Indexes without a log go.
    """
    names = os.listdir(directory)
    if any(name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)) for name in names):
        names = _finish_swaps(directory, names)
    bases = sorted(offset for name in names if name.endswith(LOG_SUFFIX) and (offset := offset_of(name)) is not None)
    snapshots = sorted(
        offset for name in names if name.endswith(SNAPSHOT_SUFFIX) and (offset := offset_of(name)) is not None
    )
    known = set(bases)
    for name in names:
        if name.endswith(SEGMENT_SUFFIXES) and (offset := offset_of(name)) is not None and offset not in known:
            os.unlink(f"{directory}/{name}")
    return bases, snapshots


def _finish_swaps(directory: str, names: list[str]) -> list[str]:
    cleaned = [offset for name in names if name.endswith(CLEANED_SUFFIX) and (offset := offset_of(name)) is not None]
    first_cleaned = min(cleaned, default=None)
    swaps: list[str] = []
    for name in names:
        offset = offset_of(name)
        if name.endswith(SWAP_SUFFIX) and offset is not None and (first_cleaned is None or offset < first_cleaned):
            swaps.append(name)
        elif name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TMP_SUFFIX)):
            os.unlink(f"{directory}/{name}")
    for name in swaps:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_covered(directory, name)
    for name in swaps:
        os.replace(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    return os.listdir(directory)


def _remove_covered(directory: str, swap_name: str) -> None:
    """Remove the files of segments that a complete `.swap` log replaces: those that begin within its offsets."""
    first = offset_of(swap_name)
    path = f"{directory}/{swap_name}"
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(fd).st_size
        last = max((fields[_BASE_OFFSET] + fields[_LAST_OFFSET_DELTA] for _, fields in scan(fd, size)), default=first)
    finally:
        os.close(fd)
    if first is None or last is None:
        return
    for name in os.listdir(directory):
        offset = offset_of(name)
        if offset is not None and first <= offset <= last and name.endswith(SEGMENT_SUFFIXES):
            os.unlink(f"{directory}/{name}")
