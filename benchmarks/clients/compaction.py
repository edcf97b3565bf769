"""A client that produces while the broker compacts another topic."""

import os
import struct
import time

import crc32c

from benchmarks import wire
from benchmarks.clients.raw import Address, Stopwatch, percentile

_CHECK_EVERY = 25
_CLEANED = ".cleaned"
"""The suffixes of the files that a cleaner writes, here as in Apache Kafka."""


def keyed_batch(first_key: int, count: int, value_size: int) -> bytes:
    """Return one batch of records with the keys from `first_key` on, as eight digits, and one value each."""
    now = int(time.time() * 1000)
    records = bytearray()
    value = b"v" * value_size
    for number in range(count):
        body = b"\x00\x00" + wire.varint(number) + wire.varint(8) + b"%08d" % (first_key + number)
        body += wire.varint(value_size) + value + b"\x00"
        records += wire.varint(len(body)) + body
    covered = struct.pack(">hiqqqhii", 0, count - 1, now, now, -1, -1, -1, count) + records
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c.crc32c(covered)) + covered


def fill(address: Address, pid: int, topic: str, *, total_bytes: int, keys: int, value_size: int) -> dict[str, float]:
    """Write all keys to partition 0 repeatedly, until the log has `total_bytes`."""
    each = 500
    frames = [wire.produce_request(topic, 0, keyed_batch(first, each, value_size)) for first in range(0, keys, each)]
    sent = number = 0
    with wire.Connection(address) as connection:
        watch = Stopwatch(pid)
        while sent < total_bytes:
            frame = frames[number % len(frames)]
            connection.socket.sendall(frame)
            wire.produced_offset(connection.receive())
            sent += len(frame)
            number += 1
        return {**watch.read(), "records": number * each}


def ping_while_cleaning(
    address: Address, pid: int, topic: str, *, directory: str, seconds: float, calm_pings: int
) -> dict[str, float]:
    """Send one-record Produce requests, one at a time, until the cleaner of the partition at `directory` is done.

    `idle` is the p99, in microseconds, of the requests sent while no cleaned file existed, and `busy` that of the
    others. `pings` counts the latter. The function returns once the cleaner has run and then paused for a second, or
    after `seconds`.
    """
    frame = wire.produce_request(topic, 0, wire.record_batch(100)[0])
    idle: list[float] = []
    busy: list[float] = []
    clock = time.perf_counter
    with wire.Connection(address) as connection:
        watch = Stopwatch(pid)
        last_seen = 0.0
        while watch.elapsed() < seconds and not (busy and clock() - last_seen > 1.0 and len(idle) >= calm_pings):
            cleaning = any(name.endswith(_CLEANED) for name in os.listdir(directory))
            if cleaning:
                last_seen = clock()
            into = busy if cleaning else idle
            for _ in range(_CHECK_EVERY):
                begin = clock()
                connection.socket.sendall(frame)
                wire.produced_offset(connection.receive())
                into.append((clock() - begin) * 1e6)
        result = watch.read()
    if not busy or len(idle) < calm_pings:
        raise wire.WireError(f"{len(busy)} requests while the cleaner ran, {len(idle)} while it did not")
    calm, loaded = percentile(sorted(idle), 0.99), percentile(sorted(busy), 0.99)
    return {**result, "idle": calm, "busy": loaded, "ratio": loaded / calm, "pings": len(busy)}
