"""The page's life, before a broker and before a proxy: that of a control plane, with a recorder.

The page and the control plane share one server: each has its port, and below the control plane's `/lab` is the page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import RedirectResponse

from minibroker.control.app import make_app
from minibroker.control.guard import Guard
from minibroker.control.plane import ControlPlane
from minibroker.server.inspection.exchanges import MAX_EXCHANGES, Exchange, Ring
from minibroker.server.inspection.recording import recording_of
from minibroker_lab.page.app import make_page, make_trace_page
from minibroker_lab.page.guard import PageGuard
from minibroker_lab.page.recorder import Recorder

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send

    from minibroker.server.services import Services

BELOW: Final = "/lab"


class PagePlane(ControlPlane):
    """The page: it listens from the beginning, and serves from `start` to `stop`."""

    purpose = "the page"
    option = "--page"
    recorder: Recorder

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self._control: ControlPlane | None = None

    def adopt(self, control: ControlPlane) -> None:
        """Serve the address of a control plane, too, and the page below it. Before `start`.

        Both are on one thread then, so they share what they keep: ids of faults, snapshots, recorded requests.
        """
        control.is_adopted = True
        self._control = control

    def sockets(self) -> list[socket.socket]:
        """The sockets of the page and of the control plane."""
        return super().sockets() + ([] if self._control is None else self._control.sockets())

    def watch(self, services: Services) -> None:
        """Record the requests of a broker. Before it listens."""
        self.recorder = Recorder(recording_of(services).keep_frames(), services.core)

    def make_app(self) -> ASGIApp:
        """The application behind its guard."""
        self.recorder.start()
        self._app = make_app(self._remote)
        page = make_page(self._remote, self.recorder, self._app, needs_token=self.token is not None)
        own = PageGuard(page, self.token, self.host, self.port)
        if self._control is None:
            return own
        host, port = self._control.host, self._control.port
        below = PageGuard(page, self.token, host, port)
        return ByPort(own, port, WithPageBelow(Guard(self._app, self.token, host), below))

    def give_up(self) -> None:
        """End streams, and answer the requests that wait."""
        self.recorder.stop()
        super().give_up()


class TracePlane(ControlPlane):
    """The page of `minibroker trace`: it listens from the beginning, and serves from `serve` to `stop`.

    Attributes:
        ring: for the exchanges that pass the proxy.
    """

    purpose = "the page"
    option = "--page"

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self.ring: Ring[Exchange] = Ring(MAX_EXCHANGES)
        self._recorder = Recorder(self.ring)
        self._facts: Mapping[str, Any] = {}

    def serve(self, facts: Mapping[str, Any]) -> None:
        """Serve on a thread of its own. `facts` are those of the proxy."""
        self._facts = facts
        self.begin()

    def make_app(self) -> ASGIApp:
        """The application behind its guard."""
        self._recorder.start()
        return PageGuard(make_trace_page(self._recorder, self._facts), self.token, self.host, self.port)

    def give_up(self) -> None:
        """End streams, and answer the requests that wait."""
        self._recorder.stop()
        super().give_up()


class ByPort:
    """An ASGI application that serves one port with another application than the others."""

    def __init__(self, app: ASGIApp, port: int, other: ASGIApp) -> None:
        self._app = app
        self._port = port
        self._other = other

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        server = scope.get("server")
        app = self._other if server is not None and server[1] == self._port else self._app
        await app(scope, receive, send)


class WithPageBelow:
    """An ASGI application that serves `/lab` with the page, and everything else with the control plane."""

    def __init__(self, control: ASGIApp, page: ASGIApp) -> None:
        self._control = control
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        path: str = scope.get("path", "")
        if path == BELOW and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            await RedirectResponse(f"{BELOW}/{'?' if query else ''}{query}", 307)(scope, receive, send)
        elif path.startswith(f"{BELOW}/"):
            await self._page({**scope, "root_path": BELOW}, receive, send)
        else:
            await self._control(scope, receive, send)
