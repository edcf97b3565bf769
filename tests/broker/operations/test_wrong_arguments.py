"""Wrong arguments of `Broker`'s methods: the message names the argument and what to write instead."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minibroker import Broker, MinibrokerWarning, OperationError
from minibroker.config.names import suggestion
from minibroker_protocol.messages.groups import FindCoordinatorRequest
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.control.http import Control
from tests.broker.socket_client import SocketClient


@pytest.fixture(scope="module")
def running() -> Iterator[Broker]:
    with Broker(journal=True, topics=["orders"], control="127.0.0.1:0") as broker:
        yield broker


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda broker: broker.wait_for("orders", {"id": 7}), r"count: \{'id': 7\} is not a number; expect\('ord"),
        (lambda broker: broker.wait_for("orders", -1), "count: -1 is below 0"),
        (lambda broker: broker.expect("orders", timeout="1"), "timeout: '1' is not a number"),
        (lambda broker: broker.wait_for("orders", timeout=-1), "timeout: -1 s is below 0"),
        (lambda broker: broker.expect_none("orders", within="1"), "within: '1' is not a number"),
        (
            lambda broker: broker.wait_for_requests("Produce"),
            r"count: .*; wait_for_requests\(api='Produce'\) waits for",
        ),
        (lambda broker: broker.wait_for_requests(api="Prodce"), "api: 'Prodce' is not an API .*; did you mean Produce"),
        (lambda broker: broker.requests.entries(api="Zzz"), "api: 'Zzz' is not an API of Kafka; there are Produce, "),
        (lambda broker: broker.create_topic("a:4"), r"Topic name is invalid: .*; write create_topic\('a', 4\)$"),
        (lambda broker: broker.create_topic("a", "4"), "partitions: '4' is not a whole number"),
        (lambda broker: broker.create_topic("a", replication_factor=1.5), "factor: 1.5 is not a whole number"),
    ],
)
def test_a_value_of_another_class_is_refused(running: Broker, ask: Callable[[Any], object], message: str) -> None:
    with pytest.raises(OperationError, match=message):
        ask(running)
    assert list(running.topics()) == ["orders"]


def test_an_argument_that_a_method_does_not_take_is_answered_with_those_it_takes(running: Broker) -> None:
    untyped: Any = running
    with pytest.raises(TypeError, match=r"^Broker\.produce\(\) got .* 'value'; it takes \(topic, \*values, key=None, "):
        untyped.produce("orders", value="x")
    with pytest.raises(TypeError, match=r"\)\. For several records there is wait_for\(topic, count, matching=record"):
        untyped.expect("orders", count=2)
    with pytest.raises(TypeError, match=r"^ConsumerGroup\.lag\(\) takes 1 .*; it takes \(\)$"):
        untyped.group("g").lag("orders")


def test_an_error_inside_a_property_is_that_error(running: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    items: Any = []
    monkeypatch.setattr(Broker, "address", property(lambda _: items.inner))
    with pytest.raises(AttributeError, match="'list' object has no attribute 'inner'"):
        _ = running.address


def test_a_misspelt_group_is_a_warning_in_python_and_a_log_line_over_http(
    running: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with SocketClient(running.address) as client:
        client.ask(FindCoordinatorRequest(key="billing"), 0)
        topic = OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata=None)],
        )
        client.ask(OffsetCommitRequest(group_id="billing", topics=[topic]), 2)
    for ask in (running.group("biling").lag, running.group("biling").committed):
        with pytest.warns(MinibrokerWarning, match=r"no group 'biling'; .*; did you mean billing\?$") as caught:
            assert ask() == {}
        assert [warning.filename for warning in caught] == [__file__]
    assert running.group("billing").committed() == {("orders", 0): 0}
    assert Control(running.control_url).get("/groups/biling/lag")["total"] == 0
    assert "there is no group 'biling'" in caplog.text


def test_a_broker_without_security_says_how_it_gets_some(running: Broker) -> None:
    with pytest.raises(RuntimeError, match=r"no security, .*Broker\(security=Security\(\.\.\.\)\)"):
        _ = running.security


def test_the_only_name_that_begins_so_is_suggested() -> None:
    names = ["NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "NONE"]
    assert suggestion("NOT_LEADER", names) == "; did you mean NOT_LEADER_OR_FOLLOWER?"
    assert suggestion("NOT_", names) == ""
    assert suggestion("", names) == ""
