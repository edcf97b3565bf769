"""`df.write.format("minibroker")`: Spark's `DataSourceArrowWriter`, whose rows become topic directories.

Tasks write segments aside, each attempt in a directory of its own; the driver makes logs of those of the attempts that
count and puts them in place, all at once (see `commit`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from minibroker_pipeline.log_directories.append_state import known_topics
from minibroker_pipeline.log_directories.directory_commit import check_writable
from minibroker_pipeline.log_directories.staging import new_staging, remove_staging
from minibroker_pipeline.query_options import OptionError
from minibroker_pipeline.sink.commit import Plan, publish_pieces
from minibroker_pipeline.sink.options import WriteOptions, check_columns, parse_write_options
from minibroker_pipeline.sink.task_writer import Piece, TaskWriter


@dataclass
class WrittenPieces(WriterCommitMessage):
    """The pieces that a task has written."""

    pieces: tuple[Piece, ...]


class LogWriter(DataSourceArrowWriter):
    """Writes the rows of one query. Made, committed and aborted by the driver, in processes of their own."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        """See what can be wrong before any task runs. `OptionError`, `DirectoryStateError`, `OSError`."""
        parsed = parse_write_options(options)
        check_columns(to_arrow_schema(schema, timezone="UTC"), parsed)
        check_writable(parsed.target)
        known = known_topics(parsed.target)
        _check_partitions(parsed, {topic: found.partitions for topic, found in known.items()})
        self._plan = Plan(parsed, new_staging(parsed.target), overwrite, known)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a worker."""
        context = TaskContext.get()
        plan = self._plan
        counts = {topic: found.partitions for topic, found in plan.known.items()}
        number = context.partitionId() if context is not None else 0
        return WrittenPieces(TaskWriter(plan.options, plan.staging, counts, number).write(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Put in place what the tasks have written; their order is that of the messages."""
        pieces = [piece for message in messages if isinstance(message, WrittenPieces) for piece in message.pieces]
        publish_pieces(self._plan, pieces)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - all is below one directory
        """Remove what was written."""
        remove_staging(self._plan.staging)


def _check_partitions(options: WriteOptions, counts: Mapping[str, int]) -> None:
    there = counts.get(options.topic)
    if there is not None and options.partitions not in {None, there}:
        raise OptionError(f"partitions: topic {options.topic!r} has {there}, and keeps them")
