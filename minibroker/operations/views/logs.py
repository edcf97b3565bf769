"""Logs for a page. Each function names a topic and a partition; the values are those of `minibroker_storage.views`.

`OperationError` for a topic, a partition or a segment that is not there, and for files that cannot be read.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from minibroker.cluster.errors import OperationError
from minibroker.operations.records import partitions_of, topic_of
from minibroker.server.services import Services
from minibroker_protocol.errors import DecodeError
from minibroker_protocol.fields.batches import record_set_tree
from minibroker_protocol.fields.coordinators import open_records
from minibroker_protocol.fields.tree import Limits, Node
from minibroker_storage.errors import StorageError
from minibroker_storage.log import Log
from minibroker_storage.segment import LogSegment
from minibroker_storage.views import look_ups, snapshot

MOST: int = snapshot.MOST


async def log_view(services: Services, topic: str, partition: int, *, first: int = 0) -> snapshot.LogView:
    """The log's marks, leader epochs, and its segments from number `first` on, at most 1,000."""
    with _readable():
        return snapshot.log_view(_log(services, topic, partition), first)


async def batches(
    services: Services, topic: str, partition: int, offset: int, *, most: int = MOST
) -> snapshot.BatchPage:
    """The batches from the one of `offset` on, at most `most` (1,000); `next_offset` goes on."""
    with _readable():
        return snapshot.batch_page(_log(services, topic, partition), offset, min(most, MOST))


async def offset_entries(
    services: Services, topic: str, partition: int, segment: int, *, first: int = 0, stride: int = 1
) -> Sequence[snapshot.OffsetEntryView]:
    """Every `stride`-th entry of the offset index of the segment with this base offset, at most 1,000."""
    found = _segment(_log(services, topic, partition), segment)
    with _readable():
        return snapshot.offset_entries(found, first, stride)


async def time_entries(
    services: Services, topic: str, partition: int, segment: int, *, first: int = 0, stride: int = 1
) -> Sequence[snapshot.TimeEntryView]:
    """The same of the time index."""
    found = _segment(_log(services, topic, partition), segment)
    with _readable():
        return snapshot.time_entries(found, first, stride)


async def producers(
    services: Services, topic: str, partition: int, *, after: int = -1
) -> Sequence[snapshot.ProducerView]:
    """The producers that have written to the log, each with its last five batches; ids above `after`."""
    with _readable():
        return snapshot.producers(_log(services, topic, partition), after)


async def aborted_transactions(
    services: Services, topic: str, partition: int, *, offset: int = 0
) -> Sequence[snapshot.AbortedView]:
    """The aborted transactions whose markers are at `offset` or behind it, at most 1,000."""
    with _readable():
        return snapshot.aborted_transactions(_log(services, topic, partition), offset)


async def find_offset(services: Services, topic: str, partition: int, offset: int) -> look_ups.LookUp:
    """The steps that find an offset in this very log."""
    with _readable():
        return look_ups.find_offset(_log(services, topic, partition), offset)


async def find_time(services: Services, topic: str, partition: int, timestamp: int) -> look_ups.LookUp:
    """The steps that find the first record with a time (ms) at or above `timestamp`."""
    with _readable():
        return look_ups.find_time(_log(services, topic, partition), timestamp)


async def batch(
    services: Services, topic: str, partition: int, segment: int, position: int, *, first_record: int = 0
) -> tuple[bytes, Node]:
    """The bytes of the batch at a position of a segment, at most 1 MiB, and the tree of its fields.

    Records of the coordinators' topics are opened. Of a large batch there are pages: `first_record` is the number of
    the first record that is opened.
    """
    log = _log(services, topic, partition)
    limits = Limits(first_record=first_record)

    with _readable():
        data = snapshot.read_batch(log, segment, position)
        if data is None:
            raise OperationError(f"segment: the log has none with base offset {segment}")
        view = memoryview(data)
        tree = record_set_tree(view, limits)
        open_records(tree, view, topic, limits)
        return data, tree


def _log(services: Services, topic: str, partition: int) -> Log:
    services.core.writes.commit()
    (found,) = partitions_of(topic_of(services, topic), partition)
    with _readable():
        return found.log


def _segment(log: Log, base_offset: int) -> LogSegment:
    found = snapshot.segment_with(log, base_offset)
    if found is None:
        raise OperationError(f"segment: the log has none with base offset {base_offset}")
    return found


@contextmanager
def _readable() -> Generator[None]:
    """Raise errors of reading a log as `OperationError`."""
    try:
        yield
    except (StorageError, DecodeError, OSError) as error:
        raise OperationError(f"the log cannot be read: {error}") from error
