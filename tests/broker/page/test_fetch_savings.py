"""The bytes saved by fetch sessions, compared with the sizes of full fetches on the wire."""

from collections.abc import Iterator
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.control.http import Control
from tests.broker.socket_client import SocketClient, address_of

PARTITIONS: Final = 40
OF_A_SESSION: Final = 3
"""The partition that gets a record."""


@pytest.fixture(scope="module")
def client() -> Iterator[tuple[SocketClient, Control]]:
    """Yield a connection to a broker, and a client of its page."""
    with (
        Broker(page=True, topics=[f"orders:{PARTITIONS}"]) as broker,
        SocketClient(address_of(broker.bootstrap_servers)) as connected,
    ):
        yield connected, Control(broker.page_url)


def fetched(topic: dict[str, Any], offsets: dict[int, int], session: int = 0, epoch: int = -1) -> FetchRequest:
    """Return a request for partitions with their fetch offsets."""
    parts = [FetchPartition(partition=at, fetch_offset=start, partition_max_bytes=999) for at, start in offsets.items()]
    topics = [FetchTopic(**topic, partitions=parts)] if parts else []
    return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session, session_epoch=epoch, topics=topics)


def sizes(page: Control) -> tuple[int, int]:
    """Return the sizes of the newest request and its response."""
    last = page.get("/data/requests")["last"]
    (row,) = page.get(f"/data/requests/rows?first={last}&last={last}")["rows"]
    assert row["api"] == "Fetch"
    return row["bytes_in"], row["bytes_out"]


@pytest.mark.parametrize("version", [7, 12, 13, 18])
def test_a_session_saves_what_full_fetches_would_have_taken(client: tuple[SocketClient, Control], version: int) -> None:
    socket_client, page = client
    metadata_request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    topic: dict[str, Any] = {"topic": "orders"}
    if version >= 13:
        topic = {"topic_id": bytes(socket_client.ask(metadata_request, 12).topics[0].topic_id)}
    everything = dict.fromkeys(range(PARTITIONS), 0)
    session = socket_client.ask(fetched(topic, everything, epoch=0), version).session_id
    savings = {each["id"]: each["savings"] for each in page.get("/data/state")["sessions"]}
    assert savings[session] == {"fetches": 0, "full_bytes": 0, "saved_bytes": 0}
    saved = 0
    for epoch, changed in enumerate(({}, {OF_A_SESSION: 99}, {}, {5: 0, OF_A_SESSION: 0}), start=1):
        answer = socket_client.ask(fetched(topic, changed, session, epoch), version)
        # An offset out of range is the only thing that every response repeats.
        parts = [part.partition_index for topic_response in answer.responses for part in topic_response.partitions]
        assert parts == ([] if epoch == 1 else [OF_A_SESSION])
        incremental = sizes(page)
        socket_client.ask(fetched(topic, everything), version)
        saved += sum(sizes(page)) - sum(incremental)
    last_savings = {each["id"]: each["savings"] for each in page.get("/data/state")["sessions"]}[session]
    assert (last_savings["fetches"], last_savings["saved_bytes"]) == (4, saved)
    assert saved > last_savings["full_bytes"] / 2
