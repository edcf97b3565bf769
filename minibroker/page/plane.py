"""The page's life: that of a control plane, with a recorder."""

import socket
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from minibroker.control.app import make_app
from minibroker.control.guard import Guard
from minibroker.control.plane import ControlPlane
from minibroker.page.app import make_page
from minibroker.page.beside import Beside, ByPort
from minibroker.page.guard import PageGuard
from minibroker.page.recorder import Recorder

if TYPE_CHECKING:
    from minibroker.services import Services


class PagePlane(ControlPlane):
    """The page: it listens from the beginning, and serves from `start` to `stop`."""

    purpose = "the page"
    option = "--page"

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self.recorder = Recorder()
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

    def watch(self, services: "Services") -> None:
        """See the connections of a broker. Before it listens."""
        services.tape = self.recorder.open_tape(services.core.clock, services.core)

    def make_app(self) -> ASGIApp:
        """The application behind its guard."""
        self.recorder.start()
        self._app = make_app(self._remote)
        page = make_page(self._remote, self.recorder, self._app, needs_token=self.token is not None)
        own = PageGuard(page, self.token, self.host, self.port)
        if self._control is None:
            return own
        host, port = self._control.host, self._control.port
        beside = PageGuard(page, self.token, host, port)
        return ByPort(own, port, Beside(Guard(self._app, self.token, host), beside))

    def give_up(self) -> None:
        """End streams, and answer the requests that wait."""
        self.recorder.stop()
        super().give_up()
