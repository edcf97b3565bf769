"""The views of requests in a real browser while real clients send requests."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, expect

from minibroker import Broker
from tests.broker.page.browser import Window, in_each_layout
from tests.clients.kafka_python_client import KafkaConsumer, KafkaProducer
from tests.patience import PATIENCE_S

SCRIPT = "<script>document.title = 'broken into'</script>"

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def busy(page_broker: Broker) -> Broker:
    """Return a broker after some requests of two kinds of clients."""
    producer = KafkaProducer(bootstrap_servers=page_broker.bootstrap_servers, client_id="shop", compression_type="gzip")
    for number in range(20):
        value = f"order {number} {SCRIPT * 9}".encode()
        producer.send("orders", key=b"customer-%d" % (number % 3), value=value, partition=0)
    producer.close()
    librdkafka = Producer({"bootstrap.servers": page_broker.bootstrap_servers, "client.id": "bank"})
    librdkafka.produce("orders", b"paid", partition=1)
    assert librdkafka.flush(PATIENCE_S) == 0
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=page_broker.bootstrap_servers,
        client_id="billing-1",
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    assert len([next(consumer) for _ in range(21)]) == 21
    consumer.close()
    return page_broker


@pytest.fixture
def window(browser: Browser, busy: Broker) -> Iterator[Window]:
    opened = Window(browser, busy.page_url)
    yield opened
    opened.close()


def test_requests_appear_while_clients_send_them(window: Window, busy: Broker) -> None:
    page = window.open("/requests")
    rows = page.get_by_role("row")
    expect(rows.filter(has_text="billing").first).to_be_visible()
    producer: Any = KafkaProducer(bootstrap_servers=busy.bootstrap_servers, client_id="just-now")
    producer.send("orders", b"1", partition=0).get(PATIENCE_S)
    expect(rows.filter(has_text="Produce v").filter(has_text="just-now")).to_have_count(1)
    page.get_by_role("button", name="Pause").click()
    before = page.get_by_role("status").text_content()
    producer.send("orders", b"2", partition=0).get(PATIENCE_S)
    producer.close()
    expect(page.get_by_role("button", name="Continue")).to_have_attribute("aria-pressed", "true")
    assert (page.get_by_role("status").text_content() or "").split()[0] == (before or "").split()[0]
    page.get_by_role("button", name="Continue").click()
    expect(rows.filter(has_text="Produce v").filter(has_text="just-now")).to_have_count(2)


@pytest.mark.torture
def test_filters_stand_in_the_address(window: Window) -> None:
    page = window.open("/requests?api=Produce&q=bank")
    rows = page.get_by_role("row").filter(has_text="Produce")
    expect(rows).to_have_count(1)
    expect(page.get_by_role("searchbox", name="Find")).to_have_value("bank")
    page.get_by_role("searchbox", name="Find").fill("shop")
    expect(rows.first).to_contain_text("shop")
    assert page.url.endswith("/requests?q=shop&api=Produce") or page.url.endswith("/requests?api=Produce&q=shop")
    page.get_by_label("Only errors").check()
    expect(page.get_by_text("No request matches.")).to_be_visible()


@pytest.mark.torture
def test_the_keyboard_alone_opens_a_request_and_walks_its_fields(window: Window) -> None:
    page = window.open("/requests?api=Produce&q=shop")
    expect(page.get_by_role("row").filter(has_text="Produce").first).to_be_visible()
    page.get_by_role("grid").focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/requests/\d+$"))
    tree = page.get_by_role("tree", name="Fields of the request")
    tree.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(tree.locator(".chosen")).to_contain_text("requestApiKey")
    hex_dump = page.get_by_role("group", name="Bytes of the request")
    hex_dump.focus()
    page.keyboard.press("ArrowRight")
    expect(tree.locator(".chosen")).to_contain_text("requestApiVersion")
    page.keyboard.press("ArrowLeft")
    expect(tree.locator(".chosen")).to_contain_text("requestApiKey")


def open_produce(window: Window) -> None:
    page = window.open("/requests?api=Produce&q=shop")
    page.get_by_role("row").filter(has_text="Produce").first.get_by_role("link").click()
    page.get_by_role("tree", name="Fields of the request").wait_for()


@pytest.mark.torture
def test_to_point_at_a_field_marks_its_bytes_and_the_other_way_round(window: Window) -> None:
    open_produce(window)
    page = window.page
    tree = page.get_by_role("tree", name="Fields of the request")
    bytes_side = page.locator(".hex-side").first
    tree.get_by_role("treeitem").filter(has_text="clientId").hover()
    expect(bytes_side).to_contain_text("bytes 12 to 17")  # A length of two bytes, and "shop".
    assert bytes_side.locator("i.mark").count() >= 2
    box = page.get_by_role("group", name="Bytes of the request").bounding_box()
    character = page.locator(".probe").first.bounding_box()
    assert box is not None
    assert character is not None
    page.mouse.move(box["x"] + 13 + (10 + 3 * 5 + 1) * character["width"] / 64, box["y"] + 8 + 12)  # Byte 5
    expect(tree.locator(".marked")).to_contain_text("requestApiKey")
    expect(page.locator(".about-field").first).to_contain_text("INT16")


@pytest.mark.torture
def test_compressed_records_are_opened_in_place_and_their_text_stays_text(window: Window) -> None:
    open_produce(window)
    page = window.page
    tree = page.get_by_role("tree", name="Fields of the request")
    tree.focus()
    for _ in range(60):
        page.keyboard.press("ArrowDown")
        if "compressed with gzip" in (tree.locator(".chosen").text_content() or ""):
            break
    page.keyboard.press("ArrowRight")
    expect(page.locator(".hex-side").first).to_contain_text("decompressed")
    tree.get_by_role("treeitem").filter(has_text=SCRIPT).first.click()
    assert page.title() != "broken into"
    window.picture("lab-request")
    page.get_by_role("button", name="Back to the frame").first.click()
    expect(page.locator(".hex-side").first.locator(".caption")).to_contain_text("Frame")


@in_each_layout(1280, "light")
def test_everybody_can_use_the_views(browser: Browser, busy: Broker, scheme: str, width: int) -> None:
    window = Window(browser, busy.page_url, scheme=scheme, width=width)
    page = window.open("/requests")
    page.get_by_role("row").filter(has_text="Heartbeat").or_(
        page.get_by_role("row").filter(has_text="Fetch")
    ).first.wait_for()
    window.check_accessibility()
    window.picture(f"lab-requests-{scheme}-{width}")
    page.goto(f"{busy.page_url}/requests/1")
    page.get_by_role("tree").last.wait_for()
    window.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()


@pytest.mark.torture
def test_an_unknown_address_and_a_forgotten_request_say_so(browser: Browser, busy: Broker) -> None:
    page = Window(browser, busy.page_url).open("/nowhere")
    expect(page.get_by_role("heading", name="Unknown address")).to_be_visible()
    page.goto(f"{busy.page_url}/requests/987654")
    expect(page.get_by_role("alert")).to_contain_text("request 987654: no client has sent so many")


@pytest.mark.torture
def test_the_page_goes_on_with_another_broker_at_the_same_address(browser: Browser, free_address: str) -> None:
    with Broker(page=free_address) as first:
        window = Window(browser, first.page_url)
        page = window.open("/requests")
        expect(page.get_by_text("No request yet.")).to_be_visible()
    expect(page.get_by_text("no connection")).to_be_visible()
    with Broker(page=free_address) as second:
        producer = KafkaProducer(bootstrap_servers=second.bootstrap_servers)
        producer.close()
        expect(page.get_by_role("row").filter(has_text="ApiVersions").first).to_be_visible()
        expect(page.get_by_text("no connection")).to_have_count(0)
        page.close()


@pytest.mark.torture
def test_the_stream_begins_anew_after_the_machine_has_slept(browser: Browser, busy: Broker) -> None:
    window = Window(browser, busy.page_url)
    streams: list[str] = []
    window.page.on("request", lambda request: streams.append(request.url) if "/live" in request.url else None)
    window.page.clock.install()
    page = window.open("/requests")
    expect(page.get_by_role("row").filter(has_text="Produce").or_(page.get_by_role("row").nth(1)).first).to_be_visible()
    assert len(streams) == 1
    with page.expect_request("**/data/requests/live*"):
        page.clock.fast_forward(3_600_000)
    expect(page.get_by_role("status")).to_contain_text("requests")
    assert len(streams) == 2
    window.close()
    page.context.close()  # The installed clock would stay in the context.


@pytest.mark.torture
def test_the_same_request_in_another_version_stands_above(browser: Browser, busy: Broker) -> None:
    window = Window(browser, busy.page_url)
    open_produce(window)
    page = window.page
    page.get_by_role("combobox", name="The same in version").select_option("3")
    expect(page.get_by_role("tree", name="Fields of the request-in-version-3")).to_be_visible()
    assert page.url.endswith("?as=3")
    window.check_accessibility()
    window.close()
