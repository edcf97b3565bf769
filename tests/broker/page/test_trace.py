"""The page of `minibroker trace`, before a broker and its real clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from minibroker import Broker
from minibroker.cli.main import main
from tests.broker.control.http import Control
from tests.broker.page.browser import Window, launched
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.clients.trace_process import TraceProcess
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceProcess]:
    """A proxy with a page, after a producer and a consumer."""
    folder = tmp_path_factory.mktemp("trace")
    with (
        Broker(topics=["orders:2"], journal=True) as broker,
        TraceProcess(broker.bootstrap_servers, folder, ["--page", "127.0.0.1:0"]) as trace,
    ):
        producer = KafkaProducer(bootstrap_servers=trace.bootstrap, client_id="shop")
        for number in range(5):
            producer.send("orders", f"<b>order {number}</b>".encode(), partition=0)
        producer.close()
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=trace.bootstrap,
            group_id="billing",
            auto_offset_reset="earliest",
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        assert len([next(consumer) for _ in range(5)]) == 5
        consumer.close()
        yield trace


def test_the_page_has_what_the_lines_have(traced: TraceProcess) -> None:
    page = Control(traced.words["page"])
    last = page.get("/data/requests")["last"]
    assert last >= 10
    rows = page.get(f"/data/requests/rows?first=1&last={last}")["rows"]
    for row, entry in zip(rows, sorted(traced.entries(), key=lambda each: each["number"]), strict=True):
        found = (row["number"], row["api"], row["version"], row["client_id"], row["bytes_in"], row["bytes_out"])
        names = ("number", "api", "version", "clientId", "bytesIn", "bytesOut")
        assert found == tuple(entry[name] for name in names)
        assert row["state"] == ("error" if entry["errors"] else "ok")


def test_its_facts_name_proxy_and_cluster(traced: TraceProcess) -> None:
    page = Control(traced.words["page"])
    facts = page.get("/data/lab")
    assert (facts["bootstrap_servers"], facts["to"]) == (traced.bootstrap, traced.words["to"])
    for path in ("/data/logs", "/data/state", "/data/actions", "/data/choices"):
        assert page.ask("GET", path).status == 404
    assert page.ask("POST", "/control/reset").status in {404, 405}
    assert page.ask("GET", "/", headers={"Host": "evil.example"}).problem[:2] == (403, "forbidden")


def test_a_request_is_shown_with_its_bytes_and_the_addresses_that_were_replaced(
    browser: Browser, traced: TraceProcess
) -> None:
    window = Window(browser, traced.words["page"])
    page = window.open("/requests?api=Metadata")
    page.get_by_role("row").filter(has_text="Metadata").first.get_by_role("link").click()
    page.get_by_role("tree", name="Fields of the response").wait_for()
    expect(page.get_by_text(f"{traced.bootstrap} for {traced.words['to']}")).to_be_visible()
    window.check_accessibility()
    window.close()


def test_views_that_need_a_broker_are_absent_and_said_so(browser: Browser, traced: TraceProcess) -> None:
    window = Window(browser, traced.words["page"])
    page = window.open("/requests")
    expect(page.get_by_role("row").filter(has_text="Produce").first).to_be_visible()
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_text(["Requests"])
    expect(page.get_by_text("only with minibroker lab")).to_be_visible()
    window.check_accessibility()
    window.picture("trace-page")
    for path in ("/logs", "/state", "/do"):
        page.goto(f"{traced.words['page']}{path}")
        expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    window.check_accessibility()
    window.close()


def test_requests_appear_while_clients_send_them(browser: Browser, traced: TraceProcess) -> None:
    window = Window(browser, traced.words["page"])
    page = window.open("/requests?q=just-now")
    expect(page.get_by_text("No request matches.")).to_be_visible()
    producer = KafkaProducer(bootstrap_servers=traced.bootstrap, client_id="just-now")
    producer.send("orders", b"1").get(PATIENCE_S)
    producer.close()
    expect(page.get_by_role("row").filter(has_text="Produce").first).to_be_visible()
    window.close()


def test_a_page_alone_keeps_what_nobody_else_shows(tmp_path: Path) -> None:
    with Broker(topics=["orders"]) as broker:
        options = ["--page", "127.0.0.1:0", "--page-token", "secret"]
        with TraceProcess(broker.bootstrap_servers, tmp_path, options) as trace:
            KafkaProducer(bootstrap_servers=trace.bootstrap).close()
            page = Control(trace.words["page"])
            assert page.ask("GET", "/data/requests").status == 401
            headers = {"Authorization": "Bearer secret"}
            assert page.ask("GET", "/data/requests", headers=headers).body["last"] > 0


def test_an_address_for_all_needs_a_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIBROKER_CONTROL_TOKEN", raising=False)
    assert main(["trace", "--to", "127.0.0.1:1", "--page", "0.0.0.0:0"]) == 1
    message = "so a token is needed: --page-token or MINIBROKER_CONTROL_TOKEN"
    assert message in capsys.readouterr().err
