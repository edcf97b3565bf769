"""Work in slices: scheduling, order, results, errors and disconnected clients."""

import logging
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.cluster.routing.slices import Slices, Steps, Work, drain
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import Harness, Pending, batch, create_request, fetch_request, produce_request, values_in
from tests.broker.socket_client import SocketClient

MANY = 2500
"""More elements than a request that is decoded immediately has."""


class Turns:
    """An event loop driven by a test, with slices of a single step."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.commits = 0
        self.slices = Slices(self.soon.append, self._commit)
        self.slices.slice_s = 0.0

    def _commit(self) -> None:
        self.commits += 1

    def take_all(self) -> int:
        """Run turns until nothing is left to do, and return their number."""
        turns = 0
        while self.soon:
            self.soon.pop(0)()
            turns += 1
        return turns


def counting(name: str, steps: int, log: list[str]) -> Steps[str]:
    for number in range(steps):
        log.append(f"{name}{number}")
        yield
    return name


def test_work_that_needs_much_memory_waits_until_other_such_work_has_ended() -> None:
    turns, log, results = Turns(), list[str](), list[str]()
    works = [work_of(turns.slices.begin(turns.slices.large(counting(name, 3, log)))) for name in "ab"]
    works.append(work_of(turns.slices.begin(counting("c", 3, log))))
    for work in works:
        work.then(results.append, unexpected)
    turns.slices.slice_s = math.inf  # Work that waits ends its slice even so.
    turns.take_all()
    assert log == ["a0", "c0", "a1", "a2", "b0", "b1", "b2", "c1", "c2"]
    assert results == ["a", "b", "c"]

    turns = Turns()
    log.clear()
    works = [work_of(turns.slices.begin(turns.slices.large(counting(name, 3, log)))) for name in "ab"]
    assert turns.take_all() > 6  # Slices of the second work come between those of the first.
    assert log == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_work_that_fails_or_is_stopped_lets_the_next_large_one_begin() -> None:
    turns, log = Turns(), list[str]()

    def failing() -> Steps[str]:
        yield
        raise OSError

    def stopped() -> Steps[str]:
        yield from counting("s", 3, log)
        return ""

    errors: list[Exception] = []
    work_of(turns.slices.begin(turns.slices.large(failing()))).then(unexpected, errors.append)
    turns.take_all()
    assert len(errors) == 1
    gone = turns.slices.large(stopped())
    next(gone)
    gone.close()
    assert drain(turns.slices.large(counting("d", 1, log))) == "d"


def unexpected(outcome: object) -> None:
    raise AssertionError(outcome)


def work_of(begun: Any) -> Work[Any]:
    assert isinstance(begun, Work)
    return begun


def test_an_error_reaches_the_owner_of_the_work_and_nobody_else() -> None:
    def failing() -> Steps[str]:
        yield from counting("a", 4, log)
        raise ValueError("no")

    turns = Turns()
    log: list[str] = []
    done: list[str] = []
    errors: list[Exception] = []
    work_of(turns.slices.begin(failing())).then(unexpected, errors.append)
    work_of(turns.slices.begin(counting("b", 4, log))).then(done.append, unexpected)
    turns.take_all()
    assert [str(error) for error in errors] == ["no"]
    assert done == ["b"]


def test_a_fault_in_what_comes_after_a_work_does_not_stop_the_others() -> None:
    turns = Turns()
    log: list[str] = []
    done: list[str] = []

    def broken(result: str) -> None:
        raise RuntimeError(result)

    work_of(turns.slices.begin(counting("a", 4, log))).then(broken, unexpected)
    work_of(turns.slices.begin(counting("b", 4, log))).then(done.append, unexpected)
    with pytest.raises(RuntimeError, match="a"):
        turns.take_all()
    turns.take_all()
    assert done == ["b"]


def test_a_stop_ends_works_where_they_have_yielded() -> None:
    def careful() -> Steps[None]:
        try:
            yield from counting("a", 4, log)
        finally:
            log.append("undone")

    turns = Turns()
    log: list[str] = []
    work_of(turns.slices.begin(careful()))
    turns.slices.stop()
    assert log[-1] == "undone"
    turns.take_all()
    assert "a3" not in log


# Requests.


@pytest.fixture
def sliced(tmp_path: Path) -> Iterator[Harness]:
    """Return a broker that runs a single step in each turn."""
    harness = Harness(str(tmp_path))
    harness.create("t", 40)
    harness.core.slices.slice_s = 0.0
    yield harness
    harness.close()


def answered(outcome: Any) -> Any:
    """Return the response of a request that may have been delayed."""
    response = outcome.response if isinstance(outcome, Pending) else outcome
    assert response is not None
    return response


def list_offsets(elements: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(elements)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def test_a_request_of_many_elements_has_the_answer_that_a_small_one_has(sliced: Harness) -> None:
    for version in (1, 7):
        (topic,) = answered(sliced.send(list_offsets(MANY), version)).topics
        (few,) = answered(sliced.send(list_offsets(40), version)).topics
        assert [partition.partition_index for partition in topic.partitions] == list(range(MANY))
        assert topic.partitions[:40] == few.partitions


@pytest.fixture
def served() -> Iterator[Broker]:
    with Broker(topics=["t:40"]) as broker:
        slow_down(broker)
        yield broker


def slow_down(broker: Broker) -> None:
    """Make each step a separate turn."""
    server = broker._asynchronous._server
    assert server is not None
    server.services.core.slices.slice_s = 0.0


def test_others_are_served_while_a_large_request_is(served: Broker) -> None:
    with SocketClient(served.address) as large, SocketClient(served.address) as small:
        number = large.send(list_offsets(20_000), 7)
        behind = large.send(MetadataRequest(topics=[]), 12)
        for _ in range(20):
            assert small.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics[0].error_code == 0
        first, response = large.receive()
        assert first == number
        assert len(response.topics[0].partitions) == 20_000
        assert large.receive()[0] == behind


def test_a_client_that_goes_while_its_request_is_served_leaves_nothing_undone(served: Broker) -> None:
    created = {f"made-{number}" for number in range(50)}
    with SocketClient(served.address) as leaving:
        leaving.send(create_request(*created), 7)
    with SocketClient(served.address) as client:
        # Requests that change the cluster are served in order.
        assert client.ask(create_request("last"), 7).topics[0].error_code == 0
        names = {topic.name for topic in client.ask(MetadataRequest(topics=None), 12).topics}
    assert {"last", *created} <= names


def test_a_request_of_too_many_elements_closes_its_connection(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minibroker")
    config = {"minibroker.request.elements.max": "1500"}
    with Broker(topics=["t:40"], config=config) as broker, SocketClient(broker.address) as client:
        assert len(client.ask(list_offsets(1400), 7).topics[0].partitions) == 1400
        client.send(list_offsets(1600), 7)
        with pytest.raises(ConnectionError):
            client.receive()
    assert any("partitions: 1600 elements are too many" in record.getMessage() for record in caplog.records)


def test_a_fetch_of_many_partitions_is_read_in_slices_and_waits_as_others_do(served: Broker) -> None:
    positions = [("t", index, 0) for index in range(40)] + [("unknown", index, 0) for index in range(400)]
    with SocketClient(served.address) as client, SocketClient(served.address) as producer:
        first = client.ask(fetch_request(*positions, max_wait_ms=0, session_epoch=0), 12)
        results = {
            (topic.topic, partition.partition_index): partition
            for topic in first.responses
            for partition in topic.partitions
        }
        assert len(results) == 440
        assert [results["t", 7].error_code, results["unknown", 7].error_code] == [0, 3]
        client.send(fetch_request(session_id=first.session_id, session_epoch=1, max_wait_ms=300_000), 12)
        assert producer.ask(produce_request(batch(b"x"), "t", 3), 9).responses[0].partition_responses[0].error_code == 0
        _, answer = client.receive()
    records = [partition for topic in answer.responses for partition in topic.partitions if topic.topic == "t"]
    assert [record.partition_index for record in records] == [3]
    assert values_in(records[0].records) == [(0, b"x")]
