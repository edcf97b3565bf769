"""The HTTP server of a registry. Its application is loaded when the first client connects."""

from __future__ import annotations

import asyncio
import select
from typing import TYPE_CHECKING, Any

from minibroker.config.addresses import is_loopback
from minibroker_control.http_server import HttpServer
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.security.tls import contexts
    from minibroker_registry import application, broker_log, registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.security.settings import ListenerSettings
    from minibroker.server.services import Services
    from minibroker_registry.registry import SchemaLog


class RegistryServer(HttpServer):
    """A registry. It listens once it is created, and serves from `start` to `stop`.

    Args:
        address: The host and the port, where port 0 picks a free port.
        token: What requests must be authorized with, or None.
        tls: The settings of the listener whose certificate is used, or None for plain HTTP.

    Raises:
        ValueError: The certificate cannot be used.
        OSError: The address cannot be bound.
        ModuleNotFoundError: uvicorn is not installed.
    """

    purpose = "the registry"
    option = "--registry"

    def __init__(self, address: tuple[str, int], token: str | None, tls: ListenerSettings | None = None) -> None:
        context = None if tls is None else contexts.server_context(tls, may_ask=False)
        super().__init__(address)
        self.tls = context
        self._token = token
        self._watched_by: asyncio.AbstractEventLoop | None = None
        self._make_registry: Callable[[], registry.Registry] | None = None
        self._broker_log: broker_log.BrokerLog | None = None

    def start(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        """Serve the registry of a broker that runs on `loop`, as soon as a client connects."""
        services = broker.services
        self._make_registry = lambda: self._share_registry(services, loop)
        self._watched_by = loop
        loop.add_reader(self._socket, self._begin_once)

    def serve(self, log: SchemaLog, default_level: str) -> None:
        """Serve a registry on a topic, with a compatibility level for the time while none is configured."""
        self._make_registry = lambda: registry.Registry(log, default_level)
        self.begin()

    async def relay(self, pass_on: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> asyncio.Server:
        """Pass clients on to a registry in another process instead of serving them."""
        return await asyncio.start_server(pass_on, sock=self._socket)

    def has_waiting_clients(self) -> bool:
        """Return whether a client waits for the broker's loop. Other threads call this while the loop is blocked."""
        if self._watched_by is not None:
            poll = select.poll()
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        return self._broker_log is not None and self._broker_log.is_waiting

    def _share_registry(self, services: Services, loop: asyncio.AbstractEventLoop) -> registry.Registry:
        shared = broker_log.registry_of(services, loop)
        assert isinstance(shared.log, broker_log.BrokerLog)
        self._broker_log = shared.log
        return shared

    def _begin_once(self) -> None:
        self._stop_watching()
        self.begin()

    def _stop_watching(self) -> None:
        if self._watched_by is not None:
            self._watched_by.remove_reader(self._socket)
            self._watched_by = None

    async def stop(self) -> None:
        """Answer the waiting requests and stop serving. Runs on the broker's loop without blocking it."""
        self._stop_watching()
        await super().stop()

    def make_app(self) -> application.Application:
        """Return the application of the registry, which reads its topic at the first request."""
        assert self._make_registry is not None
        own_host = self.host if self._token is None and is_loopback(self.host) else None
        served = self._make_registry()
        faults = None if self._broker_log is None else self._broker_log.apply_faults
        return application.Application(served, self._token, own_host, faults)
