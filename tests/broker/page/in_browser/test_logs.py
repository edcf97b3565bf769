"""The views of logs in a real browser while a real client writes."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from minibroker import Broker
from tests.broker.page.browser import Window, in_each_layout
from tests.clients.kafka_python_client import KafkaProducer
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def log_broker() -> Iterator[Broker]:
    topics = ["orders:1:segment.bytes=20000,index.interval.bytes=1000", "payments"]
    with Broker(page=True, topics=topics) as broker:
        for number in range(120):
            broker.produce("orders", f"order {number} <script>alert(1)</script> {'x' * 150}".encode())
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payer"})
        producer.init_transactions(PATIENCE_S)
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            producer.produce("payments", b"1")
            assert producer.flush(PATIENCE_S) == 0
            end(PATIENCE_S)
        yield broker


@pytest.fixture
def window(browser: Browser, log_broker: Broker) -> Iterator[Window]:
    opened = Window(browser, log_broker.page_url)
    yield opened
    opened.close()


@pytest.mark.torture
def test_marks_move_while_a_client_writes(window: Window, log_broker: Broker) -> None:
    page = window.open("/logs")
    page.get_by_role("link", name="orders-0").click()
    end = page.locator(".marks > div").filter(has_text="The offset of the next record.").locator("dd").first
    expect(end).to_have_text("120")
    producer = KafkaProducer(bootstrap_servers=log_broker.bootstrap_servers)
    producer.send("orders", b"one more")
    producer.close()
    expect(end).to_have_text("121")


@pytest.mark.torture
def test_an_address_leads_to_a_batch_with_its_bytes_and_fields(window: Window) -> None:
    page = window.open("/logs/orders/0?offset=42")
    tree = page.get_by_role("tree", name="Fields of the batch")
    expect(tree.get_by_role("treeitem").filter(has_text="baseOffset")).to_contain_text("42")
    expect(page.locator("tr.chosen")).to_contain_text("42")
    expect(page.locator("svg .batch.chosen")).to_have_count(1)
    assert page.locator("svg .arrow").count() > 2
    page.get_by_role("button", name="45", exact=True).click()
    expect(tree.get_by_role("treeitem").filter(has_text="baseOffset")).to_contain_text("45")


def test_an_offset_is_found_step_by_step(window: Window) -> None:
    page = window.open("/logs/orders/0")
    page.get_by_role("textbox", name="Offset").fill("93")
    page.get_by_role("button", name="Show the steps").click()
    steps = page.locator(".walk li")
    expect(steps.first).to_contain_text("The log has the offsets 0 to")
    expect(steps.last).to_contain_text("so 93 is in it")
    window.picture("lab-log-find")
    steps.first.get_by_role("button").focus()
    for _ in range(steps.count() - 1):
        page.keyboard.press("ArrowDown")
    expect(steps.last.get_by_role("button")).to_have_attribute("aria-current", "step")
    expect(page.locator("svg .found")).to_have_count(1)
    page.get_by_role("textbox", name="Offset").fill("ninety")
    page.get_by_role("button", name="Show the steps").click()
    expect(page.get_by_role("alert")).to_contain_text("“ninety” is no offset")


@pytest.mark.torture  # as an offset is
def test_a_time_is_found_step_by_step(window: Window) -> None:
    page = window.open("/logs/orders/0")
    page.get_by_role("combobox", name="Find").select_option("time")
    page.get_by_role("textbox", name="Time").fill("2020-01-31T12:00")
    page.get_by_role("button", name="Show the steps").click()
    expect(page.get_by_text("Found: the batch at byte 0 of segment 0.")).to_be_visible()


@pytest.mark.torture
def test_transactions_are_seen_in_the_log(window: Window) -> None:
    page = window.open("/logs/payments/0")
    expect(page.get_by_role("row").filter(has_text="end of transaction: commit")).to_have_count(1)
    expect(page.get_by_role("row").filter(has_text="end of transaction: abort")).to_have_count(1)
    expect(page.get_by_role("heading", name="Aborted transactions")).to_be_visible()


@pytest.mark.torture  # the same check on the views of requests and forms
@in_each_layout(390, "light")
def test_everybody_can_use_the_views_of_logs(browser: Browser, log_broker: Broker, scheme: str, width: int) -> None:
    window = Window(browser, log_broker.page_url, scheme=scheme, width=width)
    page = window.open("/logs")
    page.get_by_role("link", name="orders-0").wait_for()
    window.check_accessibility()
    page.goto(f"{log_broker.page_url}/logs/orders/0?offset=42")
    page.get_by_role("tree").wait_for()
    page.get_by_role("button", name="Show the steps").click()
    page.locator(".walk li").first.wait_for()
    window.check_accessibility()
    window.picture(f"lab-log-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()


@pytest.mark.torture
def test_a_log_that_is_not_there_is_told(browser: Browser, log_broker: Broker) -> None:
    page = Window(browser, log_broker.page_url).open("/logs/none/0")
    expect(page.get_by_role("alert")).to_contain_text("there is no 'none'")
