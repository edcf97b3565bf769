"""Small requests with large contents: batches that expand enormously, and searches in these batches."""

import gzip
import time

import zstandard

from benchmarks.hostile.bytes_of import GZIP, ZSTD, batch, record
from benchmarks.hostile.case import Attack, Cases, Target, sent
from benchmarks.wire import WireError
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

_CASES = Cases()
case = _CASES.case
_LARGE = "20000000"
_LATER_MS = 5_000


def _produce(topic: str, batches: list[bytes], *, apart: bool = False) -> ProduceRequest:
    """Return a Produce request with batches for partition 0, or for one partition each."""
    data = [PartitionProduceData(index=number if apart else 0, records=each) for number, each in enumerate(batches)]
    topics = [TopicProduceData(name=topic, partition_data=data)]
    return ProduceRequest(transactional_id=None, acks=1, timeout_ms=60_000, topic_data=topics)


def _fill(target: Target, topic: str, batches: list[bytes]) -> None:
    for outcome in target.ask(_produce(topic, batches), 9).responses[0].partition_responses:
        if outcome.error_code:
            raise WireError(f"Produce: {outcome.error_code} {outcome.error_message}")


def _by_time(topic: str, moment_ms: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=0, timestamp=moment_ms)
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


@case("Produce of 50 zstd batches of 4 KB that hold 127 MiB each", 50)
def produce_bombs(target: Target, size: int) -> Attack:
    packed = zstandard.ZstdCompressor(19).compress(record(0, bytes(127 << 20)))
    # Kafka refuses a partition that is named twice, so each batch has its own partition.
    return sent((_produce(target.topic(size), [batch(packed, 1, ZSTD)] * size, apart=True), 9))


@case("Produce of 9,000 partitions, a small batch each", 9_000)
def produce_wide(target: Target, size: int) -> Attack:
    return sent((_produce(target.topic(size), [batch(record(0, b"x"), 1)] * size, apart=True), 9))


@case("Produce of 1,000,000 records in batches of one (80 MB)", 1_000_000)
def produce_small_batches(target: Target, size: int) -> Attack:
    name = target.topic(max_message_bytes="100000000")
    each = batch(record(0, b"x"), 1)
    # Kafka takes one batch for each partition from v3 on; v2 may bring message sets, so nothing older will do.
    return sent((_produce(name, [each * size]), 9))


@case("Produce of 500,000 keyed records (gzip) to a compacted topic", 500_000)
def produce_compacted(target: Target, size: int) -> Attack:
    packed = gzip.compress(b"".join(record(number, b"", b"k") for number in range(size)), 6)
    return sent((_produce(target.topic(cleanup_policy="compact"), [batch(packed, size, GZIP)]), 9))


def _long_batch(size: int) -> bytes:
    """Return a batch in which only the last record has a later time."""
    last = record(size - 1, time_delta=_LATER_MS)
    packed = gzip.compress(b"".join([*(record(number) for number in range(size - 1)), last]), 6)
    return batch(packed, size, GZIP, later_ms=_LATER_MS)


@case("ListOffsets by time in a batch of 3,000,000 records (4 MB)", 3_000_000)
def look_up_by_time(target: Target, size: int) -> Attack:
    name = target.topic(max_message_bytes=_LARGE)
    _fill(target, name, [_long_batch(size)])
    return sent((_by_time(name, int(time.time() * 1000) + _LATER_MS // 2), 5))


@case("ListOffsets by time over 300 batches that promise a later one", 300)
def look_up_promises(target: Target, size: int) -> Attack:
    name = target.topic(max_message_bytes=_LARGE)
    packed = zstandard.ZstdCompressor(19).compress(b"".join(record(number, bytes(200_000)) for number in range(101)))
    for _ in range(size):
        _fill(target, name, [batch(packed, 101, ZSTD, later_ms=10**9)])
    return sent((_by_time(name, int(time.time() * 1000) + 10**8), 5))


@case("Fetch v3 of a batch of 3,000,000 records, down-converted", 3_000_000)
def fetch_converted(target: Target, size: int) -> Attack:
    name = target.topic(max_message_bytes=_LARGE)
    _fill(target, name, [_long_batch(size)])
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=name, partitions=[partition])]
    return sent((FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=topics), 3))


CASES = tuple(_CASES.found)
