"""Listings of the control plane are made in slices: clients of the broker are served in between."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import cast
from unittest.mock import Mock

import pytest
from starlette.responses import StreamingResponse

from minibroker import AsyncBroker, Broker
from minibroker.cluster.routing.slices import Slices, Work
from minibroker.control.models import About, list_answer
from minibroker.operations.records import record_slices
from minibroker_protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.control.http import Control
from tests.broker.socket_client import SocketClient

PARTITIONS = 40
REQUESTS = 120


@pytest.fixture(scope="module")
def large() -> Iterator[Broker]:
    """A broker that does one step in each slice, with more of everything than fits into a step."""
    topics = [f"wide:{PARTITIONS}", "packed", *(f"topic-{number}" for number in range(PARTITIONS))]
    with Broker(control="127.0.0.1:0", journal=True, topics=topics) as broker:
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=0, committed_metadata="")
            for index in range(PARTITIONS)
        ]
        request = OffsetCommitRequest(
            group_id="reader", topics=[OffsetCommitRequestTopic(name="wide", partitions=partitions)]
        )
        client = SocketClient(broker.address)
        for _ in range(REQUESTS):
            client.ask(request, 6)
        client.socket.close()
        broker.services.core.slices.slice_s = 0.0
        yield broker


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Counts the slices that have taken a step of some work."""
    taken: list[object] = []
    run = cast("Callable[[object, float], bool]", getattr(Work, "run"))  # noqa: B009 - pyright does not know its type

    def counted(work: object, slice_s: float) -> bool:
        taken.append(work)
        return run(work, slice_s)

    monkeypatch.setattr(Work, "run", counted)
    return lambda: len(taken)


@pytest.mark.parametrize(
    ("path", "least"),
    [
        ("/metrics", PARTITIONS),
        ("/groups/reader/lag", PARTITIONS),
        ("/requests?api=OffsetCommit", REQUESTS),
        ("/requests?topic=none", REQUESTS // 20),
    ],
)
def test_a_listing_is_made_in_slices(large: Broker, steps: Callable[[], int], path: str, least: int) -> None:
    assert Control(large.control_url).ask("GET", path).status == 200
    assert steps() >= least


def test_requests_are_waited_for_in_slices(large: Broker, steps: Callable[[], int]) -> None:
    found = Control(large.control_url).post("/requests/wait", {"api": "OffsetCommit", "count": REQUESTS})
    assert len(found["requests"]) == REQUESTS
    assert steps() >= REQUESTS


def test_one_topic_is_described_without_the_others(large: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Mock(side_effect=Slices.begin, autospec=True)
    monkeypatch.setattr(Slices, "begin", begin)
    control = Control(large.control_url)
    assert control.get("/topics/wide")["partitions"] == PARTITIONS
    assert control.post("/topics", {"prefix": "fresh"}, 201)["partitions"] == 1
    begin.assert_not_called()


async def test_a_large_batch_is_unpacked_in_steps() -> None:
    async with AsyncBroker(topics=["packed"]) as broker:
        await broker.produce("packed", bytes(4 << 20), codec="gzip")
        topic = broker.services.core.topics.get("packed")
        assert topic is not None
        partition = topic.partitions[0]
        sizes = [len(each) async for each in record_slices(broker.services, partition, 0, 1, committed=True)]
    assert sum(sizes) == 1
    assert sizes.index(1) > 1


class Listing(About):
    """A body with a list."""

    count: int
    elements: list[int]


class Bare(About):
    """A body of a list alone."""

    elements: list[int]


@pytest.mark.parametrize("count", [0, 1, 2, 100, 101, 1000])
@pytest.mark.parametrize(
    "about", [Listing(count=7, elements=[]), Bare(elements=[])], ids=lambda about: type(about).__name__
)
async def test_a_list_is_sent_in_parts(about: About, count: int) -> None:
    answer = list_answer(about, "elements", [b"%d" % number for number in range(count)])
    assert isinstance(answer, StreamingResponse)
    parts = [each async for each in cast("AsyncIterator[bytes]", answer.body_iterator)]
    body = b"".join(parts)
    assert json.loads(body) == {**about.model_dump(), "elements": list(range(count))}
    assert answer.headers["Content-Length"] == str(len(body))
    assert max(map(len, parts)) < 500


def test_other_threads_are_let_in_while_records_are_encoded(large: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    large.produce("topic-0", *map(str, range(120)))
    sleep = Mock(side_effect=asyncio.sleep)
    monkeypatch.setattr("minibroker.control.routes.records.asyncio", Mock(sleep=sleep))
    control = Control(large.control_url)
    values = [str(number) for number in range(120)]
    assert [each["value"] for each in control.get("/topics/topic-0/records")["records"]] == values
    assert sleep.call_count == 2
    waited = control.post("/topics/topic-0/records/wait", {"count": 120})
    assert [each["value"] for each in waited["records"]] == values
    assert sleep.call_count == 4
