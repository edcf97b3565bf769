"""A record followed in a real browser. The screenshots make the screencast of docs/lab.md."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Locator, Page, expect

from minibroker import Broker
from tests.broker.page.browser import Window, in_each_layout
from tests.clients.kafka_python_client import KafkaProducer
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)

ORDERS = [f"""{{"order": {number}, "item": "<script>alert(1)</script>"}}""".encode() for number in range(8)]


@pytest.fixture(scope="module")
def used() -> Iterator[Broker]:
    """Yield a broker with plain and compressed orders, which a group has read and committed.

    Another client has produced records with one key to a compacted topic, followed by records in a transaction. This
    fixture precedes the browser, whose event loop it would block.
    """
    prices = "prices:1:cleanup.policy=compact,segment.bytes=300,min.cleanable.dirty.ratio=0.01"
    with Broker(page=True, topics=["orders", "packed", "paid", prices]) as broker:
        for topic, codec in (("orders", "none"), ("packed", "zstd")):
            # The records are in one batch, which flush sends.
            settings = {"client.id": "shop", "compression.type": codec, "linger.ms": 60_000}
            producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
            producer.list_topics(topic, PATIENCE_S)  # A flush may split the batch of a topic without metadata.
            for number, order in enumerate(ORDERS):
                producer.produce(topic, order * 3, key=b"customer-%d" % number)
            assert producer.flush(PATIENCE_S) == 0
        reading = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
        group = {"bootstrap.servers": broker.bootstrap_servers, "client.id": "billing-1", "group.id": "billing"}
        consumer = Consumer({**group, **reading})
        consumer.subscribe(["orders"])
        for _ in ORDERS:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
        consumer.commit(asynchronous=False)
        consumer.close()
        other: Any = KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id="till", transactional_id="till-1"
        )
        other.init_transactions()
        for number in range(6):
            other.begin_transaction()
            other.send("prices", b"%d" % number * 100, key=b"tea").get(PATIENCE_S)
            other.commit_transaction()
        other.begin_transaction()
        other.send("paid", b"10 euro").get(PATIENCE_S)
        other.commit_transaction()
        other.close()
        broker.compact()
        yield broker


@pytest.fixture
def window(used: Broker, browser: Browser) -> Iterator[Window]:
    opened = Window(browser, used.page_url)
    yield opened
    opened.close()


def stage(page: Page, title: str) -> Locator:
    return page.locator(".stage").filter(has=page.get_by_role("heading", name=title))


def marked(page: Page, direction: str) -> Locator:
    """Return the row of the selected field."""
    return page.get_by_role("tree", name=f"Fields of the {direction}").get_by_role("treeitem", selected=True)


def test_a_record_is_followed_from_produce_to_its_committed_offset(window: Window) -> None:
    page = window.open("/requests?api=Produce")
    row = page.get_by_role("row").filter(has_text="orders")
    row.first.wait_for()
    window.picture("lab-follow-1-requests")
    row.first.click()
    page.get_by_role("link", name="follow 0").click()
    page.get_by_role("link", name="1 →").click()
    page.get_by_role("link", name="2 →").click()
    expect(page.get_by_role("region", name="The record")).to_contain_text("customer-2")
    expect(stage(page, "Committed offset")).to_contain_text("1 group has committed an offset beyond 2.")
    window.picture("lab-follow-2-life")

    stage(page, "Produce").get_by_role("link", name="Request").click()
    expect(marked(page, "request")).to_contain_text("[2]")
    marked(page, "request").scroll_into_view_if_needed()
    window.picture("lab-follow-3-produce")
    page.go_back()

    stage(page, "Log").get_by_role("link", name="Show in the log").click()
    expect(marked(page, "batch")).to_contain_text("[2]")
    marked(page, "batch").scroll_into_view_if_needed()
    window.picture("lab-follow-4-log")
    page.go_back()

    stage(page, "Fetch").get_by_role("link", name="Request").click()
    expect(marked(page, "response")).to_contain_text("[2]")
    marked(page, "response").scroll_into_view_if_needed()
    window.picture("lab-follow-5-fetch")
    page.go_back()

    stage(page, "Committed offset").get_by_role("link", name="Request").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("OffsetCommit")
    marked(page, "request").scroll_into_view_if_needed()
    window.picture("lab-follow-6-commit")
    page.go_back()

    stage(page, "Committed offset").get_by_role("link", name="Follow that record").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("__consumer_offsets-")
    stage(page, "Log").get_by_role("link", name="Show in the log").click()
    marked(page, "batch").scroll_into_view_if_needed()
    window.picture("lab-follow-7-committed")


@pytest.mark.torture
def test_a_compressed_record_is_marked_among_the_decompressed_bytes(window: Window) -> None:
    page = window.open("/follow/packed/0/5")
    stage(page, "Produce").get_by_role("link", name="Request").click()
    expect(marked(page, "request")).to_contain_text("[5]")
    expect(page.get_by_text("decompressed", exact=False).first).to_be_visible()
    page.goto(f"{window.url}/follow/packed/0/5")
    stage(page, "Log").get_by_role("link", name="Show in the log").click()
    expect(marked(page, "batch")).to_contain_text("[5]")


@pytest.mark.torture  # without a browser: tests/broker/page/test_follow.py
def test_a_transactional_record_is_followed_to_its_marker(window: Window) -> None:
    page = window.open("/follow/paid/0/0")
    decided = stage(page, "Transaction")
    expect(decided).to_contain_text("done")
    decided.get_by_role("link", name="Request").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("EndTxn")
    expect(marked(page, "request")).to_contain_text("committed")
    page.go_back()
    expect(stage(page, "Transaction")).to_contain_text("offset 1")
    window.picture("lab-follow-transaction")


@pytest.mark.torture  # the same
def test_a_compacted_record_is_followed_to_the_one_that_replaced_it(window: Window) -> None:
    page = window.open("/follow/prices/0/0")
    expect(page.get_by_role("region", name="The record")).to_contain_text("tea")
    expect(stage(page, "Produce")).to_contain_text("till")
    removal = stage(page, "Removal")
    expect(removal).to_contain_text("Compaction has removed it, since a newer record has the same key.")
    removal.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("offset 10")
    expect(stage(page, "Removal")).to_contain_text("Compaction keeps it")


@pytest.mark.torture
def test_a_field_of_a_record_leads_to_its_life(window: Window) -> None:
    page = window.open("/logs/orders/0?offset=4")
    tree = page.get_by_role("tree", name="Fields of the batch")
    tree.wait_for()
    tree.press("End")
    page.get_by_role("link", name="Follow this record").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("offset 7")


@pytest.mark.torture
def test_any_record_can_be_chosen(window: Window, used: Broker) -> None:
    page = window.open("/follow")
    page.get_by_role("textbox", name="Partition").fill("first")
    page.get_by_role("combobox", name="Topic").fill("packed")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("alert")).to_contain_text("the number of a partition")
    page.get_by_role("textbox", name="Partition").fill("0")
    page.get_by_role("button", name="Follow").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("offset 7")
    expect(stage(page, "Fetch")).to_contain_text("not yet")
    page.goto(f"{window.url}/follow/packed/0/8")
    expect(stage(page, "Produce")).to_contain_text("No record has this offset yet")
    used.produce("packed", b"it comes")
    expect(stage(page, "Log")).to_contain_text("done")


@pytest.mark.torture  # the same check on the views of requests and forms
@in_each_layout(1280, "dark")
def test_everybody_can_use_the_life_of_a_record(used: Broker, browser: Browser, scheme: str, width: int) -> None:
    window = Window(browser, used.page_url, scheme=scheme, width=width)
    page = window.open("/follow/orders/0/2")
    stage(page, "Removal").wait_for()
    window.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()
