"""Reads whole logs over the wire, and looks moments up in them."""

import random
from typing import Final

from minibroker_protocol.messages.fetch import PartitionData
from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import bytes_in, fetch_request, only_partition
from tests.broker.socket_client import SocketClient
from tests.torture.ledger import Ledger, View

_EARLIEST: Final = -2
_OFFSET_OUT_OF_RANGE: Final = 1
_MOMENTS: Final = 3
"""Look-ups by time for each partition at each verification."""


def new_producer_id(client: SocketClient) -> int:
    """An id that was never in use."""
    response = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
    assert (response.error_code, response.producer_epoch) == (0, 0)
    producer_id: int = response.producer_id
    return producer_id


def list_offsets(client: SocketClient, ledger: Ledger, timestamp: int) -> tuple[int, int]:
    """(offset, timestamp) that the broker answers for a moment, or for -1 (the end) or -2 (the start)."""
    partition = ListOffsetsPartition(partition_index=ledger.partition, timestamp=timestamp)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=ledger.topic.name, partitions=[partition])])
    (topic,) = client.ask(request, 7).topics
    (answer,) = topic.partitions
    if answer.error_code:
        raise ledger.fail(f"ListOffsets for {timestamp}: error {answer.error_code}")
    return answer.offset, answer.timestamp


def read_log(client: SocketClient, ledger: Ledger) -> View:
    """All of a partition, from its start to its end."""
    while True:
        start, _ = list_offsets(client, ledger, _EARLIEST)
        chunks: list[bytes] = []
        offset = start
        while True:
            data = _fetch(client, ledger, offset)
            if data.error_code == _OFFSET_OUT_OF_RANGE and ledger.topic.start_moves:
                break  # the log's start has moved on meanwhile
            if data.error_code:
                raise ledger.fail(f"Fetch from offset {offset}: error {data.error_code}")
            chunk = bytes_in(data)
            batches = list(iter_batches(chunk))
            if not batches:
                if chunk or (offset < data.high_watermark and not ledger.topic.is_compacted):
                    raise ledger.fail(f"{len(chunk)} bytes from offset {offset}, below {data.high_watermark}")
                return View(start, data.high_watermark, chunks)
            chunks.append(chunk)
            offset = batches[-1].header.last_offset + 1


def check_times(client: SocketClient, ledger: Ledger, rng: random.Random, first: int, last: int) -> None:
    """Look moments up and hold the answers against what has been read. `TortureError`.

    The cleaner and retention may have removed records since: the answer may then lie behind what is expected.
    """
    for _ in range(_MOMENTS):
        moment = rng.randrange(first, last + 4, 2) + 1  # no record's own: they are even
        offset, timestamp = list_offsets(client, ledger, moment)
        expected = ledger.first_at(moment, start=ledger.start)
        if offset == expected and (offset < 0 or timestamp == ledger.timestamp_of(offset)):
            continue
        if offset > expected >= 0 and timestamp == ledger.timestamp_of(offset):
            ledger.check(read_log(client, ledger))
            left = ledger.first_at(moment, start=ledger.start)
            if left < 0 or left >= offset:
                continue
        raise ledger.fail(f"ListOffsets for {moment}: offset {offset} of {timestamp}, where {expected} is first")


def _fetch(client: SocketClient, ledger: Ledger, offset: int) -> PartitionData:
    request = fetch_request((ledger.topic.name, ledger.partition, offset), max_wait_ms=0, min_bytes=0)
    return only_partition(client.ask(request, 11))
