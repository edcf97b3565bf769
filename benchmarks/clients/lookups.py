"""Clients that search a long log by offset and by time."""

import random
import struct
import time
from array import array

import crc32c

from benchmarks import wire
from benchmarks.clients.raw import Address, Stopwatch, percentile

_BASE_TIMESTAMP, _MAX_TIMESTAMP, _CRC, _CRC_COVERS_FROM = 27, 35, 17, 21
_STEP_MS = 1_000
_FIRST_MS = 1_700_000_000_000
"""The time of the first batch. Each further batch is a second later, so a time identifies its batch."""


def fill(address: Address, pid: int, topic: str, *, total_bytes: int, batch_bytes: int = 64_000) -> dict[str, float]:
    """Produce batches of 1 KB records to partition 0, a second of record time apart, and return both counts."""
    plain, records = wire.record_batch(1_024, batch_bytes)
    batch = bytearray(plain)
    count = max(total_bytes // len(batch), 1)
    with wire.Connection(address) as connection:
        watch = Stopwatch(pid)
        for number in range(count + 5):
            if number >= 5:
                wire.produced_offset(connection.receive())
            if number < count:
                struct.pack_into(">qq", batch, _BASE_TIMESTAMP, *(_FIRST_MS + number * _STEP_MS,) * 2)
                struct.pack_into(">I", batch, _CRC, crc32c.crc32c(batch[_CRC_COVERS_FROM:]))
                connection.socket.sendall(wire.produce_request(topic, 0, bytes(batch)))
        return {**watch.read(), "batches": count, "records": count * records}


def look_up(address: Address, pid: int, topic: str, *, batches: int, records: int, count: int) -> dict[str, float]:
    """Return the microseconds of fetching one batch at a random offset, and of ListOffsets for a random time.

    Each is the median of `count`. Every response is checked: the batch contains the offset, and the offset has the
    time.
    """
    chance = random.Random(7)
    each = records // batches
    fetches, searches = array("d"), array("d")
    with wire.Connection(address) as connection:
        watch = Stopwatch(pid)
        for number in range(count + count // 10):
            offset = chance.randrange(records)
            begin = time.perf_counter()
            header = _fetch_one(connection, topic, offset)
            middle = time.perf_counter()
            target = chance.randrange(batches)
            between = time.perf_counter()
            found = connection.offset(topic, 0, _FIRST_MS + target * _STEP_MS - 1)
            end = time.perf_counter()
            if not header.base_offset <= offset < header.base_offset + header.records or found != target * each:
                raise wire.WireError(f"offset {offset} is not in the batch, or time {target} is not at offset {found}")
            if number >= count // 10:  # The first requests open files and warm up a JVM.
                fetches.append((middle - begin) * 1e6)
                searches.append((end - between) * 1e6)
        result = watch.read()
    return {**result, "fetch": percentile(sorted(fetches), 0.5), "time": percentile(sorted(searches), 0.5)}


def _fetch_one(connection: wire.Connection, topic: str, offset: int) -> wire.BatchHeader:
    options = wire.FetchOptions(max_wait=0)
    connection.socket.sendall(wire.fetch_request(topic, [wire.FetchRange(0, offset, 1)], options))
    (partition,) = wire.fetched(connection.receive(), options.version).partitions
    if partition.error:
        raise wire.WireError(f"Fetch was answered with error code {partition.error}")
    return wire.batch_header(partition.records)
