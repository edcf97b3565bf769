"""The broker's methods for its own event loop, and their blocking forms for other threads."""

import asyncio
import inspect
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import greenlet  # type: ignore[import-untyped]  # it has no types
import pytest

import minibroker.broker
from minibroker import AsyncBroker, Broker, WaitTimeoutError
from minibroker.operations import asynchronous, asynchronous_handles, asynchronous_trials, blocking
from minibroker.operations.asynchronous import AsyncOperations

ROOT = Path(__file__).parents[3]
TYPES = Path(__file__).with_name("facade_types.py")
BIN = Path(sys.executable).parent
ON_THE_LOOP_ALONE = {"make_topics", "__init__", "__del__", "__enter__", "__exit__"}
"""Methods of the asynchronous classes without a blocking form."""
ENTERED = {"__aenter__": "__enter__", "__aexit__": "__exit__"}


def blocking_class(cls: type) -> type:
    if cls is AsyncOperations:
        return Broker
    blocking_type: type = getattr(blocking, cls.__name__.removeprefix("Async"))
    return blocking_type


ASYNCHRONOUS = [
    each
    for module in (asynchronous, asynchronous_handles, asynchronous_trials)
    for name, each in inspect.getmembers(module, inspect.isclass)
    if each.__module__ == module.__name__ and name.startswith("Async")
]


@pytest.mark.parametrize("cls", ASYNCHRONOUS, ids=lambda each: each.__name__)
def test_every_method_for_the_loop_has_a_blocking_form(cls: type) -> None:
    methods = {
        name: each
        for name, each in vars(cls).items()
        if (inspect.isfunction(each) or isinstance(each, property))
        and name not in ON_THE_LOOP_ALONE
        and (name.startswith("__") or not name.startswith("_"))
    }
    assert methods
    blocking = blocking_class(cls)
    for name, each in methods.items():
        counterpart = inspect.getattr_static(blocking, ENTERED.get(name, name))
        if not inspect.iscoroutinefunction(each):
            assert type(counterpart) is type(each), name
            continue
        assert not inspect.iscoroutinefunction(counterpart), name
        assert counterpart.__doc__ == each.__doc__
        assert inspect.signature(counterpart) == inspect.signature(each)
        assert counterpart.__name__ in {name, ENTERED.get(name)}


def test_help_shows_the_arguments_and_the_documentation_of_a_method() -> None:
    text = pydoc.plain(pydoc.render_doc(Broker.produce))
    assert "\nproduce(self, topic: str, *values:" in text
    assert "Append records without a client; return the partition and offset of each." in text


def test_a_mistake_in_the_arguments_is_named_and_nothing_runs() -> None:
    with Broker() as broker:
        ask: Any = broker
        with pytest.raises(TypeError, match=r"create_topic\(\) got an unexpected keyword argument 'replicas'"):
            ask.create_topic("t", replicas=1)
        with pytest.raises(TypeError, match=r"produce\(\) missing 1 required positional argument: 'topic'"):
            ask.produce()
        assert broker.topics() == {}


def complaints(*command: str | Path) -> str:
    """Run a type checker, and return its output if it finds errors."""
    environment = {**os.environ, "PYRIGHT_PYTHON_GLOBAL_NODE": "0"}
    checked = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return checked.stdout + checked.stderr if checked.returncode else ""


@pytest.mark.torture
def test_mypy_sees_the_signatures() -> None:
    assert complaints(BIN / "mypy", TYPES) == ""


@pytest.mark.slow
def test_pyright_sees_the_signatures(tmp_path: Path) -> None:
    path = tmp_path / TYPES.name
    # pyright would also read mypy's comments, and report its own as unnecessary.
    path.write_text(re.sub(r"# type: ignore\[[^]]+\]", "", TYPES.read_text(encoding="utf-8")), encoding="utf-8")
    assert complaints(BIN / "pyright", "--pythonpath", sys.executable, path) == ""


def test_both_are_given_the_same_arguments() -> None:
    assert inspect.signature(Broker) == inspect.signature(AsyncBroker)


async def test_on_the_callers_loop_they_are_awaited() -> None:
    async with Broker(topics=["t"]) as broker:
        await broker.produce("t", {"id": 1})
        assert [each.json() for each in await broker.records("t")] == [{"id": 1}]
        assert (await broker.wait_for("t"))[0].offset == 0
        assert (await broker.group("g").describe()).state == "Dead"
        await broker.clock.advance(10)
        assert await broker.retention.run() == 0
        assert list(await broker.topics()) == ["t"]


def test_nothing_can_be_asked_of_a_broker_that_does_not_run() -> None:
    broker = Broker()
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.topics()
    broker.start()
    with pytest.raises(RuntimeError, match="the broker is running"):
        broker.start()
    assert broker.topics() == {}
    broker.stop()
    broker.stop()
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.topics()


async def test_the_methods_of_a_broker_on_the_callers_loop_are_those_of_what_async_with_gives() -> None:
    broker = Broker()
    async with broker as kafka:
        assert (broker.is_running, kafka.is_running) == (True, True)
        with pytest.raises(RuntimeError, match=r"`async with broker as kafka: await kafka\.produce"):
            broker.produce("t", "x")
        with pytest.raises(RuntimeError, match="the broker is running"):
            broker.start()
        with pytest.raises(RuntimeError, match="the broker is running"):
            await kafka.start()
        assert broker.bootstrap_servers == kafka.bootstrap_servers
    assert not broker.is_running
    with broker, pytest.raises(RuntimeError, match="the broker is running"):
        await broker.__aenter__()


def test_an_async_broker_says_that_it_takes_async_with() -> None:
    with (
        pytest.raises(TypeError, match=r"`async with AsyncBroker\(\)`; for `with` there is `Broker\(\)`"),
        AsyncBroker(),
    ):
        raise AssertionError("it was entered")


async def test_a_call_that_holds_up_a_running_loop_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibroker.broker, "_CHECK_INTERVAL_S", 0.01)
    with Broker() as broker:
        with (
            pytest.warns(RuntimeWarning, match="this thread runs an event loop") as caught,
            pytest.raises(WaitTimeoutError, match=r"(?s)no topic 'orders'.*await asyncio\.to_thread\(kafka\.expect"),
        ):
            broker.expect("orders", timeout=1)  # This allows one check even on a busy machine.
        assert [warning.filename for warning in caught] == [__file__]
        monkeypatch.undo()  # On a busy machine, a call that need not wait can take longer.
        broker.produce("orders", "x")
        assert broker.expect("orders", "x").offset == 0  # A call that need not wait issues no warning.
        with pytest.raises(WaitTimeoutError) as late:
            await asyncio.to_thread(broker.expect, "orders", "y", timeout=0.3)
        assert "event loop" not in str(late.value)


def test_a_loop_that_waits_on_a_stack_of_its_own_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minibroker.broker, "_CHECK_INTERVAL_S", 0.01)
    loop = asyncio.new_event_loop()
    stack = greenlet.greenlet(loop.run_forever)  # Playwright's synchronous API does the same.
    loop.call_soon(greenlet.getcurrent().switch)
    stack.switch()
    assert asyncio.get_running_loop() is loop
    try:
        with Broker() as broker, pytest.raises(WaitTimeoutError) as late:
            broker.expect("orders", timeout=1)
        assert "event loop" not in str(late.value)
    finally:
        loop.stop()
        stack.switch()
        loop.close()


def test_its_own_thread_cannot_wait_for_itself() -> None:
    with Broker() as broker:

        async def ask() -> None:
            broker.topics()

        with pytest.raises(RuntimeError, match="the broker's own thread"):
            broker.wait(ask())
