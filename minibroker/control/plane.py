"""The lifecycle of the control plane: a socket, a thread, an event loop and uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from minibroker.config.addresses import format_reachable
from minibroker.control.app import make_app
from minibroker.control.guard import Guard
from minibroker.control.remote import Remote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from minibroker.operations.asynchronous import AsyncOperations

_BACKLOG: Final = 128
_KEEP_ALIVE_S: Final = 600
"""The keep-alive timeout, longer than the clients' own.

If the server closed a connection first, the client's next request could fail.
"""
_PATIENCE_S: Final = 2


class _Server(uvicorn.Server):
    """A uvicorn server that stops immediately instead of at its next periodic check."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end = asyncio.Event()

    async def main_loop(self) -> None:
        """Wait until `end` is called."""
        await self._end.wait()

    def end(self) -> None:
        """Stop serving. Runs on the server's loop."""
        self._end.set()


class ControlPlane:
    """A control plane. It listens as soon as it is created, and serves from `start` to `stop`.

    Args:
        address: The host and the port, where port 0 picks a free port.
        token: The token that requests must have, or None.

    Attributes:
        purpose: The purpose of the socket, for messages.
        option: The option that sets the address, for messages.
        is_adopted: Whether another plane serves this address, in which case `start` does nothing.

    Raises:
        OSError: The address cannot be bound.
    """

    purpose = "control"
    option = "--control"

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        host, port = address
        self.is_adopted = False
        self.host = host
        self.token = token
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._socket = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
            hint = f". Port 0 picks a free one: {self.option} {host}:0" if error.errno == errno.EADDRINUSE else ""
            raise OSError(error.errno, f"cannot listen on {host}:{port} for {self.purpose}: {reason}{hint}") from error
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._remote: Remote | None = None
        self._app: FastAPI | None = None
        self._serving = threading.Event()

    @property
    def url(self) -> str:
        """The URL of the control plane for programs on this machine."""
        address: tuple[str, int] = self._socket.getsockname()[:2]
        return f"http://{format_reachable(address)}"

    @property
    def port(self) -> int:
        """The listening port."""
        port: int = self._socket.getsockname()[1]
        return port

    def start(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        """Serve a broker that runs on `loop`, on a separate thread."""
        if not self.is_adopted:
            self._remote = Remote(broker, loop)
            self.begin()

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
        if self._remote is not None:
            self._remote.stop()
        self._server.end()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve(self.sockets()))
        finally:
            self._serving.set()

    async def _serve(self, sockets: Sequence[socket.socket]) -> None:
        self._server = _Server(
            uvicorn.Config(
                self.make_app(),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=_PATIENCE_S,
            )
        )
        self._loop = asyncio.get_running_loop()
        self._serving.set()
        try:
            await self._server.serve(sockets=list(sockets))
        finally:
            self.clear()

    def sockets(self) -> list[socket.socket]:
        """Return the sockets to serve."""
        return [self._socket]

    def make_app(self) -> ASGIApp:
        """Return the ASGI application, wrapped in a `Guard` that checks every request."""
        self._app = make_app(self._remote)
        return Guard(self._app, self.token, self.host)

    def clear(self) -> None:
        """Remove the snapshots that clients have left."""
        if self._app is not None:
            self._app.state.snapshots.clear()
