"""A cleaning in a separate process: its result, its end, and a broker that stops meanwhile."""

import asyncio
import errno
import os
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest

from minibroker import Broker
from minibroker.broker.asynchronous import AsyncBroker
from minibroker.cluster.logs.log_cleaner import start_cleaning
from minibroker_protocol.records.builder import build_batch
from minibroker_protocol.records.record import NewRecord
from minibroker_storage.cleaner import (
    CleaningAbortedError,
    CleaningPlan,
    CleaningResult,
    finish_cleaning,
    plan_cleaning,
)
from minibroker_storage.log import Log
from tests.broker.harness import Harness, fetch_request, only_partition, produce_request, values_in
from tests.broker.socket_client import SocketClient
from tests.patience import PATIENCE_S

ROUNDS = 10


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Queue[Process]":
    """Return a queue of the started processes."""
    started: asyncio.Queue[Process] = asyncio.Queue()
    real = asyncio.create_subprocess_exec

    async def starting(*arguments: Any, **options: Any) -> Process:
        process = await real(*arguments, **options)
        started.put_nowait(process)
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", starting)
    return started


def record(number: int) -> bytearray:
    return build_batch([NewRecord(b"key", b"%d" % number, 1_700_000_000_000)])


@pytest.fixture
def log(harness: Harness) -> Log:
    """Return a log of several segments in which only the newest record is needed."""
    harness.create("c", 1, cleanup_policy="compact", segment_bytes="200")
    for number in range(ROUNDS):
        assert harness.produce(record(number), "c").error_code == 0
    return harness.topic("c").partitions[0].log


def plan_of(log: Log, bytes_per_second: float | None = None) -> CleaningPlan:
    plan = plan_cleaning(log, None, 1_700_000_000_000, force=True, io_bytes_per_second=bytes_per_second)
    assert plan is not None
    return plan


async def test_the_result_comes_back(harness: Harness, log: Log) -> None:
    outcomes: list[CleaningResult | BaseException] = []
    await asyncio.wait_for(start_cleaning(plan_of(log), outcomes.append), PATIENCE_S)
    (result,) = outcomes
    assert isinstance(result, CleaningResult)
    before = log.size
    finish_cleaning(log, result)
    assert log.size < before


async def test_a_failure_comes_back(log: Log) -> None:
    outcomes: list[CleaningResult | BaseException] = []
    plan = plan_of(log)._replace(directory="/dev/null")
    (outcome,) = await asyncio.gather(start_cleaning(plan, outcomes.append), return_exceptions=True)
    assert isinstance(outcome, OSError)
    assert outcome.errno == errno.ENOTDIR
    assert outcomes == [outcome]


async def test_it_can_be_ended(harness: Harness, log: Log, processes: "asyncio.Queue[Process]") -> None:
    outcomes: list[CleaningResult | BaseException] = []
    task = start_cleaning(plan_of(log, 0.001), outcomes.append)
    process = await asyncio.wait_for(processes.get(), PATIENCE_S)
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE_S)
    assert process.returncode is not None
    assert [type(outcome) for outcome in outcomes] == [CleaningAbortedError]


async def test_it_can_be_ended_before_it_has_begun(log: Log) -> None:
    outcomes: list[CleaningResult | BaseException] = []
    task = start_cleaning(plan_of(log), outcomes.append)
    task.cancel()
    await asyncio.wait({task}, timeout=PATIENCE_S)
    assert [type(outcome) for outcome in outcomes] == [CleaningAbortedError]


def produce(broker: Broker | AsyncBroker, client: SocketClient) -> None:
    for number in range(ROUNDS):
        client.ask(produce_request(record(number), "c"), 9)


def fetched(broker: Broker | AsyncBroker) -> list[tuple[int, bytes | None]]:
    with SocketClient(broker.address) as client:
        return values_in(only_partition(client.ask(fetch_request(("c", 0, 0)), 12)).records)


def filled(broker: Broker | AsyncBroker) -> None:
    with SocketClient(broker.address) as client:
        produce(broker, client)


async def test_a_broker_cleans_its_logs(tmp_path: Path) -> None:
    async with Broker(data_dir=str(tmp_path), topics=["c:1:cleanup.policy=compact,segment.bytes=200"]) as broker:
        await asyncio.to_thread(filled, broker)
        done = asyncio.Event()
        broker.services.core.logs.compact(roll=True, then=done.set)
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        assert await asyncio.to_thread(fetched, broker) == [(ROUNDS - 1, b"%d" % (ROUNDS - 1))]


async def test_a_stop_ends_the_process(tmp_path: Path, processes: "asyncio.Queue[Process]") -> None:
    config = {"log.cleaner.backoff.ms": "10", "log.cleaner.io.max.bytes.per.second": "0.001"}
    topics = ["c:1:cleanup.policy=compact,segment.bytes=200"]
    async with Broker(data_dir=str(tmp_path), topics=topics, config=config) as broker:
        await asyncio.to_thread(filled, broker)
        process = await asyncio.wait_for(processes.get(), PATIENCE_S)
        ended = [process.returncode is not None]
    assert [*ended, process.returncode is not None] == [False, True]
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    async with Broker(data_dir=str(tmp_path)) as broker:
        assert len(await asyncio.to_thread(fetched, broker)) > 0
    assert not [name for name in os.listdir(tmp_path / "c-0") if name.endswith(".cleaned")]
