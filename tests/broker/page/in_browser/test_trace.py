"""The page of `minibroker trace`, in front of a broker with real clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, expect

from minibroker import Broker
from minibroker.cli.main import main
from tests.broker.control.http import Control
from tests.broker.page.browser import Window
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.clients.trace_process import TraceProcess
from tests.patience import PATIENCE_S, eventually
from tests.sweeps import one_in

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceProcess]:
    """Yield a proxy with a page, after a producer and a consumer have used it."""
    folder = tmp_path_factory.mktemp("trace")
    with (
        Broker(topics=["orders:2"], page=True, config={"group.initial.rebalance.delay.ms": "0"}) as broker,
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
            enable_auto_commit=False,
            consumer_timeout_ms=PATIENCE_S * 1000,
        )
        assert len([next(consumer) for _ in range(5)]) == 5
        consumer.commit()
        broker.clock.advance(1)  # The commit and the end of the member may not be in the same millisecond.
        consumer.close()
        trace.words["lab"] = broker.page_url
        yield trace


@pytest.fixture(scope="module")
def traced_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceProcess]:
    """Yield a proxy with a page in front of three brokers, after a partition's leader has moved."""
    with (
        Broker(topics=["orders:3"], brokers=3) as broker,
        TraceProcess(
            broker.bootstrap_servers.split(",")[0], tmp_path_factory.mktemp("three"), ["--page", "127.0.0.1:0"]
        ) as trace,
    ):
        for to in (2, 1):
            broker.move_leader("orders", 0, to=to)
            producer = KafkaProducer(bootstrap_servers=trace.bootstrap)
            for partition in range(3):
                producer.send("orders", b"1", partition=partition).get(PATIENCE_S)
            producer.close()
        yield trace


def last_of(page: Control, api: str) -> int:
    """Return the number of the newest request of an API."""
    rows = page.get(f"/data/requests/rows?first=1&last={page.get('/data/requests')['last']}")["rows"]
    return max(int(row["number"]) for row in rows if row["api"] == api)


@pytest.mark.torture
def test_the_page_has_what_the_lines_have(traced: TraceProcess) -> None:
    page = Control(traced.words["page"])
    last = page.get("/data/requests")["last"]
    assert last >= 10
    eventually(lambda: traced.lines.read_text().count("\n") >= last)  # A thread writes the lines.
    rows = page.get(f"/data/requests/rows?first=1&last={last}")["rows"]
    for row, entry in zip(rows, sorted(traced.entries(), key=lambda each: each["number"]), strict=True):
        row_values = (row["number"], row["api"], row["version"], row["client_id"], row["bytes_in"], row["bytes_out"])
        names = ("number", "api", "version", "clientId", "bytesIn", "bytesOut")
        assert row_values == tuple(entry[name] for name in names)
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


@pytest.mark.torture
def test_views_that_need_a_broker_are_absent_and_said_so(browser: Browser, traced: TraceProcess) -> None:
    window = Window(browser, traced.words["page"])
    page = window.open("/requests")
    expect(page.get_by_role("row").filter(has_text="Produce").first).to_be_visible()
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_text(["Requests", "Time line"])
    expect(page.get_by_text("Logs, State, Follow, Do, Lessons: only with minibroker lab")).to_be_visible()
    window.check_accessibility()
    window.picture("trace-page")
    for path in ("/logs", "/state", "/groups/billing", "/follow", "/do", "/lessons"):
        page.goto(f"{traced.words['page']}{path}")
        expect(page.get_by_role("heading", name="Not here")).to_be_visible()
    window.check_accessibility()
    window.close()


def test_the_time_line_tells_of_groups_and_logs_what_the_broker_tells(traced: TraceProcess) -> None:
    """The proxy sees only requests, while the lab of the broker reads the records of `__consumer_offsets`."""
    proxy, lab = Control(traced.words["page"]), Control(traced.words["lab"])
    proxy_moment, lab_moment = (page.get(f"/data/timeline/{last_of(page, 'OffsetCommit')}") for page in (proxy, lab))
    assert proxy_moment["groups"] == lab_moment["groups"]
    (group,) = proxy_moment["groups"]
    assert group["offsets"] == [
        {"topic": "orders", "partition": 0, "offset": 5},
        {"topic": "orders", "partition": 1, "offset": 0},
    ]
    (log,) = [each for each in proxy_moment["logs"] if each["partition"] == 0]
    assert (log["end"], log["high_watermark"], log["end_now"]) == (5, 5, None)
    line = proxy.get("/data/timeline")
    assert not line["sees_broker"]
    rebalances = [event["text"] for event in line["events"] if event["kind"] == "rebalance"]
    assert rebalances[0] == "Group billing has come to generation 1."
    moment_after = proxy.get(f"/data/timeline/{last_of(proxy, 'LeaveGroup')}")
    assert [each["members"] for each in moment_after["groups"]] == [[]]


@pytest.mark.parametrize("protocol", one_in(2, ["classic", "consumer"]))
def test_offsets_of_transactions_count_once_they_are_committed(traced: TraceProcess, protocol: str) -> None:
    proxy, lab = Control(traced.words["page"]), Control(traced.words["lab"])
    servers, group_id = {"bootstrap.servers": traced.bootstrap}, f"copier-{protocol}"
    consumer = Consumer(
        {**servers, "group.id": group_id, "group.protocol": protocol, "client.id": group_id}
        | {"auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    consumer.subscribe(["orders"])
    assert consumer.poll(PATIENCE_S) is not None
    producer = Producer({**servers, "transactional.id": group_id})
    producer.init_transactions(PATIENCE_S)
    for offset, ends in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        offsets = [TopicPartition("orders", 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)
        ends(PATIENCE_S)
        number = last_of(proxy, "EndTxn"), last_of(lab, "EndTxn")
        proxy_groups, lab_groups = (
            [group for group in page.get(f"/data/timeline/{number_there}")["groups"] if group["group_id"] == group_id]
            for page, number_there in zip((proxy, lab), number, strict=True)
        )
        assert proxy_groups == lab_groups
        assert [each["offset"] for each in lab_groups[0]["offsets"]] == ([2] if offset == 2 else [])
    consumer.close()
    admin = AdminClient({"bootstrap.servers": traced.bootstrap})
    admin.delete_consumer_groups([group_id])[group_id].result(PATIENCE_S)
    gone = proxy.get(f"/data/timeline/{last_of(proxy, 'DeleteGroups')}")
    assert group_id not in {group["group_id"] for group in gone["groups"]}


@pytest.mark.torture
def test_the_time_line_goes_back_and_says_what_it_cannot_know(browser: Browser, traced: TraceProcess) -> None:
    number = last_of(Control(traced.words["page"]), "OffsetCommit")
    window = Window(browser, traced.words["page"], width=390)
    page = window.open(f"/timeline?at={number}")
    expect(page.get_by_role("group", name="Groups at that time")).to_contain_text("orders-0 at 5")
    expect(page.get_by_text("The proxy cannot look into the broker.")).to_be_visible()
    expect(page.get_by_role("columnheader", name="End now")).to_have_count(0)
    expect(page.locator('a[href^="/logs"], a[href^="/follow"]')).to_have_count(0)
    window.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()


@pytest.mark.torture
def test_leaders_that_metadata_shows_are_on_the_time_line(traced_cluster: TraceProcess) -> None:
    page = Control(traced_cluster.words["page"])
    rows = page.get(f"/data/requests/rows?first=1&last={page.get('/data/requests')['last']}")["rows"]
    assert len({row["broker"] for row in rows if row["api"] == "Produce"}) == 3
    events = [event["text"] for event in page.get("/data/timeline")["events"] if event["kind"] == "leader"]
    assert events == ["Broker 1 leads orders-0 now, says Metadata."]


@pytest.mark.torture  # with the page of the lab: test_requests.py
def test_requests_appear_while_clients_send_them(browser: Browser, traced: TraceProcess) -> None:
    window = Window(browser, traced.words["page"])
    page = window.open("/requests?q=just-now")
    expect(page.get_by_text("No request matches.")).to_be_visible()
    producer = KafkaProducer(bootstrap_servers=traced.bootstrap, client_id="just-now")
    producer.send("orders", b"1").get(PATIENCE_S)
    producer.close()
    expect(page.get_by_role("row").filter(has_text="Produce").first).to_be_visible()
    window.close()


@pytest.mark.torture
def test_a_page_alone_keeps_what_nobody_else_shows(tmp_path: Path) -> None:
    with Broker(topics=["orders"]) as broker:
        options = ["--page", "127.0.0.1:0", "--page-token", "secret"]
        with TraceProcess(broker.bootstrap_servers, tmp_path, options) as trace:
            KafkaProducer(bootstrap_servers=trace.bootstrap).close()
            page = Control(trace.words["page"])
            assert page.ask("GET", "/data/requests").status == 401
            headers = {"Authorization": "Bearer secret"}
            assert page.ask("GET", "/data/requests", headers=headers).body["last"] > 0


@pytest.mark.torture
def test_an_address_for_all_needs_a_token(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MINIBROKER_CONTROL_TOKEN", raising=False)
    assert main(["trace", "--to", "127.0.0.1:1", "--page", "0.0.0.0:0"]) == 1
    message = "so a token is needed: --page-token or MINIBROKER_CONTROL_TOKEN"
    assert message in capsys.readouterr().err
