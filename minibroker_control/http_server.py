"""The lifecycle of an HTTP server beside the broker: a socket, a thread, an event loop and uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from minibroker.config.addresses import format_reachable
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker_control import uvicorn_server

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Sequence

_BACKLOG: Final = 128


class HttpServer:
    """An HTTP server. It listens as soon as it is created, and serves from `begin` to `stop`.

    Args:
        address: The host and the port, where port 0 picks a free port.

    Attributes:
        purpose: The purpose of the socket, for messages.
        option: The option that sets the address, for messages.
        tls: The TLS context, or None for plain HTTP.

    Raises:
        OSError: The address cannot be bound.
        ModuleNotFoundError: uvicorn is not installed.
    """

    purpose: str
    option: str

    def __init__(self, address: tuple[str, int]) -> None:
        if find_spec("uvicorn") is None:
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        host, port = address
        self.host = host
        self.tls: ssl.SSLContext | None = None
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            hint = f". Port 0 picks a free one: {self.option} {host}:0" if error.errno == errno.EADDRINUSE else ""
            raise OSError(error.errno, f"cannot listen on {host}:{port} for {self.purpose}: {reason}{hint}") from error
        # Accepted sockets inherit the option. Otherwise the body of a response would wait for the client's delayed
        # acknowledgment of its header, which takes 40 ms.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn_server.Server | None = None
        self._serving = threading.Event()

    @property
    def url(self) -> str:
        """The URL of the server for programs on this machine."""
        address: tuple[str, int] = self._socket.getsockname()[:2]
        return f"{'http' if self.tls is None else 'https'}://{format_reachable(address)}"

    @property
    def port(self) -> int:
        """The listening port."""
        port: int = self._socket.getsockname()[1]
        return port

    def begin(self) -> None:
        """Start the server thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"minibroker-{self.purpose.removeprefix('the ')}", daemon=True
        )
        self._thread.start()

    async def stop(self) -> None:
        """Answer the waiting requests and stop serving.

        Runs on the broker's loop without blocking it.
        """
        if self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._end, self._thread)
            self._thread = None
        self._socket.close()

    def _end(self, thread: threading.Thread) -> None:
        self._serving.wait()
        if self._loop is not None and thread.is_alive():
            with contextlib.suppress(RuntimeError):  # The call fails if the server's loop has already ended.
                self._loop.call_soon_threadsafe(self.shut_down)
        thread.join()

    def shut_down(self) -> None:
        """Answer the waiting requests and stop serving. Runs on the server's loop."""
        assert self._server is not None
        self._server.end()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve(self.sockets()))
        finally:
            self._serving.set()

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        self._server = uvicorn_server.make_server(self.make_app(), self.tls)
        self._loop = asyncio.get_running_loop()
        self._serving.set()
        try:
            await self._server.serve(sockets=list(sockets))
        finally:
            self.clear()

    def sockets(self) -> list[socket.socket]:
        """Return the sockets to serve."""
        return [self._socket]

    def make_app(self) -> Callable[..., Awaitable[None]]:
        """Return the ASGI application."""
        raise NotImplementedError

    def clear(self) -> None:
        """Release what the application has left."""
