"""Groups, transactions, fetch sessions and waiting requests, as returned by the page's server and in a real browser."""

from collections.abc import Iterator
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from playwright.sync_api import Browser, expect

from minibroker import Broker
from minibroker_protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tests.broker.control.http import Control
from tests.broker.handlers.streams_group_requests import subtopology, topology
from tests.broker.operations.members import SHARING, from_the_start, polled, sharer
from tests.broker.page.browser import Window, in_each_layout
from tests.broker.socket_client import SocketClient, address_of
from tests.clients.kafka_python_client import KafkaConsumer
from tests.patience import PATIENCE_S

PATIENCE_MS: Final = int(PATIENCE_S * 1000)

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def used() -> Iterator[Broker]:
    """Yield a broker with a waiting consumer, its group, and an open transaction."""
    with Broker(page=True, topics=["orders:2"]) as broker:
        for number in range(5):
            broker.produce("orders", f"{number}".encode(), partition=0)
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            client_id="billing-1",
            group_id="billing/<b>",
            auto_offset_reset="earliest",
            session_timeout_ms=PATIENCE_MS,
            max_poll_interval_ms=3 * PATIENCE_MS,
            fetch_max_wait_ms=PATIENCE_MS,
            request_timeout_ms=2 * PATIENCE_MS,
            connections_max_idle_ms=3 * PATIENCE_MS,
            consumer_timeout_ms=PATIENCE_MS,
        )
        for _ in range(3):
            next(consumer)
        consumer.commit()
        settings = {"transactional.id": "payer", "transaction.timeout.ms": 900_000}  # Brokers allow no longer timeout.
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce("orders", b"5", partition=1)
        assert producer.flush(PATIENCE_S) == 0
        yield broker
        broker.produce("orders", b"the end", partition=0)  # The consumer waits for this record.
        consumer.close(autocommit=False)


def test_the_overview_has_groups_transactions_and_sessions(used: Broker) -> None:
    page = Control(used.page_url)
    state = page.get("/data/state")
    (group,) = state["groups"]["groups"]
    facts = [group[name] for name in ("group_id", "type", "state", "members")]
    assert facts == ["billing/<b>", "classic", "Stable", 1]
    (transaction,) = state["transactions"]["transactions"]
    assert (transaction["transactional_id"], transaction["state"]) == ("payer", "Ongoing")
    assert transaction["partitions"] == [["orders", 1]]
    assert transaction["state"] in state["transactions"]["states"]


def test_a_request_that_waits_has_its_api_and_its_client() -> None:
    with Broker(page=True, topics=["quiet"]) as broker:
        settings = {"client.id": "listener", "group.id": "g", "fetch.wait.max.ms": 10_000, "session.timeout.ms": 45_000}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
        consumer.assign([TopicPartition("quiet", 0, 0)])
        waiting: list[dict[str, Any]] = []
        while not waiting:
            assert consumer.poll(0.05) is None
            waiting = Control(broker.page_url).get("/data/state")["delayed"]
        assert [(request["api"], request["client_id"]) for request in waiting] == [("Fetch", "listener")]
        consumer.close()


def test_a_group_has_its_members_offsets_and_lag(used: Broker) -> None:
    group = Control(used.page_url).get("/data/groups/billing%2F%3Cb%3E")
    assert group["state"] in group["states"]
    (member,) = group["members"]
    assert (member["client_id"], member["is_leader"]) == ("billing-1", True)
    offsets = {offset["partition"]: offset for offset in group["offsets"]}
    assert (offsets[0]["committed"], offsets[0]["high_watermark"], offsets[0]["lag"]) == (3, 5, 2)


def test_a_group_that_is_not_there_is_refused(used: Broker) -> None:
    assert Control(used.page_url).ask("GET", "/data/groups/none").problem[0] in {400, 404}


def test_states_are_lit_and_lead_to_the_group_and_its_log(browser: Browser, used: Broker) -> None:
    window = Window(browser, used.page_url)
    page = window.open("/state")
    row = page.get_by_role("row").filter(has_text="payer")
    expect(row.locator("li[aria-current]")).to_have_text("Ongoing")
    window.picture("lab-state")
    page.get_by_role("link", name="billing/<b>").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("billing/<b>")
    expect(page.locator(".machine li[aria-current]")).to_have_text("Stable")
    expect(page.get_by_role("row").filter(has_text="billing-1")).to_contain_text("leader")
    page.get_by_role("link", name="orders-0").click()
    expect(page.get_by_role("tree", name="Fields of the batch")).to_be_visible()
    window.close()


@pytest.mark.torture  # the same check on the views of requests and forms
@in_each_layout(390, "dark")
def test_everybody_can_use_the_views_of_state(browser: Browser, used: Broker, scheme: str, width: int) -> None:
    window = Window(browser, used.page_url, scheme=scheme, width=width)
    page = window.open("/state")
    page.get_by_role("row").filter(has_text="payer").wait_for()
    window.check_accessibility()
    page.goto(f"{used.page_url}/groups/billing%2F%3Cb%3E")
    page.get_by_role("row").filter(has_text="billing-1").wait_for()
    window.check_accessibility()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    window.close()


@pytest.mark.torture
def test_leaders_and_in_sync_replicas_of_several_brokers_are_shown(browser: Browser) -> None:
    with Broker(page=True, brokers=3, topics=["orders:3"], config={"default.replication.factor": "3"}) as broker:
        broker.brokers[2].stop()
        replicas = Control(broker.page_url).get("/data/state")["replicas"]
        assert [(each["id"], each["is_up"]) for each in replicas["brokers"]] == [(1, True), (2, False), (3, True)]
        assert replicas["brokers"][1]["leads"] == 0
        assert {tuple(sorted(partition["isr"])) for partition in replicas["partitions"]} == {(1, 3)}
        assert {partition["leader"] for partition in replicas["partitions"]} <= {1, 3}
        window = Window(browser, broker.page_url)
        page = window.open("/state")
        expect(page.get_by_text("broker 2 down, leads 0 partitions")).to_be_visible()
        in_sync = page.get_by_role("row").filter(has_text="orders-0").get_by_role("cell").last
        expect(in_sync).to_have_text("1, 3")
        window.check_accessibility()
        window.close()


@pytest.mark.torture
def test_a_share_group_shows_what_its_members_have_in_hand(browser: Browser) -> None:
    with Broker(page=True, topics=["jobs"], config=SHARING, timeout=PATIENCE_S) as broker:
        from_the_start(broker)
        broker.produce("jobs", "a", "b", "c")
        with sharer(broker) as consumer:
            broker.group("g").wait_until_stable(members=1)
            polled(consumer, 3)
            (shared,) = Control(broker.page_url).get("/data/groups/g")["shared"]
            assert (shared["topic"], shared["acquired"], shared["lag"]) == ("jobs", 3, 3)
            window = Window(browser, broker.page_url)
            page = window.open("/groups/g")
            expect(page.get_by_role("group", name="Share-partitions")).to_contain_text("0 to 2 ACQUIRED, delivery 1")
            window.check_accessibility()
            window.close()


@pytest.mark.torture
def test_a_streams_group_shows_its_states_and_members(browser: Browser) -> None:
    sessions = {f"group.streams.{each}session.timeout.ms": str(PATIENCE_MS) for each in ("", "max.")}
    config = {"group.streams.initial.rebalance.delay.ms": "0", **sessions}
    with Broker(page=True, topics=["words:2"], config=config) as broker:
        client = SocketClient(address_of(broker.bootstrap_servers))

        def beat(epoch: int) -> int:
            request = StreamsGroupHeartbeatRequest(
                group_id="counting",
                member_id="counter-1",
                member_epoch=epoch,
                endpoint_information_epoch=-1,
                process_id="process-1",
                rebalance_timeout_ms=PATIENCE_MS,
                topology=topology(subtopology(sources=["words"])) if epoch == 0 else None,
                active_tasks=[],
                standby_tasks=[],
                warmup_tasks=[],
            )
            client.send(request, 0)
            answer = client.receive()[1]
            assert not answer.error_code, answer.error_message
            return int(answer.member_epoch)

        with client:
            assert beat(0) > 0
            group = Control(broker.page_url).get("/data/groups/counting")
            assert (group["type"], group["state"] in group["states"], group["member_count"]) == ("streams", True, 1)
            window = Window(browser, broker.page_url)
            page = window.open("/state")
            row = page.get_by_role("row").filter(has_text="counting")
            expect(row).to_contain_text("streams")
            expect(row.locator("li[aria-current]")).to_have_text(group["state"])
            expect(row.locator("li.next")).to_have_count(len(group["states"][group["state"]]))
            page.get_by_role("link", name="counting").click()
            expect(page.locator(".machine li[aria-current]")).to_have_text(group["state"])
            expect(page.get_by_role("group", name="Members")).to_contain_text("counter-1")
            window.check_accessibility()
            beat(-1)
            expect(page.locator(".machine li[aria-current]")).to_have_text("Empty")
            expect(page.get_by_text("The group has no member. Its offsets stay.")).to_be_visible()
            window.close()
