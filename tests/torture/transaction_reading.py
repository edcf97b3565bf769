"""Reads whole logs with their markers over the wire, whatever is committed of them."""

from typing import Any, Final

from minibroker_protocol.messages.log_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.records.batch import iter_batches
from tests.broker.harness import bytes_in, fetch_request, only_partition
from tests.broker.socket_client import SocketClient
from tests.torture.copies import Entry, Read
from tests.torture.ledger import TortureError

_LATEST: Final = -1
_COMMIT: Final = 1


def ends_of(client: SocketClient, topic: str, partition: int) -> tuple[int, int]:
    """(last stable offset, end) of a partition. `TortureError`."""
    stable, end = (_latest(client, topic, partition, isolation_level=level) for level in (1, 0))
    return stable, end


def read_entries(client: SocketClient, topic: str, partition: int) -> list[Entry]:
    """All batches of a partition, markers too. `TortureError`."""
    entries: list[Entry] = []
    offset = 0
    while True:
        request = fetch_request((topic, partition, offset), max_wait_ms=0, min_bytes=0)
        data = only_partition(client.ask(request, 11))
        if data.error_code:
            raise TortureError(f"{topic}-{partition}: Fetch from offset {offset}: error {data.error_code}")
        batches = list(iter_batches(memoryview(bytes_in(data))))
        if not batches:
            if offset < data.high_watermark:
                raise TortureError(f"{topic}-{partition}: nothing at offset {offset}, below {data.high_watermark}")
            return entries
        entries += map(entry_of, batches)
        offset = batches[-1].header.last_offset + 1


def entry_of(batch: Any) -> Entry:
    """A batch of format v2."""
    batch.check_crc()
    header = batch.header
    records = list(batch)
    is_commit = False
    if header.is_control:
        (marker,) = records
        is_commit = marker.key[2:4] == _COMMIT.to_bytes(2, "big")
    return Entry(
        header.base_offset,
        header.producer_id,
        header.producer_epoch,
        header.is_transactional,
        None if header.is_control else [Read(record.offset, record.value) for record in records],
        is_commit,
    )


def _latest(client: SocketClient, topic: str, partition: int, *, isolation_level: int) -> int:
    requested_partition = ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
    topics = [ListOffsetsTopic(name=topic, partitions=[requested_partition])]
    (answer,) = client.ask(ListOffsetsRequest(isolation_level=isolation_level, topics=topics), 7).topics
    (found,) = answer.partitions
    if found.error_code:
        raise TortureError(f"{topic}-{partition}: ListOffsets: error {found.error_code}")
    offset: int = found.offset
    return offset
