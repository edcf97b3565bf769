"""The lifecycle of a broker's or a proxy's page, which is a control plane's lifecycle with a recorder added.

The page and the control plane share one server. Each has its own port, and the control plane's port also serves the
page below `/lab`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import RedirectResponse

from minibroker.server.inspection.exchanges import MAX_EXCHANGES, Exchange, Ring
from minibroker.server.inspection.recording import recording_of
from minibroker_control.app import make_app
from minibroker_control.guard import Guard
from minibroker_control.plane import ControlPlane
from minibroker_lab.page.app import make_page, make_trace_page
from minibroker_lab.page.guard import PageGuard
from minibroker_lab.page.recorder import Recorder

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from minibroker.server.services import Services

PAGE_PATH: Final = "/lab"


class _RecordingPlane(ControlPlane):
    """A page and its recorder. Stopping the page also stops the recorder."""

    purpose = "the page"
    option = "--page"
    recorder: Recorder

    def shut_down(self) -> None:
        """End all streams, and answer the waiting requests."""
        self.recorder.stop()
        super().shut_down()


class PagePlane(_RecordingPlane):
    """The page of a broker. It listens once it is created, and serves from `start` to `stop`."""

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self._control: ControlPlane | None = None

    def adopt(self, control: ControlPlane) -> None:
        """Also serve a control plane at its own address, with the page below it. Call this before `start`.

        The page and the control plane then run on one thread and share fault ids, snapshots and recorded requests.
        """
        control.is_adopted = True
        self._control = control

    def sockets(self) -> list[socket.socket]:
        """Return the sockets of the page and of the control plane."""
        return super().sockets() + ([] if self._control is None else self._control.sockets())

    def watch(self, services: Services) -> None:
        """Record the requests of a broker. Call this before the broker listens."""
        self.recorder = Recorder(recording_of(services).keep_frames(), services.core)

    def make_app(self) -> ASGIApp:
        """Return the application wrapped in its guard."""
        self.recorder.start()
        self._app = make_app(self._remote)
        page = make_page(self._remote, self.recorder, self._app, needs_token=self.token is not None)
        app = PageGuard(page, self.token, self.host, self.port)
        if self._control is None:
            return app
        host, port = self._control.host, self._control.port
        below = PageGuard(page, self.token, host, port)
        return _route_port(app, port, _route_path(Guard(self._app, self.token, host), below))


class TracePlane(_RecordingPlane):
    """The page of `minibroker trace`. It listens once it is created, and serves from `serve` to `stop`.

    Attributes:
        ring: The exchanges that pass through the proxy.
    """

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self.ring: Ring[Exchange] = Ring(MAX_EXCHANGES)
        self.recorder = Recorder(self.ring)
        self._facts: Mapping[str, Any] = {}

    def serve(self, facts: Mapping[str, Any]) -> None:
        """Serve the page on its own thread.

        Args:
            facts: Facts about the proxy, shown in the bar above all views.
        """
        self._facts = facts
        self.begin()

    def make_app(self) -> ASGIApp:
        """Return the application wrapped in its guard."""
        self.recorder.start()
        return PageGuard(make_trace_page(self.recorder, self._facts), self.token, self.host, self.port)


def _route_port(app: ASGIApp, port: int, other: ASGIApp) -> ASGIApp:
    """Return an ASGI application that serves `port` with `other`, and all other ports with `app`."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        server = scope.get("server")
        await (other if server is not None and server[1] == port else app)(scope, receive, send)

    return route


def _route_path(control: ASGIApp, page: ASGIApp) -> ASGIApp:
    """Return an ASGI application that serves the page below `/lab` and the control plane everywhere else."""

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if path == PAGE_PATH and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{PAGE_PATH}/{'?' if query else ''}{query}", 307)(scope, receive, send)
        elif path.startswith(f"{PAGE_PATH}/"):
            await page({**scope, "root_path": PAGE_PATH}, receive, send)
        else:
            await control(scope, receive, send)

    return route
