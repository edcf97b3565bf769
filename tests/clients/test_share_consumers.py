"""Share consumers (KIP-932) of Java and franz-go: deliveries, acknowledgements, locks, wake-ups, kills."""

import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest

from minibroker import Broker
from tests.clients import go_programs
from tests.clients.java_programs import share_command
from tests.clients.line_process import Event, LineProcess
from tests.patience import PATIENCE_S
from tests.programs import module_command
from tests.sweeps import one_in

_GROUP: Final = "sharers"
_EXPLICIT: Final = "explicit"
_FRANZ_GO: Final = "franz-go"
_WAIT_MS: Final = int(PATIENCE_S * 1000)


class Sharer(LineProcess):
    """A `Sharer.java`, or the program `sharer` of franz-go, each of which answers a line with an event."""

    def __init__(self, bootstrap: str, topic: str, mode: str) -> None:
        program = go_programs.command("sharer") if mode == _FRANZ_GO else share_command("Sharer")
        super().__init__([*program, bootstrap, _GROUP, topic, mode])

    def tell(self, line: str) -> Event:
        """Have a line served; returns the event."""
        self.send(line)
        return self.answer()

    def poll(self, wait_ms: int = _WAIT_MS) -> list[tuple[int, str, int]]:
        """Offset, value and number of deliveries of what a poll brings."""
        return [tuple(each) for each in self.tell(f"poll {wait_ms}")["records"]]

    def acknowledge(self, kind: str, *offsets: int) -> None:
        assert self.tell(f"acknowledge {kind} {' '.join(map(str, offsets))}")["event"] == "acknowledged"

    def commit(self) -> None:
        """Commit what was acknowledged; there is no error."""
        assert self.tell("commit") == {"event": "committed", "partitions": 1, "errors": []}


Start = Callable[..., Sharer]


@contextmanager
def sharers(topic: str) -> Generator[Start]:
    """A function that starts members of the group."""
    with ExitStack() as ends:

        def start(bootstrap: str, mode: str = _EXPLICIT) -> Sharer:
            sharer = Sharer(bootstrap, topic, mode)
            ends.callback(sharer.close)
            return sharer

        yield start


def from_the_start(bootstrap: str, *more: str) -> None:
    """Have the group begin with the first records, and have more settings."""
    group = ("--entity-type", "groups", "--entity-name", _GROUP)
    setting = ("--add-config", ",".join(("share.auto.offset.reset=earliest", *more)))
    command = [*module_command("minibroker_tools"), "kafka-configs", "--bootstrap-server", bootstrap, "--alter"]
    subprocess.run([*command, *group, *setting], check=True, capture_output=True, timeout=PATIENCE_S)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker whose clock can be moved on."""
    with Broker() as made:
        from_the_start(made.bootstrap_servers, "share.record.lock.duration.ms=15000")
        yield made


@pytest.mark.torture
def test_a_share_consumer_gets_records_and_acknowledges_them(broker: Broker) -> None:
    broker.produce("implicit", "a", "b", "c")
    with sharers("implicit") as start:
        consumer = start(broker.bootstrap_servers, "implicit")
        assert consumer.poll() == [(0, "a", 1), (1, "b", 1), (2, "c", 1)]
        consumer.commit()
        broker.produce("implicit", "d")
        assert consumer.poll() == [(3, "d", 1)]
        consumer.end()
        after = start(broker.bootstrap_servers, "implicit")
        broker.produce("implicit", "e")
        assert after.poll() == [(3, "d", 2), (4, "e", 1)], "what no poll has acknowledged was given back"
        assert after.tell("wakeup") == {"event": "woken"}
        assert after.tell("poll 0") == {"event": "wakeup"}
        after.end()


@pytest.mark.parametrize("mode", [pytest.param(_EXPLICIT, marks=pytest.mark.torture), _FRANZ_GO])
def test_a_share_consumer_acknowledges_each_record_by_itself(broker: Broker, mode: str) -> None:
    topic = f"each-{mode}"
    broker.produce(topic, "a", "b", "c")
    with sharers(topic) as start:
        consumer = start(broker.bootstrap_servers, mode)
        assert [value for _, value, _ in consumer.poll()] == ["a", "b", "c"]
        consumer.acknowledge("ACCEPT", 0)
        consumer.acknowledge("RELEASE", 1)
        consumer.acknowledge("REJECT", 2)
        consumer.commit()
        assert consumer.poll() == [(1, "b", 2)], "again, and counted"
        consumer.end()
        broker.produce(topic, "d")
        assert start(broker.bootstrap_servers, mode).poll() == [(1, "b", 3), (3, "d", 1)], "closing gave it back"


@pytest.mark.parametrize(
    ("mode", "error"), one_in(2, [(_FRANZ_GO, "INVALID_RECORD_STATE"), (_EXPLICIT, "InvalidRecordStateException")])
)
def test_a_lock_ends_unless_it_is_renewed(broker: Broker, mode: str, error: str) -> None:
    topic = f"locks-{mode}"
    broker.produce(topic, "a")
    with sharers(topic) as start:
        slow, quick = start(broker.bootstrap_servers, mode), start(broker.bootstrap_servers, mode)
        assert slow.poll() == [(0, "a", 1)]
        broker.clock.advance(8)
        slow.acknowledge("RENEW", 0)
        slow.commit()
        if mode == _EXPLICIT:
            assert slow.poll() == [(0, "a", 1)], "Java's client gives it once more before another acknowledgement"
        broker.clock.advance(8)
        broker.produce(topic, "b")
        assert quick.poll() == [(1, "b", 1)], "the first record is still locked"
        broker.clock.advance(8)
        quick.acknowledge("RELEASE", 1)
        quick.commit()
        assert quick.poll() == [(0, "a", 2), (1, "b", 2)]
        slow.acknowledge("ACCEPT", 0)
        committed = slow.tell("commit")
        assert len(committed["errors"]) == 1
        assert error in committed["errors"][0]
        if mode == _EXPLICIT:
            assert slow.tell("heard")["answers"] == [[[0], ""], [[0], error]]


@pytest.mark.torture
def test_records_of_a_member_that_has_died_go_to_another_one(broker: Broker) -> None:
    broker.produce("deaths", "a")
    with sharers("deaths") as start:
        doomed = start(broker.bootstrap_servers)
        assert doomed.poll() == [(0, "a", 1)]
        other = start(broker.bootstrap_servers)
        doomed.kill()
        assert other.poll() == [(0, "a", 2)]
