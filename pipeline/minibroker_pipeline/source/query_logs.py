"""The logs that a query reads: found in the directories that it names, and followed as they grow."""

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from minibroker_pipeline.decode import DamagedLogError
from minibroker_pipeline.log_directories.log_end_offsets import LogTail
from minibroker_pipeline.log_directories.partition_logs import (
    FoundPartition,
    LogNameError,
    PartitionLog,
    find_partitions,
    open_partition,
    select,
)
from minibroker_pipeline.source.options import SourceOptions
from minibroker_pipeline.source.planning import LogRange, OffsetInterval, plan_ranges
from minibroker_pipeline.source.reading import HINT
from minibroker_storage.data_directory.names import TopicPartition

_TRIES: Final = 5
_logger = logging.getLogger(__name__)


class QueryLog(NamedTuple):
    """A log as it was when it was last looked at, and its end."""

    log: PartitionLog
    tail: LogTail

    @property
    def start_offset(self) -> int:
        """The first offset that is there."""
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        """Readers may see what lies below; under read_committed what is below the last stable offset."""
        return max(self.tail.end_offset, self.log.start_offset)

    @property
    def name(self) -> str:
        """As Kafka writes a partition."""
        return f"{self.log.topic}-{self.log.partition}"

    def ranges(self, interval: OffsetInterval, split_bytes: int) -> Iterator[LogRange]:
        """See `plan_ranges`."""
        return plan_ranges(self.log, self.tail, interval, split_bytes=split_bytes)

    def check(self) -> None:
        """`DamagedLogError` when something is wrong with the log's end that is more than an entry cut short."""
        damage = self.tail.damage
        if damage is not None:
            raise DamagedLogError(self.tail.damaged_file, damage._replace(message=damage.message + HINT))


class QueryLogs:
    """All logs that the options choose, by topic and partition."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._tails: dict[TopicPartition, LogTail] = {}

    def update(self, *, must_exist: bool = True) -> dict[TopicPartition, QueryLog]:
        """Look at the directories again. What has been deleted meanwhile is no longer there.

        `FileNotFoundError` when a directory is not there; `LogNameError` when a topic that is named is not (unless it
        need not), or, under failfast, when a file has a name that no log has; `OSError`.
        """
        options = self._options
        found = select(
            find_partitions(options.paths, options.storage),
            topics=options.topics,
            pattern=options.topics_pattern,
            assignment=options.assignment,
            must_exist=must_exist,
        )
        logs: dict[TopicPartition, QueryLog] = {}
        for one in found:
            followed = self._update(one)
            if followed is not None:
                logs[one.topic, one.partition] = followed
        self._tails = {key: followed.tail for key, followed in logs.items()}
        return logs

    def _update(self, found: FoundPartition) -> QueryLog | None:
        tail = self._tails.get((found.topic, found.partition)) or LogTail(
            transactions=self._options.isolation == "read_committed",
            verify_crc=self._options.verify_crc,
            permissive=self._options.mode == "permissive",
            high_watermark=self._options.high_watermark,
        )
        for _ in range(_TRIES):
            try:
                log = open_partition(found)
                tail.update(log)
            except FileNotFoundError:
                continue  # compaction and retention take files, a deletion the whole directory
            self._check_names(log)
            return QueryLog(log, tail)
        return None

    def _check_names(self, log: PartitionLog) -> None:
        if log.odd_names:
            message = (
                f"{log.directory}/{log.odd_names[0]}: a log file is named by 20 digits, the offset that it begins at"
            )
            if self._options.mode == "failfast":
                raise LogNameError(f"{message}; rename it, or read with mode=permissive to leave it out")
            _logger.warning("%s; it is left out", message)
