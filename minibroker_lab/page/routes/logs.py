"""The logs of partitions: segments, batches, indexes, and lookups shown step by step."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from operator import itemgetter
from typing import Annotated, Any, Final, TypeVar

from fastapi import APIRouter, Path, Query

from minibroker.cluster.errors import NotFoundError, OperationError
from minibroker.cluster.partition import Partition
from minibroker.operations.asynchronous import AsyncOperations
from minibroker_control.remote import OnBroker
from minibroker_lab.page.detail import record_set_json
from minibroker_lab.page.routes import OnRecorder, OnSchemas
from minibroker_storage.errors import StorageError
from minibroker_storage.log import Log
from minibroker_storage.views import look_ups, snapshot

router = APIRouter(prefix="/logs")

T = TypeVar("T")

_MAX_ARROWS: Final = 400
_MAX_PARTITIONS: Final = 2000
_ENTRIES_BEFORE: Final = 2
_MAX_CHANGES: Final = 20

Topic = Annotated[str, Path()]
Number = Annotated[int, Path(ge=0)]
Offset = Annotated[int, Query(ge=0)]
Most = Annotated[int, Query(ge=1, le=1000)]


@router.get("")
async def logs(on_broker: OnBroker) -> dict[str, Any]:
    """Return all partitions with their offsets and sizes, limited to the first 2,000."""

    def work(broker: AsyncOperations) -> dict[str, Any]:
        core = broker.services.core
        core.writes.commit()
        partitions = [partition for topic in core.topics for partition in topic.partitions]
        summaries = [_summarize(partition) for partition in partitions[:_MAX_PARTITIONS]]
        return {"count": len(partitions), "partitions": sorted(summaries, key=itemgetter("topic", "index"))}

    return await on_broker.get(work)


@router.get("/{topic}/{index}")
async def one(topic: Topic, index: Number, on_broker: OnBroker, first_segment: Offset = 0) -> dict[str, Any]:
    """Return a log: its offsets, segments and leader epochs."""

    async def work(broker: AsyncOperations) -> dict[str, Any]:
        partition = _find_partition(broker, topic, index)
        view = snapshot.log_view(partition.log, first_segment)
        return {**_summarize(partition), **asdict(view), "replicas": list(partition.replicas)}

    return await on_broker(work)


@router.get("/{topic}/{index}/batches")
async def batches(
    topic: Topic, index: Number, on_broker: OnBroker, offset: Offset = 0, most: Most = 200
) -> dict[str, Any]:
    """Return the batches around an offset.

    The first batch is that of the second to last index entry at or below the offset.
    """

    def work(log: Log) -> Any:
        return snapshot.batch_page(log, _find_offset_before(log, offset), most)

    return asdict(await _read_log(on_broker, topic, index, work))


@router.get("/{topic}/{index}/indexes")
async def indexes(topic: Topic, index: Number, on_broker: OnBroker, segment: Offset) -> dict[str, Any]:
    """Return the entries of a segment's indexes. If there are many, return only every nth entry."""

    def work(log: Log) -> dict[str, Any]:
        segment_view = snapshot.find_segment(log, segment)
        if segment_view is None:
            raise NotFoundError(f"segment: {topic}-{index} has none with the base offset {segment}")
        strides = [1 + view.entries // _MAX_ARROWS for view in (segment_view.offset_index, segment_view.time_index)]
        return {
            "offset_entries": _to_dicts(snapshot.offset_entries(segment_view, 0, strides[0])),
            "time_entries": _to_dicts(snapshot.time_entries(segment_view, 0, strides[1])),
            "strides": strides,
        }

    return await _read_log(on_broker, topic, index, work)


@router.get("/{topic}/{index}/history")
async def history(topic: Topic, index: Number, recorder: OnRecorder) -> dict[str, Any]:
    """Return a log's latest changes by compaction, retention and DeleteRecords.

    Each change has the outlines of the log before and after it.
    """
    events = [event for event in recorder.events.of(topic, index) if "before" in event.facts]
    return {"count": len(events), "changes": [event._asdict() for event in events[-_MAX_CHANGES:]]}


@router.get("/{topic}/{index}/batch")
async def batch(
    topic: Topic, index: Number, on_broker: OnBroker, schemas: OnSchemas, segment: Offset, position: Offset
) -> dict[str, Any]:
    """Return the bytes of one batch and their fields."""
    data = await _read_log(on_broker, topic, index, lambda log: snapshot.read_batch(log, segment, position))
    if not data:
        raise NotFoundError(f"batch: {topic}-{index} has none at byte {position} of segment {segment}")
    assert schemas is not None
    await schemas.update()
    return record_set_json(data, topic, schemas)


@router.get("/{topic}/{index}/find")
async def find(
    topic: Topic,
    index: Number,
    on_broker: OnBroker,
    offset: Annotated[int | None, Query()] = None,
    time: Annotated[int | None, Query(description="ms since the epoch")] = None,
) -> dict[str, Any]:
    """Return the lookup steps that find an offset or a time."""
    if (offset is None) == (time is None):
        raise OperationError("find: exactly one of offset and time is needed")

    def work(log: Log) -> look_ups.LookUp:
        return look_ups.find_offset(log, offset) if offset is not None else look_ups.find_time(log, time or 0)

    try:
        return asdict(await _read_log(on_broker, topic, index, work))
    except StorageError as error:
        raise OperationError(f"{topic}-{index}: {error}") from None


@router.get("/{topic}/{index}/producers")
async def producers(topic: Topic, index: Number, on_broker: OnBroker) -> dict[str, Any]:
    """Return the log's producers and aborted transactions."""

    def work(log: Log) -> dict[str, Any]:
        return {
            "producers": _to_dicts(snapshot.producers(log, limit=100)),
            "aborted": _to_dicts(snapshot.aborted_transactions(log, limit=100)),
        }

    return await _read_log(on_broker, topic, index, work)


def _to_dicts(rows: Sequence[Any]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


async def _read_log(on_broker: OnBroker, topic: str, index: int, read: Callable[[Log], T]) -> T:
    """Call `read` with a log on the broker's loop, and return its result.

    Raises:
        NotFoundError: There is no such partition.
    """
    return await on_broker.get(lambda broker: read(_find_partition(broker, topic, index).log))


def _find_partition(broker: AsyncOperations, topic: str, index: int) -> Partition:
    """Return a partition after committing all pending writes, so that its log has every appended record.

    Raises:
        NotFoundError: There is no such partition.
    """
    core = broker.services.core
    core.writes.commit()
    known_topic = core.topics.get(topic)
    if known_topic is None:
        raise NotFoundError(f"topic: there is no {topic!r}")
    if index >= len(known_topic.partitions):
        raise NotFoundError(f"partition: {topic!r} has {len(known_topic.partitions)}, and no {index}")
    return known_topic.partitions[index]


def _find_offset_before(log: Log, offset: int) -> int:
    """Return an offset a few batches before the given one, in the same segment."""
    offset = min(max(offset, log.log_start_offset), log.log_end_offset)
    segment = log.segments[log.segment_index(offset)]
    for _ in range(_ENTRIES_BEFORE):
        entry = segment.offset_index.lookup(offset)
        if not entry.position:
            offset = segment.base_offset
            break
        offset = entry.offset - 1
    return max(offset, log.log_start_offset)


def _summarize(partition: Partition) -> dict[str, Any]:
    log = partition.log
    leader = partition.leader
    return {
        "topic": partition.topic.name,
        "index": partition.index,
        "is_internal": partition.topic.is_internal,
        "leader": None if leader is None else leader.id,
        "log_start_offset": log.log_start_offset,
        "last_stable_offset": log.last_stable_offset,
        "high_watermark": log.high_watermark,
        "log_end_offset": log.log_end_offset,
        "size": log.size,
        "segment_count": len(log.segments),
    }
