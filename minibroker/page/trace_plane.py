"""The life of the page of `minibroker trace`: that of a control plane without a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minibroker.control.plane import ControlPlane
from minibroker.page.app import make_trace_page
from minibroker.page.guard import PageGuard
from minibroker.page.traced import TracedRequests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import ASGIApp

    from minibroker.clock import Clock
    from minibroker.trace.conversation import Sink


class TracePlane(ControlPlane):
    """The page: it listens from the beginning, and serves from `serve` to `stop`."""

    purpose = "the page"
    option = "--page"

    def __init__(self, address: tuple[str, int], token: str | None) -> None:
        super().__init__(address, token)
        self._source: TracedRequests | None = None
        self._facts: Mapping[str, Any] = {}

    def watch(self, clock: Clock, sink: Sink) -> Sink:
        """The sink for the proxy: it keeps what passes for the page, and passes it on to `sink`."""
        self._source = TracedRequests(clock, sink)
        return self._source

    def serve(self, facts: Mapping[str, Any]) -> None:
        """Serve on a thread of its own. `facts` are those of the proxy."""
        self._facts = facts
        self.begin()

    def make_app(self) -> ASGIApp:
        """The application behind its guard."""
        assert self._source is not None
        self._source.start()
        return PageGuard(make_trace_page(self._source, self._facts), self.token, self.host, self.port)

    def give_up(self) -> None:
        """End streams, and answer the requests that wait."""
        if self._source is not None:
            self._source.stop()
        super().give_up()
