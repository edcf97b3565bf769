"""docs/python.md: its examples run and use every public member, and operations raise the errors it names."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import minibroker
from minibroker import Broker, ConflictError, NotFoundError, NotRunningError, OperationError, WaitTimeoutError
from minibroker.cluster.cluster import ClusterError
from minibroker.config import ConfigError
from minibroker.operations.blocking import (
    BrokerClock,
    BrokerNode,
    Brokers,
    Chaos,
    ConsumerGroup,
    Faults,
    Retention,
    Schemas,
)
from minibroker.server.faults.fault import FaultError
from minibroker.server.inspection.journal import Journal
from tests.documented import ROOT, blocks

PAGE: Final = "docs/python.md"
INTERNAL: Final = {"services", "asynchronous", "wait", "add", "find_first_number", "count", "find", "cleared_after"}
"""Internal members; `add`, `find_first_number`, `count`, `find` and `cleared_after` belong to `Journal`."""
DOCUMENTED_IN_WORDS: Final = {"security", "share_partitions"}


@pytest.mark.slow
def test_the_examples_of_the_page_run() -> None:
    namespace: dict[str, Any] = {}
    try:
        for block in blocks(PAGE):
            if block.language == "python":
                exec(compile("\n" * block.line + block.text, PAGE, "exec"), namespace)
    finally:
        if "broker" in namespace:
            namespace["broker"].stop()


@pytest.mark.parametrize(
    "kind", [Broker, BrokerClock, BrokerNode, Brokers, Chaos, ConsumerGroup, Faults, Journal, Retention, Schemas]
)
def test_the_examples_have_every_public_member(kind: type) -> None:
    code = "".join(block.text for block in blocks(PAGE) if block.language == "python")
    members = {name for name in vars(kind).keys() | dir(kind) if not name.startswith("_")}
    assert {name for name in members - INTERNAL - DOCUMENTED_IN_WORDS if f".{name}" not in code} == set()


def test_the_page_names_all_that_can_be_imported() -> None:
    text = (ROOT / PAGE).read_text()
    assert [name for name in minibroker.__all__ if not name.startswith("_") and name not in text] == []


RAISES: Final[dict[str, tuple[type[BaseException], Callable[[Broker, Path], object]]]] = {
    "start twice": (RuntimeError, lambda broker, _: broker.start()),
    "no control plane": (RuntimeError, lambda broker, _: broker.control_url),
    "no page": (RuntimeError, lambda broker, _: broker.page_url),
    "no registry": (RuntimeError, lambda broker, _: broker.registry_url),
    "no security": (RuntimeError, lambda broker, _: broker.security),
    "no journal": (RuntimeError, lambda broker, _: broker.requests),
    "no listener": (ValueError, lambda broker, _: broker.bootstrap_servers_of("NONE")),
    "an unknown option": (TypeError, lambda _b, _p: Broker(port=9092)),  # type: ignore[call-arg]  # that is the point
    "an option of a wrong type": (TypeError, lambda _b, _p: Broker(topics="orders")),
    "a wrong setting": (ConfigError, lambda _b, _p: Broker(config={"message.max.bytes": "large"})),
    "not running": (NotRunningError, lambda _b, _p: Broker().topics()),
    "a taken directory": (OSError, lambda broker, _: Broker(data_dir=broker.data_dir).start()),
    "a taken port": (OSError, lambda broker, _: Broker(listen=broker.bootstrap_servers).start()),
    "an unknown topic": (NotFoundError, lambda broker, _: broker.delete_topic("none")),
    "its configuration": (NotFoundError, lambda broker, _: broker.topic_config("none")),
    "its records": (NotFoundError, lambda broker, _: broker.records("none")),
    "its configuration to be": (NotFoundError, lambda broker, _: broker.configure_topic("none", {})),
    "a topic that exists": (ConflictError, lambda broker, _: broker.create_topic("orders")),
    "an invalid name": (OperationError, lambda broker, _: broker.create_topic("a/b")),
    "an unknown key of topics": (OperationError, lambda broker, _: broker.configure_topic("orders", {"none": 1})),
    "an unknown partition": (OperationError, lambda broker, _: broker.produce("orders", "x", partition=9)),
    "records of it": (NotFoundError, lambda broker, _: broker.records("orders", partition=9)),
    "a record too large": (OperationError, lambda broker, _: broker.produce("orders", "x" * 2_000_000)),
    "time back": (OperationError, lambda broker, _: broker.clock.advance(-1)),
    "time as a text": (OperationError, lambda broker, _: broker.clock.advance("2h")),  # type: ignore[arg-type]  # that is it
    "not a compacted topic": (OperationError, lambda broker, _: broker.compact("orders")),
    "a group without members": (OperationError, lambda broker, _: broker.group("none").rebalance()),
    "a group that does not come": (
        WaitTimeoutError,
        lambda broker, _: broker.group("g").wait_until_stable(1, timeout=0),
    ),
    "no record": (WaitTimeoutError, lambda broker, _: broker.expect("orders", timeout=0)),
    "a wrong field": (FaultError, lambda broker, _: broker.fault(apis="Produce")),
    "a wrong fault": (FaultError, lambda broker, _: broker.faults.add(delay_ms=-1)),
    "a directory that is not empty": (ConflictError, lambda broker, path: broker.snapshot(path.parent)),
    "no snapshot": (NotFoundError, lambda broker, path: broker.restore(path)),
    "an unknown broker": (KeyError, lambda broker, _: broker.brokers[9]),
    "a move to an unknown broker": (ClusterError, lambda broker, _: broker.move_leader("orders", 0, to=9)),
    "a move of an unknown partition": (ClusterError, lambda broker, _: broker.move_leader("orders", 9, to=1)),
    "an unknown key": (UserWarning, lambda broker, _: broker.configure({"none": 1})),
    "a key for starts only": (OperationError, lambda broker, _: broker.configure({"broker.rack": "a"})),
    "no authorizer": (OperationError, lambda broker, _: broker.allow("User:a", "read", topic="orders")),
}


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker(topics=["orders"]) as running:
        yield running


@pytest.mark.parametrize("mistake", RAISES)
def test_a_mistake_has_the_error_of_the_page(mistake: str, broker: Broker, tmp_path: Path) -> None:
    error, make = RAISES[mistake]
    with pytest.raises(error):
        make(broker, tmp_path / "none")
