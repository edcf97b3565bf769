"""Helpers that produce records, fetch them and list offsets, shared by the checks of several stages."""

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
"""The timestamp of most records in milliseconds: one minute ago, so that retention and `segment.ms` do not apply."""
PRODUCED: Final = "responses[0].partition_responses[0]"
PRODUCE_ERROR: Final = f"{PRODUCED}.error_code"
FETCHED: Final = "responses[0].partitions[0]"
RECORDS: Final = f"{FETCHED}.records"
OFFSET: Final = "topics[0].partitions[0].offset"
EARLIEST: Final = -2
LATEST: Final = -1


def new_records(*values: str, key: str | None = None, start: int = TIME) -> list[NewRecord]:
    """Return records with these values, one millisecond apart."""
    return [
        NewRecord(None if key is None else key.encode(), value.encode(), start + index)
        for index, value in enumerate(values)
    ]


def produce_request(
    topic: str, records: bytes | bytearray, *, acks: int = -1, partition: int = 0, transactional_id: str | None = None
) -> ProduceRequest:
    """Return a Produce request for one partition."""
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30000, topic_data=[data])


def send(b: Subject, topic: str, records: bytes | bytearray, *, version: int | None = None, **options: Any) -> Any:
    """Produce these records and return the response. `options` are passed to `produce_request`."""
    return b.ask(produce_request(topic, records, **options), version)


def produce(b: Subject, topic: str, *values: str, version: int | None = None, **options: Any) -> Any:
    """Produce the values in one batch of format v2 and return the response. `options` are passed to `build_batch`."""
    batch = build_batch(new_records(*values), **options)
    return send(b, topic, batch, version=version)


def write(b: Subject, topic: str, *values: str, **options: Any) -> int:
    """Produce the values, check that the broker accepts them, and return the base offset.

    For checks that only need some records in the log.
    """
    answer = produce(b, topic, *values, **options)
    b.same(answer, PRODUCE_ERROR, 0, "records to work with")
    offset: int = answer.responses[0].partition_responses[0].base_offset
    return offset


def topic_with(b: Subject, *values: str) -> str:
    """Create a topic, produce the values, and return the topic's name."""
    topic = b.topic()
    write(b, topic, *values)
    return topic


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
    """Return a Fetch request for one partition. `wait` is in milliseconds."""
    fetch_partition = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max)
    return FetchRequest(
        max_wait_ms=wait,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic=topic, partitions=[fetch_partition])],
    )


def fetch(b: Subject, topic: str, offset: int = 0, version: int | None = None, **options: Any) -> Any:
    """Send the request of `fetch_request` and return the response."""
    request = fetch_request(topic, offset, **options)
    return b.ask(request, version)


def batches_in(answer: Any) -> list[Batch]:
    """Return the batches of the first partition in a Fetch response."""
    return list(iter_batches(answer.responses[0].partitions[0].records or b""))


def records_in(answer: Any) -> list[Record]:
    """Return the records of the first partition in a Fetch response, without transaction markers."""
    return [
        record
        for batch in batches_in(answer)
        if batch.header.magic < 2 or not batch.header.is_control  # noqa: PLR2004 - older formats have no markers
        for record in batch
    ]


def values_of(records: Sequence[Record]) -> list[str]:
    """Return the record values as strings."""
    return [bytes(record.value or b"").decode() for record in records]


def list_offsets(b: Subject, topic: str, timestamp: int, version: int | None = None, *, committed: bool = False) -> Any:
    """Return the ListOffsets response for partition 0."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        isolation_level=int(committed), topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    return b.ask(request, version)


def check_values(b: Subject, answer: Any, values: Sequence[str]) -> None:
    """Check that the first partition of a Fetch response has records with these values."""
    b.equal(values_of(records_in(answer)), values, "the values", answer, RECORDS)


def check_produced(b: Subject, answer: Any, base_offset: int) -> None:
    """Check that a Produce response for one partition has no error and this base offset."""
    b.same(answer, PRODUCE_ERROR, 0)
    b.same(answer, f"{PRODUCED}.base_offset", base_offset)


def check_end(b: Subject, topic: str, offset: int) -> None:
    """Check that the log end offset of partition 0 is `offset`."""
    b.same(list_offsets(b, topic, LATEST), OFFSET, offset)
