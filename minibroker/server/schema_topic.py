"""The topic `_schemas` of this broker, for code that needs its schemas on the broker's event loop."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from minibroker.cluster.core import Core
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.records.batch import iter_batches
from minibroker_protocol.steps import Steps

with lazy:
    from minibroker_registry import records
    from minibroker_registry import values as registry_values

if TYPE_CHECKING:
    from minibroker_registry.records import Record
    from minibroker_storage.log import Log

_READ_BYTES = 1 << 16


class SchemaReader:
    """Reads the topic `_schemas` from where it has stopped the last time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._log: Log | None = None
        self._start = self._position = 0

    def chunks(self) -> Iterator[tuple[bool, list["Record"]]]:
        """Yield the new records in chunks, up to the end of the topic.

        With each chunk comes whether the topic begins anew, since it was deleted, restored or emptied. Then all earlier
        records are void.

        Raises:
            DecodeError, OSError: a file cannot be read.
        """
        while True:
            self._core.writes.commit()
            topic = self._core.topics.get(SCHEMAS_TOPIC)
            log = None if topic is None else topic.partitions[0].log
            start, end = (0, 0) if log is None else (log.log_start_offset, log.last_stable_offset)
            is_new = log is not self._log or start != self._start or end < self._position
            if is_new:
                self._log, self._start, self._position = log, start, start
            chunk = [] if log is None or self._position >= end else self._read_chunk(log, end)
            if not is_new and not chunk and self._position >= end:
                return
            yield is_new, chunk

    def read(self) -> Steps[tuple[bool, list["Record"]]]:
        """Return all new records together. Nothing else may read meanwhile."""
        is_new, read = False, list["Record"]()
        for begins_anew, chunk in self.chunks():
            if begins_anew:
                is_new, read = True, []
            read += chunk
            yield
        return is_new, read

    def _read_chunk(self, log: "Log", end: int) -> list["Record"]:
        first, chunk = self._position, list["Record"]()
        data = log.read(first, _READ_BYTES, end_offset=end).read()
        self._position = end if not data else first
        aborted = log.aborted_transactions(first, end)
        for batch in iter_batches(data):
            header = batch.header
            self._position = header.last_offset + 1
            if not header.is_control and not any(
                header.is_transactional
                and header.producer_id == transaction.producer_id
                and transaction.first_offset <= header.base_offset <= transaction.last_offset
                for transaction in aborted
            ):
                chunk += [
                    records.Record(record.key, record.value, record.timestamp)
                    for record in batch
                    if record.key is not None and first <= record.offset < end
                ]
        return chunk


class Schemas:
    """The schemas of this broker's topic as of the last `update`.

    Attributes:
        source: Has the schemas, and the state of the registry.
        values: Decodes and encodes values with them. Call it on a thread: a schema can take a second of CPU to parse.
    """

    def __init__(self, core: Core) -> None:
        self._reader = SchemaReader(core)
        self.source = registry_values.TopicSource()
        self.values = registry_values.Values(self.source)

    def update(self) -> Steps[None]:
        """Read the topic to its end in steps."""
        for begins_anew, chunk in self._reader.chunks():
            self.source.apply(begins_anew, chunk)
            yield
