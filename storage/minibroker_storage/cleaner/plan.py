"""The plan and the result of a cleaning, as plain data exchanged between processes as JSON."""

import contextlib
import json
import os
from collections.abc import Collection
from typing import Final, NamedTuple, Self

from minibroker_storage.errors import StorageError
from minibroker_storage.layout import CLEANED_SUFFIX, offset_of

NS_PER_MS: Final = 1_000_000

DEFAULT_DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024
"""Default of `log.cleaner.dedupe.buffer.size`."""
DEFAULT_LOAD_FACTOR: Final = 0.9
"""Default of `log.cleaner.io.buffer.load.factor`."""


class CleaningAbortedError(StorageError):
    """The log's files no longer match the plan, because the log was deleted or truncated or retention removed segments.

    Nothing is lost: the next plan starts from the current files (Kafka's `LogCleaningAbortedException`).
    """


class CleaningFailedError(StorageError):
    """The log cannot be cleaned, because its files contain invalid bytes or the cleaning process died."""


class SegmentToClean(NamedTuple):
    """The state of a closed segment when the plan was made.

    The size and inode of the log file distinguish it from a later file of the same name. The index sizes count only
    the bytes of actual entries. `modified_ns` is the modification time of the log file.
    """

    base_offset: int
    size: int
    offset_index_size: int
    time_index_size: int
    modified_ns: int
    inode: int


class ActiveProducer(NamedTuple):
    """A producer whose last batch must be retained, or at least its header (Kafka's `LastRecord`).

    `last_data_offset` is the last offset of that batch, or -1 if the producer has written only markers.
    """

    producer_id: int
    last_data_offset: int
    producer_epoch: int


class CleaningPlan(NamedTuple):
    """The input of `clean`.

    Records from `first_dirty_offset` on provide the keys, and the segments below `first_uncleanable_offset` are
    cleaned.

    Attributes:
        segments: the segments below `first_uncleanable_offset`.
        later_segments: the base offsets of the following segments. Their transaction indexes can contain
            transactions that began in a cleaned segment.
        legacy_delete_horizon_ms: the delete horizon for v0 and v1 messages, which cannot store one themselves.
        max_map_entries: the maximum number of keys in the offset map; the cleaning ends at the record that exceeds
            it.
        io_bytes_per_second: `log.cleaner.io.max.bytes.per.second`, or None for no limit.
    """

    directory: str
    now_ms: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    segments: tuple[SegmentToClean, ...]
    later_segments: tuple[int, ...]
    producers: tuple[ActiveProducer, ...]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    legacy_delete_horizon_ms: int
    max_map_entries: int
    io_bytes_per_second: float | None = None

    def to_json(self) -> bytes:
        """Serialize the plan for `from_json`."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Restore a plan serialized by `to_json`.

        Raises:
            ValueError, TypeError, KeyError: the data was not written by `to_json`.
        """
        fields = json.loads(data)
        fields["segments"] = tuple(SegmentToClean(*segment) for segment in fields["segments"])
        fields["later_segments"] = tuple(fields["later_segments"])
        fields["producers"] = tuple(ActiveProducer(*producer) for producer in fields["producers"])
        return cls(**fields)


class CleanerStats(NamedTuple):
    """Statistics of one cleaning (Kafka's `CleanerStats`), in bytes and seconds.

    The `map_*` fields describe how the offset map was built. It contains `map_entries` keys, at most
    `max_map_entries`. The other fields describe the cleaning itself. Messages are records, and
    `invalid_messages_read` counts those without a key.
    """

    map_bytes_read: int = 0
    map_messages_read: int = 0
    map_entries: int = 0
    max_map_entries: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    seconds: float = 0.0


class CleanedGroup(NamedTuple):
    """The complete `.cleaned` files of segment `base_offset`, which will replace all segments in `sources`."""

    base_offset: int
    size: int
    sources: tuple[SegmentToClean, ...]

    @property
    def source_base_offsets(self) -> list[int]:
        """The base offsets of the replaced segments."""
        return [source.base_offset for source in self.sources]


class CleaningResult(NamedTuple):
    """The result of `clean`. The log itself is still unchanged.

    The next cleaning continues at `next_dirty_offset` once all `groups` are swapped in. `groups` does not contain
    segments that lost no records.
    """

    directory: str
    first_dirty_offset: int
    next_dirty_offset: int
    groups: tuple[CleanedGroup, ...]
    stats: CleanerStats

    def to_json(self) -> bytes:
        """Serialize the result for `from_json`."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """Restore a result serialized by `to_json`.

        Raises:
            ValueError, TypeError, KeyError: the data was not written by `to_json`.
        """
        fields = json.loads(data)
        fields["groups"] = tuple(
            CleanedGroup(base_offset, size, tuple(SegmentToClean(*source) for source in sources))
            for base_offset, size, sources in fields["groups"]
        )
        fields["stats"] = CleanerStats(*fields["stats"])
        return cls(**fields)


def remove_cleaned_files(directory: str | int, *, keep: Collection[int] = (), only: int | None = None) -> None:
    """Remove `.cleaned` files from a directory.

    These files are not part of the log, but a file left by an interrupted cleaning would make recovery undo a later
    swap.

    Args:
        directory: path or descriptor of the directory.
        keep: base offsets of segments whose files are kept.
        only: base offset of the one segment whose files are removed, or None for all.

    Raises:
        OSError: the directory cannot be read or a file cannot be removed.
    """
    parent = directory if isinstance(directory, int) else None
    for name in os.listdir(directory):
        if name.endswith(CLEANED_SUFFIX) and (offset := offset_of(name)) not in keep and only in {None, offset}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name if parent is not None else f"{directory}/{name}", dir_fd=parent)
