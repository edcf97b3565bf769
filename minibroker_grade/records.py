"""Producing and fetching, as the checks of several stages do it."""

import time
from collections.abc import Sequence
from typing import Any, Final

from minibroker_grade.subject import Subject
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minibroker_protocol.records.batch import Batch, iter_batches
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord, Record

TIME: Final = int(time.time() * 1000) - 60_000
"""The timestamp of most records, in milliseconds: a minute ago, so that neither retention nor `segment.ms` counts."""
PRODUCED: Final = "responses[0].partition_responses[0]"
PRODUCE_ERROR: Final = f"{PRODUCED}.error_code"
FETCHED: Final = "responses[0].partitions[0]"
RECORDS: Final = f"{FETCHED}.records"
OFFSET: Final = "topics[0].partitions[0].offset"
EARLIEST: Final = -2
LATEST: Final = -1


def new_records(*values: str, key: str | None = None, start: int = TIME) -> list[NewRecord]:
    """Records with these values, a millisecond apart."""
    return [
        NewRecord(None if key is None else key.encode(), value.encode(), start + at) for at, value in enumerate(values)
    ]


def produce_request(
    topic: str, records: bytes | bytearray, *, acks: int = -1, partition: int = 0, transactional_id: str | None = None
) -> ProduceRequest:
    """A request for one partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30000, topic_data=[data])


def send(b: Subject, topic: str, records: bytes | bytearray, *, version: int | None = None, **options: Any) -> Any:
    """The response to these records; `options` are those of `produce_request`."""
    return b.ask(produce_request(topic, records, **options), version)


def produce(b: Subject, topic: str, *values: str, version: int | None = None, **options: Any) -> Any:
    """The response to a batch of format v2 with these values; `options` are those of `build_batch`."""
    batch = build_batch(new_records(*values), **options)
    return send(b, topic, batch, version=version)


def write(b: Subject, topic: str, *values: str, **options: Any) -> int:
    """Produce as above; returns the base offset. A check that only needs records uses this one."""
    answer = produce(b, topic, *values, **options)
    b.same(answer, PRODUCE_ERROR, 0, "records to work with")
    offset: int = answer.responses[0].partition_responses[0].base_offset
    return offset


def fetch_request(  # noqa: PLR0913 - one argument for each field that a check decides
    topic: str,
    offset: int = 0,
    *,
    wait: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max: int = 1 << 20,
    committed: bool = False,
    partition: int = 0,
    session_id: int = 0,
    session_epoch: int = -1,
) -> FetchRequest:
    """A request for one partition; `wait` is in milliseconds."""
    asked = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max)
    return FetchRequest(
        max_wait_ms=wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[asked])],
    )


def fetch(b: Subject, topic: str, offset: int = 0, version: int | None = None, **options: Any) -> Any:
    """The response to `fetch_request`."""
    request = fetch_request(topic, offset, **options)
    return b.ask(request, version)


def batches_in(answer: Any) -> list[Batch]:
    """The batches of the first partition of a fetch response."""
    return list(iter_batches(answer.responses[0].partitions[0].records or b""))


def records_in(answer: Any) -> list[Record]:
    """The records of the first partition of a fetch response, without markers."""
    return [
        record
        for batch in batches_in(answer)
        if batch.header.magic < 2 or not batch.header.is_control  # noqa: PLR2004 - older formats have no markers
        for record in batch
    ]


def values_of(records: Sequence[Record]) -> list[str]:
    """The values as text."""
    return [bytes(record.value or b"").decode() for record in records]


def offset_of(b: Subject, topic: str, timestamp: int, version: int | None = None, *, committed: bool = False) -> Any:
    """The response to ListOffsets for partition 0."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        isolation_level=int(committed), topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    return b.ask(request, version)


def has_values(b: Subject, answer: Any, values: Sequence[str]) -> None:
    """The first partition of a fetch response has records with these values."""
    b.equal(values_of(records_in(answer)), values, "the values", answer, RECORDS)


def ends_at(b: Subject, topic: str, offset: int) -> None:
    """Partition 0 ends at this offset."""
    b.same(offset_of(b, topic, LATEST), OFFSET, offset)
