"""The terminal application: three views, and the keys that switch between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual.app import App

from minibroker_lab.terminal.logs import LogList
from minibroker_lab.terminal.requests import RequestList
from minibroker_lab.terminal.state import StateView

if TYPE_CHECKING:
    from textual.binding import BindingType

    from minibroker_lab.terminal.view import PageClient, View

_VIEWS: Final[dict[str, type[RequestList | LogList | StateView]]] = {
    "requests": RequestList,
    "logs": LogList,
    "state": StateView,
}


class LabApp(App[None]):
    """The terminal application, connected to a page."""

    TITLE = "minibroker lab"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("1", "view('requests')", "Requests"),
        ("2", "view('logs')", "Logs"),
        ("3", "view('state')", "State"),
        ("q", "quit", "Quit"),
    ]

    def __init__(self, client: PageClient) -> None:
        super().__init__()
        self._client = client

    def on_mount(self) -> None:
        """Show the list of requests when the app starts."""
        self.action_view("requests")

    def action_view(self, name: str) -> None:
        """Switch to one of the three views."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        view: View = _VIEWS[name](self._client)
        self.push_screen(view)
