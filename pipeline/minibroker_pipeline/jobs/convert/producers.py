"""The producers at the end of a log, and the transactions aborted in it."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from minibroker_pipeline.decode import AbortedRange
from minibroker_pipeline.decode.blocks import RecordEngine
from minibroker_pipeline.jobs.segment_walk import Entries, read_entries
from minibroker_pipeline.log_directories.index_files import aborted_transactions
from minibroker_pipeline.log_directories.partition_logs import PartitionLog
from minibroker_protocol.errors import CorruptRecordError, DecodeError
from minibroker_protocol.records.header import HEADER, MAGIC_V2, make_header
from minibroker_protocol.records.varint import INT64_MAX
from minibroker_storage.errors import CorruptIndexError, CorruptSnapshotError
from minibroker_storage.layout import SNAPSHOT_SUFFIX, TXN_INDEX_SUFFIX, file_name
from minibroker_storage.producer_snapshot import ProducerStateEntry, decode_snapshot
from minibroker_storage.producer_state import ProducerStateManager
from minibroker_storage.transaction_index import AbortedTxn


class LogProducers(NamedTuple):
    """The producers at a log's end by id, and the aborted transactions in the order of their markers."""

    producers: dict[int, ProducerStateEntry]
    aborted: tuple[AbortedTxn, ...]

    @property
    def uncommitted(self) -> tuple[AbortedRange, ...]:
        """Aborted transactions, and those that are open, without end."""
        still_open = (
            AbortedRange(producer, entry.current_txn_first_offset, INT64_MAX)
            for producer, entry in self.producers.items()
            if entry.current_txn_first_offset >= 0
        )
        return (*(AbortedRange(*one[:3]) for one in self.aborted), *still_open)


def log_producers(log: PartitionLog, end_position: int, end_offset: int, engine: RecordEngine) -> LogProducers:
    """The producers by the newest snapshot, the transaction indexes, and the batches behind that. `OSError`.

    Where a transaction index cannot be read, all batches are gone through. `end_position` is that of the last segment.
    A broker that has stopped cleanly, and left no snapshot, knew of no producers.
    """
    has_index = any(TXN_INDEX_SUFFIX in segment.indexes for segment in log.segments)
    if log.data.is_clean and not log.snapshots and not has_index:
        return LogProducers({}, ())
    known: set[AbortedTxn] = set()
    snapshot_offset, producers = _newest_snapshot(log, end_offset)
    try:
        for segment in log.segments:
            if TXN_INDEX_SUFFIX in segment.indexes:
                path = log.path(segment, TXN_INDEX_SUFFIX)
                with contextlib.suppress(FileNotFoundError):
                    known.update(aborted_transactions(log.filesystem.read(path), path))
    except CorruptIndexError:
        snapshot_offset, producers = 0, {}
    state = ProducerStateManager("", INT64_MAX, known=producers)
    seen = {(one.producer_id, one.last_offset) for one in known}
    for entries in _behind(log, snapshot_offset, end_position, engine):
        known.update(one for one in _replay(state, entries, snapshot_offset) if (one[0], one.last_offset) not in seen)
    return LogProducers(dict(state.active), tuple(sorted(known, key=lambda one: one.last_offset)))


def _newest_snapshot(log: PartitionLog, end_offset: int) -> tuple[int, dict[int, ProducerStateEntry]]:
    for offset in reversed(log.snapshots):
        if offset <= end_offset:
            with contextlib.suppress(CorruptSnapshotError, FileNotFoundError):
                data = log.filesystem.read(f"{log.directory}/{file_name(offset, SNAPSHOT_SUFFIX)}")
                return offset, decode_snapshot(data)
    return 0, {}


def _behind(log: PartitionLog, offset: int, end_position: int, engine: RecordEngine) -> Iterator[Entries]:
    """The entries of the segments that reach beyond an offset."""
    for number, segment in enumerate(log.segments):
        next_base = log.end_of(number)
        if next_base is not None and next_base <= offset:
            continue
        with log.filesystem.open(log.path(segment)) as file:
            size = segment.size if next_base is not None else end_position
            for piece in read_entries(file, size, engine):
                if isinstance(piece, Entries):
                    yield piece


def _replay(producers: ProducerStateManager, entries: Entries, from_offset: int) -> list[AbortedTxn]:
    """Note the batches from an offset on; the transactions that they abort."""
    aborted: list[AbortedTxn] = []
    headers = entries.headers
    is_wanted = (headers["producer_id"] >= 0) & (headers["magic"] == MAGIC_V2)
    for line in np.flatnonzero(is_wanted & (headers["last_offset"] >= from_offset)).tolist():
        position, size = int(headers["position"][line]), int(headers["size"][line])
        header = make_header(HEADER.unpack_from(entries.data, position))
        try:
            found = producers.update(header, header.base_offset, entries.data[position : position + size])
        except (CorruptRecordError, DecodeError):
            producers.rollback()  # the conversion of the batch reports it, or leaves it out
            continue
        producers.commit()
        if found is not None:
            aborted.append(found)
    return aborted
