"""The base class of the screens, which show data from a page and refresh it, and the page's client."""

from __future__ import annotations

import asyncio
import http.client
import json
import time
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast
from urllib.parse import urlsplit

from rich.text import Text
from textual.css.query import NoMatches
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from textual.app import App, ComposeResult
    from textual.binding import BindingType


_PATIENCE_S: Final = 10


class PageError(Exception):
    """The page returned a problem or did not answer."""


class PageClient:
    """A client of the page at a URL.

    Args:
        url: The URL of the page.
        token: The token sent with each request, or None.
    """

    def __init__(self, url: str, token: str | None) -> None:
        self._address = urlsplit(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def get(self, path: str) -> Any:
        """Return the JSON of a path below `/data`.

        Raises:
            PageError: The page returned a problem, whose message is used, or did not answer.
        """
        return await asyncio.to_thread(self._get, f"{self._address.path.rstrip('/')}/data{path}")

    def _get(self, path: str) -> Any:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port or 80, timeout=_PATIENCE_S
        )
        try:
            connection.request("GET", path, headers=self._headers)
            response = connection.getresponse()
            content: Any = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise PageError("The broker does not answer. It may have stopped.") from error
        finally:
            connection.close()
        if response.status >= http.client.BAD_REQUEST:
            raise PageError(str(content.get("message", response.status)))
        return content


EVERY_S: Final = 1.0
_KIB: Final = 1024
_LARGE: Final = 10_000
_SECOND_MS: Final = 1000


class View(Screen[None]):
    """A screen with a title and a line for problems. Subclasses create widgets in `body`, and fill them in `load`.

    Args:
        client: The client of the page.
        title: The title at the top of the screen.
        every: The interval between calls of `load` in seconds, or 0 to call it once.
    """

    BINDINGS: ClassVar[list[BindingType]] = [("escape", "back", "Back")]
    DEFAULT_CSS = """
    View .title { background: $primary; color: $text; padding: 0 1; height: 1; text-style: bold; }
    View .problem { color: $error; height: auto; padding: 0 1; }
    View .facts { height: auto; padding: 0 1; }
    View DataTable { height: 1fr; }
    """

    def __init__(self, client: PageClient, title: str, every: float = EVERY_S) -> None:
        super().__init__()
        self.client = client
        self.heading = title
        self._every = every

    def compose(self) -> ComposeResult:
        """Create the title, the problem line, the body and the footer."""
        yield Static(self.heading, classes="title", markup=False)
        yield Static("", classes="problem", markup=False)
        yield from self.body()
        yield Footer()

    def body(self) -> ComposeResult:
        """Create the widgets of the view. By default there are none."""
        return ()

    async def load(self) -> None:
        """Fetch data from the page and show it. A `PageError` is shown as a problem."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Start refreshing the view."""
        self.refresh_soon()
        if self._every:
            self.set_interval(self._every, self.refresh_soon)

    def refresh_soon(self) -> None:
        """Refresh the view if it is the current screen."""
        if self.is_current:
            self.run_worker(self.show(self.load), group="load", exclusive=False)

    async def show(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Run a fetch, and show its problem, if there is one.

        Missing widgets are ignored if the view was closed in the meantime.
        """
        try:
            problem = self.query_one(".problem", Static)
            try:
                await ask()
                problem.update("")
            except PageError as error:
                problem.update(str(error))
        except NoMatches:
            # A view that is no longer displayed was closed, and its widgets are being removed. That is not an error.
            if self.display:
                raise

    def action_back(self) -> None:
        """Return to the previous view."""
        if len(self.lab.screen_stack) > 2:  # noqa: PLR2004 - Textual's own, and the first view
            self.lab.pop_screen()

    def open(self, view: View) -> None:
        """Show another view. Escape returns to this view."""
        self.lab.push_screen(view)

    def show_input(self, query: str) -> None:
        """Show an input above the table, and focus it."""
        self.query_one(query).display = True
        self.query_one(query).focus()

    def hide_input(self) -> None:
        """Hide the input and focus the table."""
        self.query_one("Input").display = False
        self.query_one("DataTable").focus()

    def table(self, query: str) -> DataTable[Text]:
        """Return a table of this view."""
        return cast("DataTable[Text]", self.query_one(query))

    @property
    def lab(self) -> App[None]:
        """The application."""
        return cast("App[None]", cast("Any", self).app)  # The casts are needed because Textual's type is incomplete.


def create_table(name: str, columns: Iterable[str]) -> DataTable[Text]:
    """Return a table whose cursor selects rows."""
    data_table: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
    data_table.add_columns(*columns)
    return data_table


def fill_table(data_table: DataTable[Text], rows: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Replace the rows of a table, given as keys and cells.

    The cursor stays on its row, or on the last row if that was selected.
    """
    old = [str(row.key.value) for row in data_table.ordered_rows]
    cursor_row = data_table.cursor_row
    key = old[cursor_row] if 0 <= cursor_row < len(old) else None
    was_on_last_row = cursor_row == len(old) - 1
    data_table.clear()
    for name, cells in rows:
        data_table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in cells), key=name)
    keys = [name for name, _ in rows]
    if was_on_last_row or key is None:
        data_table.move_cursor(row=max(0, len(keys) - 1) if old else 0)
    elif key in keys:
        data_table.move_cursor(row=keys.index(key))


def selected_key(data_table: DataTable[Text]) -> str | None:
    """Return the key of the selected row, or None if the table is empty."""
    rows = data_table.ordered_rows
    return str(rows[data_table.cursor_row].key.value) if 0 <= data_table.cursor_row < len(rows) else None


def format_size(count: int) -> str:
    """Return a number of bytes as text, such as "1,234 B" or "56 KiB"."""
    return f"{count:,} B" if count < _LARGE else f"{round(count / _KIB):,} KiB"


def format_duration(ms: float | None) -> str:
    """Return a number of milliseconds as text, or an empty string for None."""
    if ms is None:
        return ""
    return f"{ms:.2f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def format_time_of_day(ms: int) -> str:
    """Return the local time of day, such as 14:03:59.125, for a time in milliseconds since the epoch."""
    return f"{time.strftime('%H:%M:%S', time.localtime(ms / _SECOND_MS))}.{ms % _SECOND_MS:03}"


def format_number(value: int | None) -> str:
    """Return a number with thousands separators, such as 1,234, or an empty string for None."""
    return "" if value is None else f"{value:,}"


def format_partition(partition: dict[str, Any]) -> str:
    """Return the name of a partition, such as orders-0."""
    return f"{partition['topic']}-{partition['partition']}"
