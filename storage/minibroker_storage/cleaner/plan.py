"""The plan of a cleaning and its result, as plain data that goes from one process to another as JSON."""

import contextlib
import json
import os
from collections.abc import Collection
from typing import Final, NamedTuple, Self

from minibroker_storage.errors import StorageError
from minibroker_storage.layout import CLEANED_SUFFIX, offset_of

NS_PER_MS: Final = 1_000_000

DEFAULT_DEDUPE_BUFFER_BYTES: Final = 128 * 1024 * 1024
"""`log.cleaner.dedupe.buffer.size`."""
DEFAULT_LOAD_FACTOR: Final = 0.9
"""`log.cleaner.io.buffer.load.factor`."""


class CleaningAbortedError(StorageError):
    """The log's files are not those of the plan any more: it was deleted, truncated, or retention was faster.

    Nothing is lost; the next plan sees what is there (Kafka's `LogCleaningAbortedException`).
    """


class CleaningFailedError(StorageError):
    """The log cannot be cleaned: its bytes are no log, or the cleaning process died."""


class SegmentToClean(NamedTuple):
    """A closed segment as the plan found it. `size` and `inode` are the log file's and distinguish it from a later one.

    The index sizes are those of the entries, in bytes; `modified_ns` is the log file's time of modification.
    """

    base_offset: int
    size: int
    offset_index_size: int
    time_index_size: int
    modified_ns: int
    inode: int


class ActiveProducer(NamedTuple):
    """A producer whose last batch has to stay, if only its header (Kafka's `LastRecord`).

    `last_data_offset` is the last offset of that batch, -1 when only a marker is known of the producer.
    """

    producer_id: int
    last_data_offset: int
    producer_epoch: int


class CleaningPlan(NamedTuple):
    """All that `clean` has to know.

    Segments below `first_uncleanable_offset` are cleaned with the keys of the records from `first_dirty_offset` on.
    `segments` are these; `later_segments` are the base offsets of those behind, whose transaction indexes may have
    transactions that began before. Times are in ms; `legacy_delete_horizon_ms` is for formats v0 and v1, which have no
    place for a delete horizon. `max_map_entries` ends the dirty range early. `io_bytes_per_second` is
    `log.cleaner.io.max.bytes.per.second`, None without a limit.
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
        """For `from_json`."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The plan that `to_json` gave. `ValueError`, `TypeError`, `KeyError` for anything else."""
        fields = json.loads(data)
        fields["segments"] = tuple(SegmentToClean(*segment) for segment in fields["segments"])
        fields["later_segments"] = tuple(fields["later_segments"])
        fields["producers"] = tuple(ActiveProducer(*producer) for producer in fields["producers"])
        return cls(**fields)


class CleanerStats(NamedTuple):
    """Figures of one cleaning (Kafka's `CleanerStats`): first of building the map, then of cleaning; bytes, seconds.

    Messages are records; `invalid_messages_read` had no key. `map_entries` of `max_map_entries` keys were found.
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
    """Complete `.cleaned` files for the segment `base_offset`, which take the place of all the `sources`."""

    base_offset: int
    size: int
    sources: tuple[SegmentToClean, ...]

    @property
    def source_base_offsets(self) -> list[int]:
        """Which segments are replaced."""
        return [source.base_offset for source in self.sources]


class CleaningResult(NamedTuple):
    """The result of `clean`; nothing of the log has changed yet.

    `next_dirty_offset` is where the next cleaning goes on, once the `groups` are in place. Segments that lost nothing
    have no group.
    """

    directory: str
    first_dirty_offset: int
    next_dirty_offset: int
    groups: tuple[CleanedGroup, ...]
    stats: CleanerStats

    def to_json(self) -> bytes:
        """For `from_json`."""
        return json.dumps(self._asdict()).encode()

    @classmethod
    def from_json(cls, data: bytes) -> Self:
        """The result that `to_json` gave. `ValueError`, `TypeError`, `KeyError` for anything else."""
        fields = json.loads(data)
        fields["groups"] = tuple(
            CleanedGroup(base_offset, size, tuple(SegmentToClean(*source) for source in sources))
            for base_offset, size, sources in fields["groups"]
        )
        fields["stats"] = CleanerStats(*fields["stats"])
        return cls(**fields)


def remove_cleaned_files(directory: str | int, *, keep: Collection[int] = (), only: int | None = None) -> None:
    """Remove `.cleaned` files from a directory, given by its path or its descriptor. `OSError`.

    All of them, or all but those of the segments in `keep`, or those of the segment `only`. They count for nothing,
    but one that a stopped cleaning has left would make recovery undo a later swap.
    """
    parent = directory if isinstance(directory, int) else None
    for name in os.listdir(directory):
        if name.endswith(CLEANED_SUFFIX) and (offset := offset_of(name)) not in keep and only in {None, offset}:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name if parent is not None else f"{directory}/{name}", dir_fd=parent)
