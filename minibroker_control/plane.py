"""The HTTP server of the control plane, and its application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi import Depends, FastAPI
from fastapi.security import HTTPBearer

from minibroker.config.version import __version__
from minibroker_control.errors import Problem, handle_errors
from minibroker_control.guard import Guard
from minibroker_control.http_server import HttpServer
from minibroker_control.models import refuse_unknown_parameters
from minibroker_control.remote import Remote
from minibroker_control.routes import (
    brokers,
    chaos,
    checks,
    faults,
    groups,
    health,
    records,
    requests,
    settings,
    snapshots,
    time,
    topics,
)
from minibroker_control.routes.faults import FaultIds
from minibroker_control.routes.snapshots import SnapshotShelf

if TYPE_CHECKING:
    import asyncio

    from starlette.types import ASGIApp

    from minibroker.operations.asynchronous import AsyncOperations


_DESCRIPTION: Final = (
    "Operations on a broker for tests, besides those of Kafka clients. They have the names of the Python methods of "
    "minibroker.Broker. x-python lists the methods that a request calls."
)
_PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    "4XX": {"model": Problem, "description": "The request failed. 409 also means that a wait timed out"},
    "5XX": {"model": Problem, "description": "The broker failed or is not running"},
}


def make_app(remote: Remote | None) -> FastAPI:
    """Return the application. Without a broker, it only serves the OpenAPI document."""
    app = FastAPI(
        title="minibroker",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # Both pages are disabled, because they load scripts from another host.
        redoc_url=None,
        # By default curl does not follow redirects, so a redirected request would have no effect.
        redirect_slashes=False,
        responses=_PROBLEMS,
        # HTTPBearer only documents the token in the schema. `Guard` checks the token.
        dependencies=[
            Depends(HTTPBearer(auto_error=False, description="Required if the broker was started with a token.")),
            Depends(refuse_unknown_parameters),
        ],
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.remote = remote
    app.state.faults = FaultIds()
    app.state.snapshots = SnapshotShelf()
    handle_errors(app)
    modules = (topics, records, groups, settings, time, snapshots, brokers, requests, faults, chaos, checks, health)
    for module in modules:
        app.include_router(module.router)
    return app


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
