"""Writes the rows of one Spark task into staged segments for each partition, with offsets that start at 0.

The final offsets are known only after all tasks have ended: see `writer`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from minibroker_pipeline.decode import coalesce, encode
from minibroker_pipeline.decode.assemble import Binary
from minibroker_pipeline.decode.encoder import column_of, extract_binary
from minibroker_pipeline.log_directories.directory_commit import staged_task
from minibroker_pipeline.log_directories.segment_writer import LogOrderError, PartitionWriter, WrittenSegment
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.sink.options import MAX_PARTITIONS, WriteOptions, check_topic
from minibroker_storage.data_directory.names import TopicPartition

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_SHIFT: Final = np.uint32(24)
_TAIL_MASKS: Final = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)
_POSITIVE: Final = np.uint32(0x7FFFFFFF)
_BLOCK: Final = 4


class Partitioner:
    """Assigns the rows of one topic to partitions, chunk by chunk.

    Args:
        partitions: the number of partitions of the topic.
        first: the partition where records without a key begin. Tasks should use different partitions.
        batch_bytes: how many bytes of records without a key go to one partition before the next one is used.
    """

    def __init__(self, partitions: int, *, first: int = 0, batch_bytes: int = 64 * 1024) -> None:
        self._partitions = partitions
        self._first = first
        self._batch_bytes = batch_bytes
        self._bytes_without_key = 0

    def partitions_of(self, keys: Binary, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the partition of each row.

        `sizes` has the size of each row in bytes, used only for rows without a key.
        """
        if self._partitions == 1:
            return np.zeros(len(keys.size), np.int64)
        partitions = (murmur2(keys.data, keys.at, keys.size) & _POSITIVE).astype(np.int64) % self._partitions
        keyless = np.flatnonzero(keys.size < 0)
        if len(keyless):
            ends = self._bytes_without_key + np.cumsum(sizes[keyless])
            partitions[keyless] = (self._first + (ends - sizes[keyless]) // self._batch_bytes) % self._partitions
            self._bytes_without_key = int(ends[-1])
        return partitions


def murmur2(data: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32]) -> NDArray[np.uint32]:
    """Return the murmur2 hash of each value, and an arbitrary number for a null.

    All values are hashed side by side, four bytes at a time.
    """
    padded = np.append(data, np.zeros(_BLOCK, np.uint8))
    blocks: NDArray[np.uint32] = np.ndarray(len(data) + 1, "<u4", padded, strides=(1,))
    order = np.argsort(-size, kind="stable")
    positions, sizes = at[order], np.maximum(size[order], 0)
    counts = sizes // _BLOCK
    values = _SEED ^ sizes.astype(np.uint32)
    for block in range(int(counts[0]) if len(counts) else 0):
        count = int(np.searchsorted(-counts, -block, side="left"))
        mixed = blocks[positions[:count] + block * _BLOCK] * _MULTIPLIER
        mixed ^= mixed >> _SHIFT
        values[:count] = (values[:count] * _MULTIPLIER) ^ (mixed * _MULTIPLIER)
    tail_sizes = sizes % _BLOCK
    with_tail = np.flatnonzero(tail_sizes)
    last = blocks[positions[with_tail] + counts[with_tail] * _BLOCK] & _TAIL_MASKS[tail_sizes[with_tail]]
    values[with_tail] = (values[with_tail] ^ last) * _MULTIPLIER
    values = (values ^ (values >> np.uint32(13))) * _MULTIPLIER
    result = np.empty_like(values)
    result[order] = values ^ (values >> np.uint32(15))
    return result


CHUNK_BYTES: Final = 32 * 1024 * 1024
"""Bytes to collect before writing. More are collected for many partitions, to fill their batches."""
_MAX_CHUNK_BYTES: Final = 256 * 1024 * 1024
_WRITTEN_COLUMNS: Final = ("key", "value", "timestamp", "headers", "offset")
_ROW_BYTES: Final = 8
_TOPIC_STRIDE: Final = 1 << 32


class StagedLog(NamedTuple):
    """The segments that a task wrote for one partition.

    Their offsets begin at 0, or are final with `keepOffsets`.
    """

    topic: str
    partition: int
    segments: tuple[WrittenSegment, ...]


@dataclass(frozen=True, slots=True)
class TaskWriter:
    """Writes the rows of one task as the query's options require.

    Args:
        options: the options of the query.
        staging: the staging directory of the query.
        counts: the number of partitions of each existing topic.
        number: the number of the task, so that different tasks begin with different partitions.
    """

    options: WriteOptions
    staging: str
    counts: Mapping[str, int]
    number: int = 0

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[StagedLog, ...]:
        """Write the rows, and return the segments of each partition. All segments are on disk on return.

        Raises:
            OptionError: the topic or the partition of a row is invalid.
            EncodeError: a row cannot be encoded.
            LogOrderError: the offsets of a partition do not ascend.
            OSError: a file cannot be written.
        """
        directory = staged_task(self.staging)
        writers: dict[TopicPartition, PartitionWriter] = {}
        partitioners: dict[str, Partitioner] = {}
        for chunk in self._iterate_chunks(batches):
            for key, rows in self._group_by_partition(chunk, partitioners):
                if key not in writers:
                    writers[key] = _new_writer(directory, key, self.options)
                self._append(writers[key], key, rows)
        return tuple(StagedLog(*key, writer.close()) for key, writer in sorted(writers.items()))

    def _iterate_chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        options = self.options
        estimate = 4 * options.batch_bytes * max([options.partitions or 1, *self.counts.values()])
        enough = min(max(estimate, CHUNK_BYTES), _MAX_CHUNK_BYTES)
        return coalesce((batch for batch in batches if batch.num_rows), target_bytes=enough)

    def _append(self, writer: PartitionWriter, key: TopicPartition, rows: pa.RecordBatch) -> None:
        options = self.options
        encoded = encode(
            rows,
            base_offset=writer.log_end_offset if not options.keep_offsets else 0,
            codec=options.codec,
            level=options.level,
            batch_bytes=options.batch_bytes,
            default_timestamp=options.now_ms,
            keep_offsets=options.keep_offsets,
            leader_epoch=0,
            log_append_time=options.log_append_time,
        )
        try:
            writer.append(encoded.data, encoded.headers)
        except LogOrderError as error:
            raise LogOrderError(f"{key[0]}-{key[1]}: {error}; sort the rows within partitions by offset") from None

    def _group_by_partition(
        self, chunk: pa.RecordBatch, partitioners: dict[str, Partitioner]
    ) -> list[tuple[TopicPartition, pa.RecordBatch]]:
        """Group the rows of a chunk by partition, keeping their order."""
        topics, codes = self._find_topics(chunk)
        partitions = self._partitions(chunk, topics, codes, partitioners)
        rows = chunk.select([name for name in _WRITTEN_COLUMNS if name in chunk.schema.names])
        partition_codes = codes * _TOPIC_STRIDE + partitions
        if len(partition_codes) and (partition_codes == partition_codes[0]).all():
            return [((topics[int(codes[0])], int(partitions[0])), rows)]
        order = np.argsort(partition_codes, kind="stable")
        partition_codes = partition_codes[order]
        rows = rows.take(pa.array(order))
        bounds = [0, *(np.flatnonzero(np.diff(partition_codes)) + 1).tolist(), len(partition_codes)]
        firsts = [divmod(int(partition_codes[first]), _TOPIC_STRIDE) for first in bounds[:-1]]
        return [
            ((topics[code], partition), rows.slice(first, end - first))
            for (code, partition), (first, end) in zip(firsts, pairwise(bounds), strict=True)
        ]

    def _find_topics(self, chunk: pa.RecordBatch) -> tuple[list[str], NDArray[np.int64]]:
        """Return the topics of a chunk, and for each row the index of its topic."""
        column, default = column_of(chunk, "topic"), self.options.topic
        if column is None or default:  # The option takes precedence, as in Spark's Kafka sink.
            return [default], np.zeros(chunk.num_rows, np.int64)
        if column.null_count:
            raise OptionError("topic: a row has none; name one by the option topic")
        encoded = column.dictionary_encode()
        topics: list[str] = encoded.dictionary.to_pylist()
        for topic in topics:
            check_topic(topic)
        return topics, encoded.indices.to_numpy().astype(np.int64)

    def _partitions(
        self, chunk: pa.RecordBatch, topics: list[str], codes: NDArray[np.int64], partitioners: dict[str, Partitioner]
    ) -> NDArray[np.int64]:
        column = column_of(chunk, "partition")
        partitions = np.full(chunk.num_rows, -1, np.int64)
        open_rows = np.ones(chunk.num_rows, np.bool_)
        if column is not None:
            open_rows = column.is_null().to_numpy(zero_copy_only=False)
            partitions = pc.fill_null(column.cast(pa.int64()), -1).to_numpy().copy()
        if self.options.keep_offsets and open_rows.any():
            raise OptionError("keepOffsets: a row has no partition")
        keys = sizes = None
        for code, topic in enumerate(topics):
            lines = np.flatnonzero((codes == code) & open_rows)
            if len(lines):
                if keys is None or sizes is None:
                    keys, sizes = extract_binary(column_of(chunk, "key"), chunk.num_rows, "key"), _sizes_of(chunk)
                partitioner = self._get_partitioner(topic, partitioners)
                topic_keys = keys._replace(at=keys.at[lines], size=keys.size[lines])
                partitions[lines] = partitioner.partitions_of(topic_keys, sizes[lines])
            self._check_range(topic, partitions[codes == code])
        return partitions

    def _get_partitioner(self, topic: str, partitioners: dict[str, Partitioner]) -> Partitioner:
        if topic not in partitioners:
            count = self._count(topic) or 1
            partitioners[topic] = Partitioner(count, first=self.number, batch_bytes=self.options.batch_bytes)
        return partitioners[topic]

    def _count(self, topic: str) -> int | None:
        return self.counts.get(topic, self.options.partitions)

    def _check_range(self, topic: str, partitions: NDArray[np.int64]) -> None:
        if not len(partitions):
            return
        count = self._count(topic)
        lowest, highest = int(np.min(partitions)), int(np.max(partitions))
        if lowest < 0:
            raise OptionError(f"partition: {lowest} of topic {topic!r} cannot be")
        if count is None and highest >= MAX_PARTITIONS:
            raise OptionError(f"partition: {highest} of topic {topic!r}: at most {MAX_PARTITIONS - 1} can be")
        if count is not None and highest >= count:
            raise OptionError(f"partition: {highest} of topic {topic!r}, which has {count}")


def _new_writer(directory: str, key: TopicPartition, options: WriteOptions) -> PartitionWriter:
    path = f"{directory}/{key[0]}-{key[1]}"
    os.mkdir(path)
    writer = PartitionWriter(path, options.files)
    if options.keep_offsets:
        writer.roll()  # Roll, so that the first segment begins at the offset of the first record instead of 0.
    return writer


def _sizes_of(chunk: pa.RecordBatch) -> NDArray[np.int64]:
    """Return the approximate size of each row in bytes: the size of its value plus a fixed overhead."""
    value = extract_binary(column_of(chunk, "value"), chunk.num_rows, "value")
    return np.maximum(value.size, 0).astype(np.int64) + _ROW_BYTES
