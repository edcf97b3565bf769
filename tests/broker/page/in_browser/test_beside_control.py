"""The control plane also serves the page if a broker has both."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.page.browser import Window
from tests.clients.kafka_python_client import KafkaProducer
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def both() -> Iterator[Broker]:
    with Broker(page=True, control="127.0.0.1:0", topics=["orders"]) as broker:
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers, client_id="shop").close()
        yield broker


def test_the_control_plane_stays_what_it_is(both: Broker) -> None:
    control = Control(both.control_url)
    assert control.get("/")["bootstrap_servers"] == both.bootstrap_servers
    assert [topic["name"] for topic in control.get("/topics")["topics"]] == ["orders"]
    assert control.ask("GET", "/requests").status != 303
    assert control.ask("GET", "/laboratory").status == 404
    assert control.ask("GET", "/topics", headers={"Host": "evil.example"}).status == 403


def test_the_same_page_is_below_lab(both: Broker) -> None:
    control, page = Control(both.control_url), Control(both.page_url)
    answer = control.ask("GET", "/lab?token=1")
    assert (answer.status, answer.headers["location"]) == (307, "/lab/?token=1")
    assert control.get("/lab/data/lab") == page.get("/data/lab")
    assert control.get("/lab/data/requests") == page.get("/data/requests")
    assert '"/lab/files/app.js"' in control.get("/lab/requests/1")
    assert '"/files/app.js"' in page.get("/requests/1")
    headers = {name.lower(): value for name, value in control.ask("GET", "/lab/").headers.items()}
    assert "default-src 'none'" in headers["content-security-policy"]
    assert control.ask("GET", "/lab/", headers={"Host": "evil.example"}).status == 403


def test_both_share_snapshots_and_faults(both: Broker) -> None:
    control, page = Control(both.control_url), Control(both.page_url)
    control.post("/snapshots", {"name": "one"}, status=201)
    assert page.get("/data/choices")["snapshots"] == ["one"]
    page.delete("/control/snapshots/one")
    assert control.get("/snapshots") == {"snapshots": []}


def test_lines_name_the_address_that_was_asked(both: Broker) -> None:
    action = Control(both.control_url).post("/lab/data/actions/reset", {"fields": {}})
    assert f"{both.control_url}/lab/control/reset" in action["lines"]["curl"]


@pytest.mark.torture
def test_all_views_work_there(browser: Browser, both: Broker) -> None:
    window = Window(browser, f"{both.control_url}/lab")
    page = window.open("/")
    page.get_by_role("row").filter(has_text="ApiVersions").first.get_by_role("link").click()
    page.get_by_role("tree", name="Fields of the request").wait_for()
    assert page.url.startswith(f"{both.control_url}/lab/requests/")
    for name, heading in (("Logs", "Logs"), ("State", "State"), ("Do", "Do"), ("Requests", "Requests")):
        page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
        assert page.url.startswith(f"{both.control_url}/lab/")
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="Do")).to_be_visible()
    page.locator("#field-topic").fill("orders")
    page.get_by_role("button", name="Produce a record").click()
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    page.reload()
    expect(page.locator("#field-topic")).to_have_value("orders")
    window.close()


@pytest.mark.torture
def test_links_in_lessons_stay_there(browser: Browser, both: Broker) -> None:
    window = Window(browser, f"{both.control_url}/lab")
    link_count = 0
    for number in range(1, 12):
        page = window.open(f"/lessons/{number}")
        page.get_by_role("link", name="All lessons").wait_for()
        links = page.locator("a[href^='/']").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
        assert all(link.startswith("/lab/") for link in links), links
        link_count += len(links)
    assert link_count > 100
    window.close()


def test_the_token_becomes_a_cookie_there_too() -> None:
    with Broker(page=True, control="127.0.0.1:0", control_token="secret") as broker:
        control = Control(broker.control_url)
        assert control.ask("GET", "/lab/data/lab").status == 401
        answer = control.ask("GET", "/lab/requests?token=secret")
        assert (answer.status, answer.headers["location"]) == (303, "/lab/requests")
        cookie = answer.headers["set-cookie"].partition(";")[0]
        assert control.ask("GET", "/lab/data/lab", headers={"Cookie": cookie}).status == 200
        assert control.ask("GET", "/topics", headers={"Cookie": cookie}).status == 401


def test_a_control_plane_alone_has_no_page() -> None:
    with Broker(control="127.0.0.1:0") as broker:
        assert Control(broker.control_url).ask("GET", "/lab/").status == 404
