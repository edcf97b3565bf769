"""The views of requests: the list, and one request with its bytes and fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import urlencode

from rich.text import Text
from textual.containers import Vertical
from textual.widgets import Input, Static, TabbedContent, TabPane

from minibroker_lab.terminal.bytes_view import BytesView
from minibroker_lab.terminal.view import (
    View,
    create_table,
    fill_table,
    format_duration,
    format_size,
    format_time_of_day,
    selected_key,
)

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.binding import BindingType

    from minibroker_lab.terminal.view import PageClient

_ROWS: Final = 500
_EVERY_S: Final = 0.5
_STYLES: Final = {"error": "red", "none": "red", "waiting": "yellow", "ok": "green"}
_COLUMNS: Final = ("#", "Time", "API", "About", "Outcome", "Took", "In", "Out", "Client")


class RequestList(View):
    """The list of the newest requests or of older ones, optionally filtered by words."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("slash", "find", "Find"),
        ("p", "pause", "Pause"),
        ("left_square_bracket", "older", "Older"),
        ("right_square_bracket", "newer", "Newer"),
    ]

    def __init__(self, client: PageClient) -> None:
        super().__init__(client, "Requests", _EVERY_S)
        self._words = ""
        self._is_paused = False
        self._end: int | None = None  # The last request shown, or None for the newest.
        self._shown: tuple[int, ...] = ()
        self._waiting = False

    def body(self) -> ComposeResult:
        """Create the filter input, the rows and the status line."""
        yield Input(placeholder="Words that stand in the row; Enter", id="find")
        yield create_table("rows", _COLUMNS)
        yield Static("", classes="facts", id="status", markup=False)

    def on_mount(self) -> None:
        """Hide the filter input and focus the rows."""
        self.hide_input()
        super().on_mount()

    async def load(self) -> None:
        """Fetch the rows in the current window."""
        if self._is_paused and self._shown:
            return
        query = f"?{urlencode({'q': self._words})}" if self._words else ""
        state = await self.client.get(f"/requests{query}")
        numbers: Any = state["numbers"]
        if numbers is None:
            numbers = range(state["first"], state["last"] + 1)
        numbers_before = [number for number in numbers if self._end is None or number <= self._end]
        shown = tuple(numbers_before[-_ROWS:])
        if shown != self._shown or self._waiting:
            rows = await self._fetch_rows(shown)
            self._waiting = any(row["state"] == "waiting" for row in rows)
            self._shown = shown
            fill_table(self.table("#rows"), [(str(row["number"]), _request_cells(row)) for row in rows])
        filter_text = f" with “{self._words}”" if self._words else ""
        paused = ", paused" if self._is_paused else ""
        text = f"{len(numbers):,} requests{filter_text}, {len(shown):,} shown{paused}"
        self.query_one("#status", Static).update(text)

    async def _fetch_rows(self, shown: tuple[int, ...]) -> list[dict[str, Any]]:
        """Fetch the rows with these numbers, at most 500 per request."""
        rows: dict[int, dict[str, Any]] = {}
        for number in shown:
            if number not in rows:
                part = await self.client.get(f"/requests/rows?first={number}&last={number + _ROWS - 1}")
                rows |= {row["number"]: row for row in part["rows"]}
        return [rows[number] for number in shown if number in rows]

    def on_data_table_row_selected(self) -> None:
        """Open the selected request."""
        number = selected_key(self.table("#rows"))
        if number is not None:
            self.open(RequestView(self.client, int(number)))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Filter the list by the typed words."""
        self._words = event.value.strip()
        self._end, self._shown, self._is_paused = None, (), False
        self.hide_input()
        self.refresh_soon()

    def action_find(self) -> None:
        """Show the filter input."""
        self.show_input("#find")

    def action_back(self) -> None:
        """Leave the filter input."""
        self.hide_input()

    def action_pause(self) -> None:
        """Pause or resume the list."""
        self._is_paused = not self._is_paused
        self.query_one("#status", Static).update("paused")
        self.refresh_soon()

    def action_older(self) -> None:
        """Show the requests before the first row."""
        if self._shown and self._shown[0] > 1:
            self._end = self._shown[0] - 1
            self.refresh_soon()

    def action_newer(self) -> None:
        """Show the requests after the last row."""
        if self._end is not None:
            self._end = self._end + _ROWS
            self.refresh_soon()
            if self._shown and self._shown[-1] < self._end - _ROWS:
                self._end = None


def _request_cells(row: dict[str, Any]) -> list[Any]:
    api = row["api"] if row["version"] < 0 else f"{row['api']} v{row['version']}"
    outcome = Text(row["outcome"], _STYLES.get(row["state"], ""))
    client = f"{row['client_id'] or ''} {row['client']}".strip()
    sizes = format_size(row["bytes_in"]), format_size(row["bytes_out"])
    times = format_time_of_day(row["time"]), format_duration(row["duration_ms"])
    return [row["number"], times[0], api, row["about"], outcome, times[1], *sizes, client]


class RequestView(View):
    """The view of one request and its response."""

    BINDINGS: ClassVar[list[BindingType]] = [
        ("r", "turn", "Request or response"),
        ("n", "step(1)", "Next"),
        ("b", "step(-1)", "Before"),
    ]

    def __init__(self, client: PageClient, number: int) -> None:
        super().__init__(client, f"Request {number}", 0)
        self._number = number

    def body(self) -> ComposeResult:
        """Create the facts and the tabs for request and response."""
        yield Static("", classes="facts", markup=False)
        yield TabbedContent(id="parts")

    async def load(self) -> None:
        """Fetch the request."""
        data = await self.client.get(f"/requests/{self._number}")
        version = f" v{data['version']}" if data["version"] >= 0 else ""
        self.query_one(".title", Static).update(f"{data['api']}{version}, request {data['number']}")
        took = format_duration(data["duration_ms"]) or (
            "no response yet" if data["state"] == "waiting" else "no response"
        )
        client = f"{data['client_id'] or 'no client id'} {data['client']}"
        facts = [f"{data['outcome']}   {data['about']}", f"from {client} to {data['broker']}, {took}"]
        facts += [f"the client sees {ours} for {theirs}" for theirs, ours in data["replaced"].items()]
        self.query_one(".facts", Static).update("\n".join(facts))
        tabs = self.query_one(TabbedContent)
        await tabs.clear_panes()
        for name in ("request", "response"):
            part = data[name]
            content = Static("No response was sent, or not yet.") if part is None else part_view(part)
            await tabs.add_pane(TabPane(name.capitalize(), content, id=name))
        tabs.active = "request"
        self.call_after_refresh(self._focus)

    def _focus(self) -> None:
        for tabs in self.query(TabbedContent):
            for tree in self.query(f"#{tabs.active} Tree"):
                tree.focus()

    def action_turn(self) -> None:
        """Switch between request and response."""
        tabs = self.query_one(TabbedContent)
        if tabs.tab_count == 2:  # noqa: PLR2004 - else the request is not shown yet
            tabs.active = "response" if tabs.active == "request" else "request"
            self.call_after_refresh(self._focus)

    def action_step(self, by: int) -> None:
        """Open the next or the previous request."""
        # The cast is needed because Textual's type is incomplete.
        cast("Any", self.lab).switch_screen(RequestView(self.client, max(1, self._number + by)))


def part_view(part: dict[str, Any]) -> Vertical:
    """Return the view of the bytes of a request, response or batch, or a sentence if the bytes are hidden."""
    if part.get("hidden"):
        return Vertical(Static("These bytes may hold a secret, so the lab does not show them."))
    notes: list[Static] = []
    if part.get("kept", 0) < part.get("size", 0):
        notes.append(Static(f"The lab keeps and shows the first {part['kept']:,} of {part['size']:,} bytes."))
    if part.get("masked"):
        notes.append(Static("Secrets are masked: their bytes are shown as zeros."))
    return Vertical(*notes, BytesView(part))
