"""The time line, as returned by the page's server and in a real browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Browser, expect

from minibroker import Broker
from tests.broker.control.http import Control
from tests.broker.page.browser import Window, in_each_layout
from tests.patience import PATIENCE_S

expect.set_options(timeout=PATIENCE_S * 1000)


@pytest.fixture(scope="module")
def used() -> Iterator[Broker]:
    """Yield a broker with a cleaning, two commits of a group, a fault, a leader change and deleted records."""
    latest = "latest:1:cleanup.policy=compact,segment.bytes=300,min.cleanable.dirty.ratio=0.01"
    with Broker(page=True, brokers=2, topics=["orders", latest]) as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(servers)
        for _ in range(6):
            producer.produce("latest", b"x" * 100, key=b"k")
            assert producer.flush(PATIENCE_S) == 0
        broker.compact()
        broker.clock.advance(1)
        consumer = Consumer(
            {**servers, "group.id": "billing", "client.id": "billing-1", "auto.offset.reset": "earliest"}
            | {"enable.auto.commit": False}
        )
        consumer.subscribe(["orders"])
        for number in range(2):
            producer.produce("orders", b"%d" % number)
            assert producer.flush(PATIENCE_S) == 0
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            assert message.error() is None
            broker.clock.advance(1)  # No two commits may be in the same millisecond.
            consumer.commit(message=message, asynchronous=False)
            broker.clock.advance(1)
        consumer.close()
        with broker.fault(api="Produce", error="NOT_ENOUGH_REPLICAS", times=1):
            producer.produce("latest", b"x" * 100, key=b"k")
            assert producer.flush(PATIENCE_S) == 0
        broker.clock.advance(1)
        broker.move_leader("orders", 0, to=2 if broker.leader("orders") == 1 else 1)
        broker.clock.advance(1)
        admin: Any = AdminClient({**servers})  # A deleted client would drop its responses.
        (deleted,) = admin.delete_records([TopicPartition("orders", 0, 1)]).values()
        assert deleted.result(PATIENCE_S).low_watermark == 1
        yield broker


def requests(page: Control, api: str) -> list[int]:
    """Return the numbers of the requests of an API."""
    rows: list[Any] = page.get("/data/requests/rows?first=1&last=500")["rows"]
    return [row["number"] for row in rows if row["api"] == api]


def test_requests_and_events_are_in_their_order(used: Broker) -> None:
    line = Control(used.page_url).get("/data/timeline")
    assert sum(sum(bucket.values()) for bucket in line["buckets"]) == line["last"] - line["first"] + 1
    kinds = [event["kind"] for event in line["events"]]
    assert set(kinds) >= {"rebalance", "fault", "cleaning", "leader"}
    assert kinds.index("cleaning") < kinds.index("rebalance") < kinds.index("fault")
    assert kinds[-2:] == ["leader", "deletion"]
    numbers = [event["request"] for event in line["events"]]
    assert numbers == sorted(numbers)
    texts = [event["text"] for event in line["events"]]
    assert any("billing has come to generation 1" in text for text in texts)
    assert texts[-1] == "DeleteRecords has moved the log start offset of orders-0 to 1, it was 0."


def test_going_back_shows_groups_offsets_and_logs_as_they_were(used: Broker) -> None:
    page = Control(used.page_url)
    first, second = requests(page, "OffsetCommit")[:2]
    before = page.get(f"/data/timeline/{requests(page, 'JoinGroup')[0]}")
    assert [each["offsets"] for each in before["groups"]] in ([], [[]])
    for number, offset in ((first, 1), (second, 2)):
        moment = page.get(f"/data/timeline/{number}")
        (group,) = moment["groups"]
        assert (group["group_id"], group["members"], group["generation"]) == ("billing", ["billing-1"], 1)
        assert group["offsets"] == [{"topic": "orders", "partition": 0, "offset": offset}]
        logs = {log["topic"]: log for log in moment["logs"]}
        assert (logs["orders"]["end"], logs["orders"]["end_now"]) == (offset, 2)
        assert (logs["latest"]["end"], logs["latest"]["end_now"]) == (6, 7)
        assert not moment["was_cleaned"]
    moment = page.get(f"/data/timeline/{requests(page, 'DeleteRecords')[0]}")
    assert {log["topic"]: log["log_start_offset"] for log in moment["logs"]} == {"latest": 0, "orders": 1}


def test_a_request_that_is_not_there_is_refused(used: Broker) -> None:
    assert Control(used.page_url).ask("GET", "/data/timeline/99999").problem[0] == 404
    assert Control(used.page_url).ask("GET", "/data/timeline/0").problem[0] == 400


@pytest.mark.torture
def test_the_scrubber_goes_back(browser: Browser, used: Broker) -> None:
    first = requests(Control(used.page_url), "OffsetCommit")[0]
    window = Window(browser, used.page_url)
    page = window.open(f"/timeline?at={first}")
    groups = page.get_by_role("group", name="Groups at that time")
    expect(groups).to_contain_text("orders-0 at 1")
    page.get_by_role("slider").press("End")
    expect(groups).to_contain_text("orders-0 at 2")
    expect(page.get_by_role("listitem").filter(has_text="The cleaner has compacted latest-0")).to_be_visible()
    window.picture("lab-time-line")
    window.close()


@pytest.mark.torture
def test_a_log_is_shown_before_and_after_its_changes(browser: Browser, used: Broker) -> None:
    ((cleaning,), (deletion,)) = (
        Control(used.page_url).get(f"/data/logs/{topic}/0/history")["changes"] for topic in ("latest", "orders")
    )
    before, after = cleaning["facts"]["before"], cleaning["facts"]["after"]
    assert cleaning["kind"] == "cleaning"
    assert before["size"] == sum(segment["size"] for segment in before["segments"]) > after["size"]
    changed = set(map(str, after["segments"])) - set(map(str, before["segments"]))
    assert len(changed) == 5  # Of six records with one key, each in its own segment, only the last one stays.
    assert (deletion["facts"]["before"]["start"], deletion["facts"]["after"]["start"]) == (0, 1)
    window = Window(browser, used.page_url)
    page = window.open("/logs/latest/0")
    changes = page.get_by_role("region", name="Before and after")
    expect(changes.get_by_role("list", name="Segments before").get_by_role("listitem")).to_have_count(before["count"])
    expect(changes.get_by_role("list", name="Segments after").get_by_text("written again")).to_have_count(len(changed))
    changes.scroll_into_view_if_needed()
    window.picture("lab-before-and-after")
    window.check_accessibility()
    window.close()


@pytest.mark.torture  # the same check on the views of requests and forms
@in_each_layout(1280, "dark")
def test_everybody_can_use_the_time_line(browser: Browser, used: Broker, scheme: str, width: int) -> None:
    first = requests(Control(used.page_url), "OffsetCommit")[0]
    window = Window(browser, used.page_url, scheme=scheme, width=width)
    page = window.open(f"/timeline?at={first}")
    page.get_by_role("group", name="Logs at that time").wait_for()
    window.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()
