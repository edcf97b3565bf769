"""Operations on faults and on the journal."""

import gc
import inspect

import pytest
from confluent_kafka import Producer

from minibroker import AsyncBroker, Broker, Fault, MinibrokerWarning, WaitTimeoutError
from minibroker.server.faults.fault import FaultError
from tests.patience import PATIENCE_S


def produce(broker: Broker, value: bytes = b"x") -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "c"})
    producer.produce("t", value)
    assert producer.flush(PATIENCE_S) == 0


def test_a_fault_within_a_block() -> None:
    with Broker(topics=["t"], journal=True) as broker:
        with broker.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=2) as fault:
            produce(broker)
        assert fault.fired == 2
        assert broker.faults.list() == ()
        entries = broker.requests.entries(api="Produce")
        assert [sorted(code.name for code in request.error_codes) for request in entries] == [
            ["NOT_LEADER_OR_FOLLOWER"], ["NOT_LEADER_OR_FOLLOWER"], [],
        ]  # fmt: skip
        assert [request.fault for request in entries] == [fault, fault, None]


def test_an_expectation_in_vain_names_the_faults_that_have_hit_requests() -> None:
    with Broker(topics=["t"]) as broker:
        broker.faults.add(api="Produce", delay_ms=1, times=1)
        broker.faults.add(api="Fetch", error="UNKNOWN_SERVER_ERROR")
        produce(broker)
        with pytest.raises(WaitTimeoutError) as raised:
            broker.expect("t", b"other", timeout=0)
    lines = str(raised.value).splitlines()
    assert lines[-1] == "Fault(api='Produce', times=1, delay_ms=1) has hit 1 request"
    assert "Fetch" not in str(raised.value)


def test_faults_are_added_listed_and_removed() -> None:
    with Broker(topics=["t"]) as broker:
        first = broker.faults.add(api="Produce", delay_ms=1, times=1)
        second = broker.faults.add(Fault(api="Fetch", error="UNKNOWN_SERVER_ERROR"))
        assert broker.faults.list() == (first, second)
        produce(broker)
        assert first.fired == 1
        assert (broker.faults.remove(first), broker.faults.remove(first)) == (True, False)
        broker.faults.clear()
        assert broker.faults.list() == ()
        broker.faults.add(api="Produce", black_hole=True)
        broker.reset()
        assert broker.faults.list() == ()
        with pytest.raises(FaultError, match=r"api: 'Product' is not an API of Kafka; did you mean Produce\?"):
            broker.fault(api="Product", error=1)
        with pytest.raises(FaultError, match="foo: there is no such field"):
            broker.fault(foo=1)


def test_waiting_for_requests() -> None:
    with Broker(topics=["t"], journal=100, timeout=PATIENCE_S) as broker:
        produce(broker)
        (entry,) = broker.wait_for_requests(api="Produce", topic="t", client_id="c")
        assert (entry.api, entry.is_answered, entry.topics) == ("Produce", True, frozenset({"t"}))
        with pytest.raises(
            WaitTimeoutError, match=r"expected 1 request \(group='g'\) within 0 s, found 0; all requests "
        ):
            broker.wait_for_requests(group="g", timeout=0)
        broker.reset()
        assert len(broker.requests) == 0


def test_a_broker_without_a_journal_says_so() -> None:
    with Broker() as broker, pytest.raises(RuntimeError, match="keeps no journal of requests"):
        broker.requests.entries()
    with pytest.raises(ValueError, match="journal: -1 is below 0"):
        Broker(journal=-1)


async def test_faults_on_the_callers_loop() -> None:
    async with Broker(topics=["t"]) as broker:
        with pytest.warns(MinibrokerWarning, match="has hit no request"):
            async with broker.fault(api="Fetch", delay_ms=1) as fault:
                assert await broker.faults.list() == (fault,)
        assert await broker.faults.list() == ()


def line_here() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_a_fault_without_a_block_is_a_warning_with_its_line() -> None:
    with Broker() as broker:
        line = line_here() + 2
        with pytest.warns(MinibrokerWarning, match=r"'Produce', drop='before'\) was made and never") as caught:
            broker.fault(api="Produce", drop="before")
        assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)]
        assert broker.faults.list() == ()
        line = line_here() + 1
        contexts = [broker.fault(api="Fetch", drop="after")]
        with pytest.warns(MinibrokerWarning, match=r"broker\.faults\.add") as caught:
            contexts.clear()
        assert [warning.lineno for warning in caught] == [line]
        later = broker.fault(api="Fetch", drop="after")
        with pytest.warns(MinibrokerWarning, match="has hit no request"), later:
            assert len(broker.faults.list()) == 1
        del later
        gc.collect()  # A warning would raise an error here.


async def test_a_fault_of_an_async_broker_takes_async_with() -> None:
    async with AsyncBroker() as broker:
        with pytest.warns(MinibrokerWarning, match="with an AsyncBroker `async with`") as caught:
            broker.fault(api="Produce", drop="before")
        assert [warning.filename for warning in caught] == [__file__]
        with pytest.raises(TypeError, match=r"`async with broker\.fault"), broker.fault(api="Produce", drop="before"):
            raise AssertionError("it was entered")
        with pytest.warns(MinibrokerWarning, match="has hit no request"):
            async with broker.fault(api="Produce", drop="before"):
                assert len(await broker.faults.list()) == 1
