"""Screens that show what a page answers, and ask it again from time to time; the client of the page."""

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
    """The page has answered with a problem, or not at all."""


class PageClient:
    """A client of the page at a URL. `token` is sent with each request; None for none."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self._address = urlsplit(url)
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    async def get(self, path: str) -> Any:
        """The JSON at `/data` and a path. `PageError` with the page's sentence."""
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
    """A screen with a title and a line for problems. Subclasses have `body`, and `load`, which fills it.

    Args:
        client: of the page.
        title: above all.
        every: `load` is called again after so many seconds; 0 for once.
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
        """The frame of a view."""
        yield Static(self.heading, classes="title", markup=False)
        yield Static("", classes="problem", markup=False)
        yield from self.body()
        yield Footer()

    def body(self) -> ComposeResult:
        """The widgets of the view."""
        raise NotImplementedError

    async def load(self) -> None:
        """Ask the page, and show what it answers. `PageError` is shown, too."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Begin to ask."""
        self.refresh_soon()
        if self._every:
            self.set_interval(self._every, self.refresh_soon)

    def refresh_soon(self) -> None:
        """Ask once more, unless a question is under way."""
        if self.is_current:
            self.run_worker(self.show(self.load), group="load", exclusive=False)

    async def show(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask the page, and show its answer or its problem, unless the view was left meanwhile."""
        try:
            problem = self.query_one(".problem", Static)
            try:
                await ask()
                problem.update("")
            except PageError as error:
                problem.update(str(error))
        except NoMatches:
            if self.display:
                raise  # else the view was left, and its widgets are going

    def action_back(self) -> None:
        """Return to the view before."""
        if len(self._lab.screen_stack) > 2:  # noqa: PLR2004 - Textual's own, and the first view
            self._lab.pop_screen()

    def open(self, view: View) -> None:
        """Show another view; Escape returns to this one."""
        self._lab.push_screen(view)

    def open_instead(self, view: View) -> None:
        """Show another view in the place of this one."""
        cast("Any", self._lab).switch_screen(view)  # whose type in Textual is not whole

    def table(self, query: str) -> DataTable[Text]:
        """A table of this view."""
        return cast("DataTable[Text]", self.query_one(query))

    @property
    def _lab(self) -> App[None]:
        found: App[None] = cast("Any", self).app  # whose type in Textual is not whole
        return found


def table(name: str, columns: Iterable[str]) -> DataTable[Text]:
    """A table whose rows the cursor walks."""
    made: DataTable[Text] = DataTable(id=name, cursor_type="row", zebra_stripes=True)
    made.add_columns(*columns)
    return made


def fill(made: DataTable[Text], rows: Sequence[tuple[str, Sequence[Any]]]) -> None:
    """Replace the rows of a table: (key, cells). The cursor stays on its row, or on the last one if it was there."""
    old = [str(row.key.value) for row in made.ordered_rows]
    at = made.cursor_row
    key = old[at] if 0 <= at < len(old) else None
    was_last = at == len(old) - 1
    made.clear()
    for name, cells in rows:
        made.add_row(*(each if isinstance(each, Text) else Text(str(each)) for each in cells), key=name)
    keys = [name for name, _ in rows]
    if was_last or key is None:
        made.move_cursor(row=max(0, len(keys) - 1) if old else 0)
    elif key in keys:
        made.move_cursor(row=keys.index(key))


def chosen(made: DataTable[Text]) -> str | None:
    """The key of the row under the cursor; None for an empty table."""
    rows = made.ordered_rows
    return str(rows[made.cursor_row].key.value) if 0 <= made.cursor_row < len(rows) else None


def size(count: int) -> str:
    """Bytes: "1,234 B", "56 KiB"."""
    return f"{count:,} B" if count < _LARGE else f"{round(count / _KIB):,} KiB"


def duration(ms: float | None) -> str:
    """Milliseconds; empty for None."""
    if ms is None:
        return ""
    return f"{ms:.2f} ms" if ms < _SECOND_MS else f"{ms / _SECOND_MS:.1f} s"


def time_of_day(ms: int) -> str:
    """A time of day, 14:03:59.125, of ms since the epoch."""
    return f"{time.strftime('%H:%M:%S', time.localtime(ms / _SECOND_MS))}.{ms % _SECOND_MS:03}"


def number(value: int | None) -> str:
    """1,234; empty for None."""
    return "" if value is None else f"{value:,}"


def place(partition: dict[str, Any]) -> str:
    """The name of a partition: orders-0."""
    return f"{partition['topic']}-{partition['partition']}"
