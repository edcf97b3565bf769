"""The Do view in a real browser: each action with the mouse, and one with the keyboard only."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.page.action_cases import CASES, IDS, Case, cleared
from tests.broker.page.browser import Window, in_each_layout
from tests.clients.kafka_python_client import KafkaConsumer, poll_until
from tests.patience import PATIENCE_S
from tests.sweeps import one_in

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture
def window(browser: Browser, cluster: Broker) -> Iterator[Window]:
    cleared(cluster)
    opened = Window(browser, cluster.page_url)
    yield opened
    opened.close()


def fill(page: Page, fields: dict[str, str]) -> None:
    """Type into a form like a user."""
    for name, value in fields.items():
        field = page.locator(f"#field-{name}")
        if field.get_attribute("type") == "checkbox":
            field.check()
        elif field.evaluate("each => each.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)


@pytest.mark.parametrize("case", one_in(24, CASES), ids=IDS)
def test_each_action_is_done_with_a_click(window: Window, cluster: Broker, tmp_path: Path, case: Case) -> None:
    case.before(cluster)
    page = window.open("/do")
    actions = Control(cluster.page_url).get("/data/actions")["actions"]
    (form,) = [action for action in actions if action["name"] == case.name]
    page.get_by_role("navigation", name="Actions").get_by_role("link", name=form["title"]).click()
    fields = case.filled(tmp_path / "snapshot")
    before = Control(cluster.page_url).post(f"/data/actions/{case.name}", {"fields": fields})["lines"]["tool"]
    fill(page, fields)
    page.get_by_role("button", name=form["title"]).click()
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    answer = page.get_by_role("group", name="Answer")
    output = json.dumps(json.loads(answer.text_content() or "")) if answer.count() else ""
    assert case.after(cluster, output, tmp_path / "snapshot") == case.expected
    lines = Control(cluster.page_url).post(f"/data/actions/{case.name}", {"fields": fields})["lines"]
    if case.name != "restore_snapshot":
        expect(page.get_by_role("group", name="Line of Python")).to_have_text(lines["python"])
    expect(page.get_by_role("group", name="Line of curl")).to_have_text(lines["curl"])
    if lines["tool"] is not None:
        # The line contains the replicas, which the action changes. The page may show the line from before the change.
        either = re.compile("|".join(re.escape(each) for each in {before, lines["tool"]} - {None}))
        expect(page.get_by_role("group", name="Line of Kafka's tool")).to_have_text(either)


@pytest.mark.torture  # a click like others; the action: tests/broker/page/test_actions.py
def test_a_group_is_rebalanced_with_a_click(window: Window, cluster: Broker) -> None:
    consumer = KafkaConsumer("orders", bootstrap_servers=cluster.bootstrap_servers, group_id="billing")
    try:
        poll_until(consumer, lambda: cluster.group("billing").describe().state == "Stable")
        page = window.open("/do/rebalance?group_id=billing")
        page.get_by_role("button", name="Rebalance a group").click()
        expect(page.get_by_text("Done", exact=True)).to_be_visible()
        assert cluster.group("billing").describe().state == "PreparingRebalance"
    finally:
        consumer.close()


def test_the_keyboard_alone_does_an_action(window: Window, cluster: Broker) -> None:
    page = window.open("/do/create_topic")
    page.get_by_role("navigation", name="Actions").get_by_role("link", name="Create a topic").focus()
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "field-name":
            break
    page.keyboard.type("typed")
    page.keyboard.press("Tab")
    page.keyboard.type("4")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    assert cluster.topics()["typed"].partitions == 4
    page.get_by_role("main").evaluate("each => each.scrollTo(0, 0)")
    window.picture("lab-do")


@pytest.mark.torture
def test_lines_are_copied(browser: Browser, cluster: Broker) -> None:
    window = Window(browser, cluster.page_url)
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = window.open("/do/stop_broker?node_id=3")
    page.get_by_role("button", name="Copy the line of Python").click()
    expect(page.get_by_role("button", name="Copy the line of Python")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "broker.brokers[3].stop()"
    expect(page.get_by_text("None of Kafka's tools does this.")).to_be_visible()
    window.close()


@pytest.mark.parametrize(
    ("path", "error"),
    one_in(
        4,
        [
            ("/do/create_topic", "name: a value is needed"),
            ("/do/produce?topic=orders&partition=two", "records.0.partition: Input should be a valid integer"),
            ("/do/add_fault?drop=before&error=NONE", "error"),
            ("/do/stop_broker?node_id=9", "there is no broker 9; brokers: 1, 2, 3"),
        ],
    ),
)
def test_errors_are_shown_as_the_control_plane_reports_them(
    browser: Browser, cluster: Broker, path: str, error: str
) -> None:
    page = Window(browser, cluster.page_url).open(path)
    page.locator("button.primary").click()
    expect(page.get_by_role("alert")).to_contain_text(error)
    page.close()


@pytest.mark.torture
@in_each_layout(390, "dark")
def test_everybody_can_use_the_forms(browser: Browser, cluster: Broker, scheme: str, width: int) -> None:
    cleared(cluster)
    window = Window(browser, cluster.page_url, scheme=scheme, width=width)
    page = window.open("/do/produce?topic=orders&key=customer-7&value=paid")
    page.get_by_role("group", name="Line of Python").wait_for()
    page.get_by_role("button", name="Produce a record").click()
    page.get_by_role("group", name="Answer").wait_for()
    window.check_accessibility()
    window.picture(f"lab-do-{scheme}-{width}")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{cluster.page_url}/do/add_fault")
    page.get_by_role("textbox", name="probability").wait_for()
    window.check_accessibility()
    window.close()
