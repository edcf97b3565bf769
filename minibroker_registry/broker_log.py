"""The topic `_schemas` of a broker in this process. No login, quota or fault affects the registry of such a broker."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

from minibroker.cluster.errors import OperationError
from minibroker.operations import producing
from minibroker.operations import records as operations_records
from minibroker.operations import topics as operations_topics
from minibroker.operations.asynchronous import AsyncOperations
from minibroker_registry.errors import RegistryError, too_large
from minibroker_registry.records import TOPIC, Record
from minibroker_storage.log import Log

T = TypeVar("T")

_PATIENCE_S: Final = 10.0
_RECORD_OVERHEAD_BYTES: Final = 200


class BrokerLog:
    """A `SchemaLog` on the operations of a broker, which runs on another thread's event loop.

    Attributes:
        is_waiting: Whether the registry waits for the broker. Other threads read this.
    """

    def __init__(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        self._broker = broker
        self._loop = loop
        self.is_waiting = False
        self._log: Log | None = None
        self._start = self._position = 0

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        return self._broker.services.core.cluster.cluster_id

    def read(self) -> tuple[bool, Sequence[Record]]:
        """Read to the end of the topic."""
        return self._wait(self._read())

    def append(self, new: Sequence[Record]) -> None:
        """Write records in one go. The topic is created if it does not exist."""
        self._wait(self._append(new))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop.

        Raises:
            RegistryError: the broker has stopped, or does not answer in time.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise RegistryError(500, "the broker was stopped", 50001) from None
        self.is_waiting = True
        try:
            return future.result(_PATIENCE_S)
        except TimeoutError:
            future.cancel()
            raise RegistryError(500, "the broker's event loop is blocked", 50002) from None
        finally:
            self.is_waiting = False

    async def _read(self) -> tuple[bool, Sequence[Record]]:
        services = self._broker.services
        services.core.writes.commit()
        topic = services.core.topics.get(TOPIC)
        log = None if topic is None else topic.partitions[0].log
        end = 0 if log is None else log.last_stable_offset
        start = 0 if log is None else log.log_start_offset
        is_new = log is not self._log or start != self._start or end < self._position
        if is_new:
            self._log, self._start, self._position = log, start, start
        if self._position == end:
            return is_new, []
        read = await operations_records.read_records(services, TOPIC, partition=0, start=self._position)
        self._position = max(end, read[-1].offset + 1 if read else 0)
        return is_new, [Record(record.key, record.value, record.timestamp) for record in read if record.key is not None]

    async def _append(self, new: Sequence[Record]) -> None:
        services = self._broker.services
        topic = services.core.topics.get(TOPIC)
        if topic is None:
            operations_topics.create_topic(services, TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
            topic = services.core.topics.get(TOPIC)
            assert topic is not None
        for record in new:
            if len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES > topic.max_message_bytes:
                raise too_large()
        messages = [producing.Message(record.value, record.key, partition=0) for record in new]
        try:
            producing.produce(services, TOPIC, messages)
        except (OperationError, OSError) as error:
            raise RegistryError(
                500, f"Register schema operation failed while writing to the store: {error}", 50001
            ) from error
