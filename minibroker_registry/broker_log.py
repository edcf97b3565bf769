"""The registry of a broker in this process, and its topic `_schemas`. No login or quota affects such a registry."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar, cast

from minibroker.cluster.errors import OperationError
from minibroker.operations import producing
from minibroker.operations import topics as operations_topics
from minibroker.operations.waiting import run_in_slices
from minibroker.server.faults.registry import faults_of
from minibroker.server.schema_topic import SchemaReader
from minibroker.server.services import Services
from minibroker_protocol.internal_topics import SCHEMAS_TOPIC
from minibroker_protocol.steps import drain
from minibroker_registry.errors import RegistryError, refusal
from minibroker_registry.records import Record
from minibroker_registry.registry import Registry

T = TypeVar("T")

_PATIENCE_S: Final = 10.0
_RECORD_OVERHEAD_BYTES: Final = 200
_creating: Final = threading.Lock()


class LocalLog:
    """A `SchemaLog` for the thread of the broker's event loop, where each call holds up the clients."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._reader = SchemaReader(services.core)

    @property
    def cluster_id(self) -> str:
        """The id of the Kafka cluster."""
        return self._services.core.cluster.cluster_id

    def read(self) -> tuple[bool, Sequence[Record]]:
        """Read to the end of the topic."""
        return drain(self._reader.read())

    def append(self, new: Sequence[Record]) -> None:
        """Write records in one go. The topic is created if it does not exist."""
        services = self._services
        topic = services.core.topics.get(SCHEMAS_TOPIC)
        if topic is None:
            operations_topics.create_topic(services, SCHEMAS_TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
            topic = services.core.topics.get(SCHEMAS_TOPIC)
            assert topic is not None
        for record in new:
            if len(record.key) + len(record.value or b"") + _RECORD_OVERHEAD_BYTES > topic.max_message_bytes:
                raise refusal(42209)
        messages = [producing.Message(record.value, record.key, partition=0) for record in new]
        try:
            producing.produce(services, SCHEMAS_TOPIC, messages)
        except (OperationError, OSError) as error:
            message = f"Register schema operation failed while writing to the store: {error}"
            raise RegistryError(50001, message) from error


class BrokerLog(LocalLog):
    """A `SchemaLog` on the topic of a broker, which runs on another thread's event loop.

    Attributes:
        is_waiting: Whether the registry waits for the broker. Other threads read this.
    """

    def __init__(self, services: Services, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(services)
        self._loop = loop
        self.is_waiting = False

    def read(self) -> tuple[bool, Sequence[Record]]:
        """Read to the end of the topic."""
        return self._wait(run_in_slices(self._services, self._reader.read()))

    def append(self, new: Sequence[Record]) -> None:
        """Write records in one go. The topic is created if it does not exist."""
        self._wait(self._append(new))

    async def apply_faults(self, request: str) -> None:
        """Apply the faults that hit a request, such as `GET /subjects`. Runs on the registry's loop.

        Raises:
            RegistryError: the request fails by a fault.
        """
        if self._services.faults:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._apply_faults(request), self._loop))

    async def _apply_faults(self, request: str) -> None:
        services = self._services
        matched = faults_of(services).match_http(request)
        if matched is not None and matched.delay_ms:
            is_over = asyncio.Event()
            services.core.clock.call_later(matched.delay_ms, is_over.set)
            await is_over.wait()
        if matched is not None and matched.fault is not None:
            raise RegistryError(int(cast("int", matched.fault.error)), "An injected fault fails this request")

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's loop.

        Raises:
            RegistryError: the broker has stopped, or does not answer in time.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise RegistryError(50001, "the broker was stopped") from None
        self.is_waiting = True
        try:
            return future.result(_PATIENCE_S)
        except TimeoutError:
            future.cancel()
            raise RegistryError(50002, "the broker's event loop is blocked") from None
        finally:
            self.is_waiting = False

    async def _append(self, new: Sequence[Record]) -> None:
        super().append(new)


def registry_of(services: Services, loop: asyncio.AbstractEventLoop) -> Registry:
    """Return the registry of a broker that runs on `loop`. The first call creates it. Any thread may call this."""
    with _creating:
        if services.registry is None:
            level = services.core.config.text("minibroker.registry.compatibility.level")
            services.registry = Registry(BrokerLog(services, loop), level)
        registry: Registry = services.registry
    return registry
