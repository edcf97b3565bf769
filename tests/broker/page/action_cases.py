"""The actions of the Do view with filled forms, the state that they require, and the expected result."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from minibroker import Broker
from tests.broker.control.http import Control

VALUE: Final = """it's "so" <b>$HOME</b>"""


class Case(NamedTuple):
    """A filled form.

    `before` prepares the broker. `after` returns a state of the broker, which must equal `expected` no matter which
    line performed the action. `{directory}` in a field is replaced with a directory that does not exist yet.
    """

    name: str
    fields: dict[str, str]
    expected: Any
    after: Callable[[Broker, str, Path], Any]
    before: Callable[[Broker], Any] = lambda _: None
    has_tool: bool = False

    def filled(self, directory: Path) -> dict[str, str]:
        """Return the fields with their values."""
        return {name: value.format(directory=directory) for name, value in self.fields.items()}


def cleared(broker: Broker) -> None:
    """Reset a broker to the state in which each case starts."""
    broker.reset()
    page = Control(broker.page_url)
    for snapshot in page.get("/control/snapshots")["snapshots"]:
        page.delete(f"/control/snapshots/{snapshot['name']}")


def _read(broker: Broker, *_: object) -> list[tuple[Any, ...]]:
    return [(record.key, record.value, list(record.headers), record.codec) for record in broker.records("orders")]


def _three_records(broker: Broker) -> None:
    for number in range(3):
        broker.produce("orders", f"value-{number}", partition=1)


def _words(_: Broker, output: str, __: Path) -> list[bool]:
    """Return whether each value occurs in the printed output."""
    return [f"value-{number}" in output for number in range(3)]


def _topic(broker: Broker, *_: object) -> tuple[int, dict[str, str]]:
    topic = broker.topics()["made"]
    return topic.partitions, dict(topic.configs)


def _faults(broker: Broker, *_: object) -> list[dict[str, Any]]:
    return [fault.to_json() for fault in broker.faults.list()]


def _save(broker: Broker) -> None:
    broker.produce("orders", "saved", partition=0)
    Control(broker.page_url).post("/control/snapshots", {"name": "one"}, status=201)
    broker.reset()


def _is_later(broker: Broker, *_: object) -> bool:
    return broker.clock.now_ms() > time.time() * 1000 + 3_000_000


CASES: Final = (
    Case(
        "produce",
        {"topic": "orders", "value": VALUE, "key": "k 1", "headers": "a=1\nb=2", "codec": "gzip"},
        [(b"k 1", VALUE.encode(), [("a", b"1"), ("b", b"2")], "gzip")],
        _read,
        has_tool=True,
    ),
    Case("produce", {"topic": "orders", "key": "gone"}, [(b"gone", None, [], "none")], _read, has_tool=True),
    Case(
        "produce",
        {"topic": "orders", "value": "there", "partition": "1", "timestamp": "17"},
        [(1, 17, b"there")],
        lambda broker, *_: [(record.partition, record.timestamp, record.value) for record in broker.records("orders")],
    ),
    Case(
        "read_records",
        {"topic": "orders", "partition": "1", "start": "1", "limit": "1"},
        [False, True, False],
        _words,
        _three_records,
        has_tool=True,
    ),
    Case("read_records", {"topic": "orders"}, [True, True, True], _words, _three_records, has_tool=True),
    Case(
        "create_topic",
        {"name": "made", "partitions": "3", "replication_factor": "2", "configs": "retention.ms=60000"},
        (3, {"retention.ms": "60000"}),
        _topic,
        has_tool=True,
    ),
    Case(
        "move_leader",
        {"topic": "orders", "partition": "0", "node_id": "3"},
        3,
        lambda broker, *_: broker.leader("orders", 0),
        lambda broker: broker.move_leader("orders", 0, 1),
        has_tool=True,
    ),
    Case("stop_broker", {"node_id": "2"}, False, lambda broker, *_: broker.brokers[2].is_up),
    Case(
        "start_broker",
        {"node_id": "2"},
        True,
        lambda broker, *_: broker.brokers[2].is_up,
        lambda broker: broker.brokers[2].stop(),
    ),
    Case("advance_clock", {"seconds": "3600.5"}, True, _is_later),
    Case(
        "add_fault",
        {"api": "Produce", "versions": "3+", "error": "NOT_ENOUGH_REPLICAS", "times": "2", "delay_ms": "1.5"},
        [{"api": "Produce", "versions": "3+", "error": "NOT_ENOUGH_REPLICAS", "times": 2, "delay_ms": 1.5}],
        _faults,
    ),
    Case("add_fault", {"black_hole": "true", "api": "Fetch"}, [{"black_hole": True, "api": "Fetch"}], _faults),
    Case("clear_faults", {}, [], _faults, lambda broker: broker.faults.add(api="Fetch", delay_ms=1)),
    Case("reset", {}, [], _read, lambda broker: broker.produce("orders", "1")),
    Case(
        "reset",
        {"keep_topics": "true"},
        True,
        lambda broker, *_: "kept" in broker.topics(),
        lambda broker: broker.create_topic("kept"),
    ),
    Case(
        "take_snapshot",
        {"name": "a/b", "directory": "{directory}"},
        True,
        lambda _, __, directory: any(directory.iterdir()),
    ),
    Case(
        "restore_snapshot",
        {"name": "one"},
        [b"saved"],
        lambda broker, *_: [record.value for record in broker.records("orders")],
        _save,
    ),
)


IDS: Final = [f"{number}-{case.name}" for number, case in enumerate(CASES)]
