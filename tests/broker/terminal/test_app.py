"""The terminal lab, used with keys, in front of a broker with real clients."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static, Tree

from minibroker import Broker
from minibroker_lab.terminal.app import LabApp
from minibroker_lab.terminal.bytes_view import HexPane
from minibroker_lab.terminal.view import PageClient, View
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.patience import PATIENCE_S

SCRIPT = "[bold red]<script>[/]"


@pytest.fixture(autouse=True)
def idle_by_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Textual wait for its own thread after a key, and not for all threads of this process."""
    monkeypatch.setattr("textual._wait.process_time", time.thread_time)


@pytest.fixture(scope="module")
def busy() -> Iterator[Broker]:
    """Yield a broker after a producer and a consumer in a group have used it."""
    config = {"offsets.topic.num.partitions": 1}  # Rows above those of the topic take a key each.
    with Broker(page=True, topics=["orders:2"], control_token="secret", config=config) as broker:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            client_id="shop",
            compression_type="gzip",
            linger_ms=60_000,  # All records are in one batch, which flush sends.
        )
        for number in range(20):
            producer.send("orders", f"order {number} {SCRIPT * 9}".encode(), partition=0)
        producer.flush(PATIENCE_S)
        producer.close()
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            client_id="billing-1",
            group_id="billing/a",
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        assert len([next(consumer) for _ in range(20)]) == 20
        consumer.close()
        yield broker


@asynccontextmanager
async def opened(url: str, token: str | None = "secret") -> AsyncIterator[Pilot[None]]:
    """Yield the application in a terminal of 160 columns."""
    async with LabApp(PageClient(url, token)).run_test(size=(160, 50)) as pilot:
        yield pilot


async def until(pilot: Pilot[None], condition: Callable[[], object], *, refreshes: bool = True) -> None:
    """Refresh the view until a condition holds. A refresh replaces the trees and panes of a request."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            screen = pilot.app.screen
            if refreshes and isinstance(screen, View):
                screen.refresh_soon()
            await pilot.app.workers.wait_for_complete()
            await pilot.pause()


def rows_of(pilot: Pilot[None], name: str) -> list[list[str]]:
    """Return the texts in the rows of a table, or no rows before the table exists."""
    tables = pilot.app.screen.query(f"#{name}")
    table: DataTable[Any] | None = tables.first(DataTable) if tables else None
    return [] if table is None else [[str(cell) for cell in table.get_row(row.key)] for row in table.ordered_rows]


def text_of(pilot: Pilot[None], query: str) -> str:
    widgets = pilot.app.screen.query(query)
    return str(widgets.first(Static).render()) if widgets else ""


async def press(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()


@pytest.mark.torture
async def test_requests_are_listed_and_follow(busy: Broker) -> None:
    async with opened(busy.page_url) as pilot:
        await until(pilot, lambda: any("billing-1" in row[8] for row in rows_of(pilot, "rows")))
        before = len(rows_of(pilot, "rows"))
        KafkaProducer(bootstrap_servers=busy.bootstrap_servers, client_id="just-now").close()
        await until(pilot, lambda: len(rows_of(pilot, "rows")) > before)
        await press(pilot, "p")
        await until(pilot, lambda: True)
        paused_rows = rows_of(pilot, "rows")
        KafkaProducer(bootstrap_servers=busy.bootstrap_servers, client_id="later").close()
        await pilot.app.workers.wait_for_complete()
        assert rows_of(pilot, "rows") == paused_rows
        await press(pilot, "p")
        await until(
            pilot, lambda: any("later" in row[8] or row[0] > paused_rows[-1][0] for row in rows_of(pilot, "rows"))
        )


@pytest.mark.slow
async def test_a_request_is_opened_with_its_fields_bytes_response_and_neighbors(busy: Broker) -> None:
    async with opened(busy.page_url) as pilot:
        await until(pilot, lambda: rows_of(pilot, "rows"))
        await press(pilot, "slash", *"prod", "space", *"rec", "enter")
        await until(
            pilot, lambda: rows_of(pilot, "rows") and all("Produce v" in row[2] for row in rows_of(pilot, "rows"))
        )
        await press(pilot, "home", "enter")
        await until(
            pilot, lambda: any(each.has_focus for each in pilot.app.screen.query("#request Tree")), refreshes=False
        )
        tree: Tree[Any] = pilot.app.screen.query_one("#request Tree", Tree)
        pane = pilot.app.screen.query_one("#request HexPane", HexPane)
        assert tree.has_focus
        for _ in range(20):
            await press(pilot, "down")
            node = tree.cursor_node
            assert node is not None
            if str(node.label).startswith("clientId"):
                break
        await until(pilot, lambda: pane.data[pane.marked.start : pane.marked.stop] == b"\0\4shop", refreshes=False)
        assert "STRING, 6 bytes from 12" in text_of(pilot, "#request .about")
        (records,) = [node for node in _all(tree.root) if str(node.label).startswith("(decompressed)")]
        tree.move_cursor(records)
        await until(pilot, lambda: b"order 0 " in pane.data, refreshes=False)
        lines = [pane.render_line(line).text for line in range(3)]
        assert lines[0].startswith("000000  ")
        # Values are text and no markup.
        tree.root.expand_all()
        labels = [str(node.label) for node in _all(tree.root)]
        assert any(SCRIPT in label for label in labels)
        # The response and the neighbors are a key away.
        title = text_of(pilot, ".title")
        assert title.startswith("Produce v")
        await press(pilot, "r")
        await until(pilot, lambda: pilot.app.screen.query_one("#response Tree", Tree).has_focus)
        number = int(title.split()[-1])
        await press(pilot, "n")
        await until(pilot, lambda: text_of(pilot, ".title").endswith(f"request {number + 1}"))
        await press(pilot, "escape")
        await until(pilot, lambda: rows_of(pilot, "rows"))


def _all(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from _all(child)


@pytest.mark.torture
async def test_a_log_its_steps_and_a_batch(busy: Broker) -> None:
    async with opened(busy.page_url) as pilot:
        await press(pilot, "2")
        await until(pilot, lambda: rows_of(pilot, "partitions"))
        names = [row[0] for row in rows_of(pilot, "partitions")]
        await press(pilot, *["down"] * names.index("orders-0"), "enter")
        await until(pilot, lambda: rows_of(pilot, "batches"))
        assert "log end offset 20" in text_of(pilot, "#marks")
        await press(pilot, "o", *"3", "enter")
        await until(pilot, lambda: "so 3 is in it" in text_of(pilot, "#steps"))
        await press(pilot, "o", *"x", "enter")
        await until(pilot, lambda: "“x” is not an offset" in text_of(pilot, "#steps"))
        await press(pilot, "end", "enter")
        await until(pilot, lambda: pilot.app.screen.query(Tree))
        assert pilot.app.screen.query_one(HexPane).data[16] == 2
        await press(pilot, "escape", "escape")
        await until(pilot, lambda: rows_of(pilot, "partitions"))


@pytest.mark.torture
async def test_a_group_in_the_state(busy: Broker) -> None:
    async with opened(busy.page_url) as pilot:
        await press(pilot, "3")
        await until(pilot, lambda: rows_of(pilot, "groups"))
        assert rows_of(pilot, "groups")[0][:3] == ["billing/a", "classic", "Empty"]
        await press(pilot, "enter")
        await until(pilot, lambda: rows_of(pilot, "offsets"))
        assert ["orders-0", "20", "20", "0"] in rows_of(pilot, "offsets")
        assert "[Empty]" in text_of(pilot, ".facts")


async def test_problems_are_shown_in_a_line(busy: Broker) -> None:
    async with opened(busy.page_url, token=None) as pilot:
        await until(pilot, lambda: "a token is needed" in text_of(pilot, ".problem"))
    with Broker(page=True) as broker:
        url = broker.page_url
    async with opened(url) as pilot:
        await until(pilot, lambda: "The broker does not answer." in text_of(pilot, ".problem"))
        await press(pilot, "2")
        await until(pilot, lambda: "The broker does not answer." in text_of(pilot, ".problem"))
        await press(pilot, "q")


@pytest.mark.torture
async def test_keys_come_before_the_first_answer(busy: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(busy.page_url) as pilot:
        await until(pilot, lambda: rows_of(pilot, "rows"))
        asked = asyncio.Event()
        client = cast("View", pilot.app.screen).client

        async def waiting(path: str) -> Any:
            asked.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(client, "get", waiting)
        await press(pilot, "home", "enter")
        await asked.wait()
        await press(pilot, "r")
        assert not pilot.app.screen.query("TabPane")


async def test_an_answer_to_a_view_that_is_left_meanwhile_is_dropped(
    busy: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(busy.page_url) as pilot:
        view = pilot.app.screen
        assert isinstance(view, View)
        await pilot.app.workers.wait_for_complete()
        real = view.client.get
        asked = asyncio.Event()

        async def late(path: str) -> Any:
            answer = await real(path)
            asked.set()
            while view.query("#status"):  # noqa: ASYNC110 - there is no event for it
                await asyncio.sleep(0)
            return answer

        monkeypatch.setattr(view.client, "get", late)
        view.refresh_soon()
        await asked.wait()  # The application ends next, and its worker fails if the response finds no widgets.
