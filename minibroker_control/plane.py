"""The HTTP server of the control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minibroker_control.app import make_app
from minibroker_control.guard import Guard
from minibroker_control.http_server import HttpServer
from minibroker_control.remote import Remote

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI
    from starlette.types import ASGIApp

    from minibroker.operations.asynchronous import AsyncOperations


class ControlPlane(HttpServer):
    """A control plane. It listens as soon as it is created, and serves from `start` to `stop`.

    Args:
        address: The host and the port, where port 0 picks a free port.
        token: The token that requests must have, or None.

    Attributes:
        is_adopted: Whether another plane serves this address, in which case `start` does nothing.

    Raises:
        OSError: The address cannot be bound.
    """

    purpose = "control"
    option = "--control"

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address)
        self.is_adopted = False
        self.token = token
        self._remote: Remote | None = None
        self._app: FastAPI | None = None

    def start(self, broker: AsyncOperations, loop: asyncio.AbstractEventLoop) -> None:
        """Serve a broker that runs on `loop`, on a separate thread."""
        if not self.is_adopted:
            self._remote = Remote(broker, loop)
            self.begin()

    def shut_down(self) -> None:
        """Answer the waiting requests and stop serving. Runs on the server's loop."""
        if self._remote is not None:
            self._remote.stop()
        super().shut_down()

    def make_app(self) -> ASGIApp:
        """Return the ASGI application, wrapped in a `Guard` that checks every request."""
        self._app = make_app(self._remote)
        return Guard(self._app, self.token, self.host)

    def clear(self) -> None:
        """Remove the snapshots that clients have left."""
        if self._app is not None:
            self._app.state.snapshots.clear()
