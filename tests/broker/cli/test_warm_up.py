"""`minibroker serve` loads common modules in small steps after its start, and tunes the garbage collector."""

import errno
import importlib.util
import sys
from typing import Final, NoReturn

import pytest

from minibroker.cli import warm_up
from minibroker.cluster.routing.slices import drain
from tests.programs import run_to_success

_LOADING: Final = """
import asyncio, sys
from minibroker.broker import Broker
from minibroker.cli import warm_up
from minibroker.server.requests.endpoints import endpoint
from minibroker.cluster.routing.routes import ROUTES
from minibroker_protocol.lazy_imports import is_loaded
from minibroker_protocol.messages import MODULES

def loaded():
    return {name for name in sys.modules if name.startswith("minibroker") and is_loaded(name)}

async def main():
    async with Broker(listen="127.0.0.1:0") as broker:
        before = loaded()
        print("start", *sorted(before))
        for _ in warm_up.load_modules():
            print("step", *sorted(loaded() - before))
            before = loaded()
        for route in ROUTES:
            if MODULES[route.key] in warm_up._MODULES.split():
                endpoint(int(route.key))
        broker.services.groups, broker.services.transactions
        print("later", *sorted(loaded() - before))

asyncio.run(main())
"""
_COLLECTING: Final = """
import asyncio, gc, sys, time, weakref
from minibroker.broker import Broker
from minibroker.cli.warm_up import warm_up
from minibroker_protocol.lazy_imports import is_loaded

class Node:
    pass

def garbage():
    node = Node()
    node.itself = node
    gc.collect(0)  # it has survived a collection: automatic ones do not look at it soon
    return weakref.ref(node)

async def main():
    gc.disable()  # as `serve` does
    async with Broker(listen="127.0.0.1:0") as broker:
        clock = broker.services.core.clock
        warm_up(broker.services.core)
        print("collects", gc.isenabled())
        print("at once", is_loaded("minibroker.server.handlers.groups"))
        clock.advance(1_000)
        before = gc.get_freeze_count()
        while gc.get_freeze_count() < before + 10_000:
            await asyncio.sleep(0)
        print("soon", is_loaded("minibroker.server.handlers.groups"))
        node = garbage()
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        clock.advance(10_000)
        print("busy", node() is None)
        for _ in range(50):  # other work of a slow machine may take its part of a period
            await asyncio.sleep(0)  # a chore that was cut short goes on in the next turn
            clock.advance(10_000)
            if node() is None:
                break
        print("idle", node() is None)

asyncio.run(main())
"""
_MAX_MODULES_PER_STEP: Final = 60
"""This many modules take about 40 ms."""


def lines_of(program: str) -> list[list[str]]:
    """Return the output of a new process, split into lines and words."""
    completed = run_to_success([sys.executable, "-c", program])
    return [line.split() for line in completed.stdout.splitlines()]


def test_no_step_loads_much_and_most_clients_need_nothing_else() -> None:
    _, *steps, later = lines_of(_LOADING)
    assert later == ["later"]
    loaded = [modules[1:] for modules in steps]
    assert "minibroker.coordinators.groups.coordinator" in {name for names in loaded for name in names}
    assert max(map(len, loaded)) <= _MAX_MODULES_PER_STEP


def test_each_module_that_is_loaded_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that cannot be loaded is skipped silently, so this test checks the list."""
    names: list[str] = []
    monkeypatch.setattr(importlib, "import_module", names.append)
    drain(warm_up.load_modules())
    assert "minibroker.server.handlers.groups" in names
    assert [name for name in names if importlib.util.find_spec(name) is None] == []


def test_what_opens_logs_is_loaded_behind_the_start() -> None:
    lines = lines_of(_LOADING)
    (at_start,) = ([*modules] for kind, *modules in lines if kind == "start")
    behind = {module for kind, *modules in lines if kind == "step" for module in modules}
    log = {"minibroker_storage.log", "minibroker_storage.segment", "minibroker_protocol.records.batch"}
    assert log.isdisjoint(at_start)
    assert log <= behind


def test_garbage_is_collected_while_there_is_nothing_else_to_do() -> None:
    assert lines_of(_COLLECTING) == [
        ["collects", "True"],
        ["at", "once", "False"],
        ["soon", "True"],
        ["busy", "False"],
        ["idle", "True"],
    ]


def test_without_descriptors_a_module_is_left_to_the_first_request(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []

    def failing(name: str) -> NoReturn:
        names.append(name)
        raise OSError(errno.EMFILE, "Too many open files", name)

    monkeypatch.setattr(importlib, "import_module", failing)
    steps = sum(1 for _ in warm_up.load_modules())
    assert len(names) == steps
    assert "minibroker.server.handlers.groups" in names
