"""Clients on raw sockets with prebuilt requests, which leave nearly all work to the broker.

Every function returns plain numbers. `cpu` is the broker's CPU time and `seconds` the wall time of the measured part.
`busy` is the share of that time during which this client's thread used a CPU. If it is close to 1, the client limited
the rate, which is then a lower bound.
"""

import selectors
import socket
import struct
import time
from array import array
from dataclasses import dataclass

from benchmarks import wire
from benchmarks.meter import Meter, settle_page_cache

Address = tuple[str, int]
_MEGABYTE = 1_000_000


class Stopwatch:
    """Wall time, the broker's CPU time and this thread's CPU time, from construction until `read`."""

    def __init__(self, pid: int) -> None:
        self._meter = Meter(pid)
        self._client = time.thread_time()
        self._broker = self._meter.cpu()
        self._begin = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self._begin

    def read(self) -> dict[str, float]:
        seconds = time.perf_counter() - self._begin
        broker, client = self._meter.cpu() - self._broker, time.thread_time() - self._client
        return {"seconds": seconds, "cpu": broker, "busy": client / seconds}


def percentile(ordered: list[float], share: float) -> float:
    """Return the value below which `share` of the sorted values lie (nearest rank)."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def produce(  # noqa: PLR0913 - what is produced, and how
    address: Address,
    pid: int,
    topic: str,
    record_size: int,
    total_bytes: int,
    *,
    partition: int = 0,
    batch_bytes: int = _MEGABYTE,
    are_mixed: bool = False,
    in_flight: int = 5,
    scratch: str | None = None,
) -> dict[str, float]:
    """Send the same batch repeatedly to one partition over one connection, with `in_flight` unanswered requests.

    `bytes` are the bytes of batches. Records that `are_mixed` have different sizes. `scratch` is a directory on the
    disk of the log. If it is given, the page cache is settled first.
    """
    batch, records = wire.record_batch(record_size, batch_bytes, are_mixed=are_mixed)
    frame = wire.produce_request(topic, partition, batch)
    rounds = max(total_bytes // len(batch), 1)
    peak = 0
    with wire.Connection(address) as connection:
        expected = connection.offset(topic, partition)
        if scratch is not None:
            settle_page_cache(scratch, total_bytes)
        meter = Meter(pid)
        watch = Stopwatch(pid)
        for number in range(rounds + in_flight):
            if number >= in_flight:
                if wire.produced_offset(connection.receive()) != expected:
                    raise wire.WireError("a batch did not get the next offset")
                expected += records
            if number < rounds:
                struct.pack_into(">i", frame, wire.CORRELATION_ID_OFFSET, number)
                connection.socket.sendall(frame)
            if number % 64 == 0:
                peak = max(peak, meter.rss())
        result = watch.read()
    return {**result, "bytes": rounds * len(batch), "records": rounds * records, "peak_rss": max(peak, meter.rss())}


class _RangeReader:
    """Fetches one partition repeatedly from `first` to `end`. All batches have the same size and record count."""

    def __init__(self, connection: wire.Connection, topic: str, max_bytes: int) -> None:
        self._socket = connection.socket
        self._topic = topic
        self._max_bytes = max_bytes
        self._prefix = wire.fetch_prefix_size(topic)
        self._buffer = memoryview(bytearray(4 * 1024 * 1024))
        self.first = connection.offset(topic, 0, wire.EARLIEST)
        self.end = connection.offset(topic, 0)
        self.offset = self.first
        self._check_in_full(connection)

    def _request(self) -> bytearray:
        fetch_range = wire.FetchRange(0, self.offset, self._max_bytes)
        return wire.fetch_request(
            self._topic, [fetch_range], wire.FetchOptions(max_bytes=max(self._max_bytes, 50 * 1024 * 1024))
        )

    def _check_in_full(self, connection: wire.Connection) -> None:
        """Decode one response and check the CRC of its first batch, before anything is timed."""
        connection.socket.sendall(self._request())
        response = wire.fetched(connection.receive(), 11)
        (partition,) = response.partitions
        if response.error or partition.error:
            raise wire.WireError(f"Fetch was answered with error codes {response.error}, {partition.error}")
        wire.check_batch(partition.records)
        header = wire.batch_header(partition.records)
        self._batch_size, self._batch_records = header.size, header.records

    def fetch(self) -> int:
        """Send one fetch, discard the response, and return the bytes of its whole batches."""
        if self.offset >= self.end:
            self.offset = self.first
        self._socket.sendall(self._request())
        got = 0
        while got < self._prefix + wire.BATCH_HEADER_SIZE:
            got += self._receive(self._buffer[got:])
        size = wire.response_sizes(self._buffer)[0] + 4
        batch = wire.batch_header(self._buffer, self._prefix)
        if batch.base_offset != self.offset or batch.size != self._batch_size:
            raise wire.WireError(f"asked for offset {self.offset}, got a batch at {batch.base_offset}")
        while got < size:
            got += self._receive(self._buffer[: size - got])
        batches = (size - self._prefix) // self._batch_size
        self.offset += batches * self._batch_records
        return batches * self._batch_size

    def _receive(self, into: memoryview) -> int:
        got = self._socket.recv_into(into)
        if not got:
            raise wire.WireError("the broker closed the connection")
        return got


def fetch(address: Address, pid: int, topic: str, max_bytes: int, total_bytes: int) -> dict[str, float]:
    """Fetch partition 0 over one connection, one request at a time, and discard the bytes.

    At the end of the partition, continue at its start.
    """
    with wire.Connection(address) as connection:
        reader = _RangeReader(connection, topic, max_bytes)
        read = 0
        watch = Stopwatch(pid)
        while read < total_bytes:
            read += reader.fetch()
        result = watch.read()
    return {**result, "bytes": read}


def _ping(connection: wire.Connection, frame: bytearray, count: int) -> list[float]:
    """Return the microseconds of each of `count` Produce requests, one at a time."""
    times = array("d", bytes(8 * count))
    sock, clock = connection.socket, time.perf_counter
    buffer = bytearray(4096)
    for number in range(count):
        struct.pack_into(">i", frame, wire.CORRELATION_ID_OFFSET, number)
        begin = clock()
        sock.sendall(frame)
        got = sock.recv_into(buffer)
        times[number] = clock() - begin
        size, correlation_id = wire.response_sizes(buffer)
        if got != size + 4 or correlation_id != number:  # A response this small arrives in one piece.
            raise wire.WireError("the answer is not the answer to the request before it")
        wire.produced_offset(memoryview(buffer)[4:got])
    return [seconds * 1e6 for seconds in times]


def ping_pong(address: Address, pid: int, topic: str, count: int) -> dict[str, float]:
    """Send one-record Produce requests over one connection, each after the previous response.

    `p50` and `p99` are in microseconds.
    """
    frame = wire.produce_request(topic, 0, wire.record_batch(100)[0])
    with wire.Connection(address) as connection:
        _ping(connection, frame, min(count, 200))
        watch = Stopwatch(pid)
        times = sorted(_ping(connection, frame, count))
        result = watch.read()
    return {**result, "requests": count, "p50": percentile(times, 0.5), "p99": percentile(times, 0.99)}


@dataclass(slots=True)
class _Pipe:
    """One pipelined connection.

    `ring` holds prebuilt requests with consecutive correlation ids. Its first requests are repeated at the end.
    """

    socket: socket.socket
    ring: memoryview
    answered: int = 0
    received: int = 0


def pipelined(
    address: Address,
    pid: int,
    topic: str,
    *,
    partitions: int,
    connections: int = 16,
    depth: int = 32,
    seconds: float = 2.0,
) -> dict[str, float]:
    """Send one-record Produce requests over many connections for about `seconds`, with `depth` unanswered on each.

    Connection i writes to partition i modulo `partitions`. Each response is followed by as many requests as it answers.
    """
    ring_size = 1024
    batch = wire.record_batch(100)[0]
    buffer = bytearray(64 * 1024)
    with wire.Connection(address) as control, selectors.DefaultSelector() as selector:
        before = sum(control.offset(topic, index) for index in range(partitions))
        frame_size, answer_size = _warm_connection(control, topic, batch)
        pipes = [
            _Pipe(wire.Connection(address).socket, _ring(topic, index % partitions, batch, ring_size, depth))
            for index in range(connections)
        ]
        for pipe in pipes:
            selector.register(pipe.socket, selectors.EVENT_READ, pipe)
        sent = depth * connections
        answered = 0
        watch = Stopwatch(pid)
        for pipe in pipes:
            pipe.socket.sendall(pipe.ring[: depth * frame_size])
        while answered < sent:
            sending = watch.elapsed() < seconds
            for key, _ in selector.select(10.0) or _nothing_came():
                pipe = key.data
                pipe.received += pipe.socket.recv_into(buffer) or _closed()
                new = pipe.received // answer_size - pipe.answered
                if new and sending:
                    start = (pipe.answered % ring_size) * frame_size
                    pipe.socket.sendall(pipe.ring[start : start + new * frame_size])
                    sent += new
                pipe.answered += new
                answered += new
        result = watch.read()
        after = sum(control.offset(topic, index) for index in range(partitions))
        for pipe in pipes:
            pipe.socket.close()
    if after - before != answered + 1:  # the warm-up request
        raise wire.WireError(f"{answered} requests were answered, but {after - before - 1} records are in the log")
    return {**result, "requests": answered}


def _warm_connection(control: wire.Connection, topic: str, batch: bytes) -> tuple[int, int]:
    """Return the sizes of a request and of its response. All other requests and responses have the same sizes."""
    frame = wire.produce_request(topic, 0, batch)
    control.socket.sendall(frame)
    response = control.receive()
    wire.produced_offset(response)
    return len(frame), len(response) + 4


def _ring(topic: str, partition: int, batch: bytes, size: int, depth: int) -> memoryview:
    frame = wire.produce_request(topic, partition, batch)
    ring = bytearray()
    for number in range(size + depth):
        struct.pack_into(">i", frame, wire.CORRELATION_ID_OFFSET, number % size)
        ring += frame
    return memoryview(ring)


def _nothing_came() -> list[tuple[selectors.SelectorKey, int]]:
    raise wire.WireError("no answer within ten seconds")


def _closed() -> int:
    raise wire.WireError("the broker closed the connection")


def idle_connections(
    address: Address, pid: int, topic: str, *, connections: int, count: int, pairs: int
) -> dict[str, float]:
    """Measure the cost of idle connections.

    `rss` is the memory in bytes for all connections. The ping-pong p99, in microseconds, is measured without and with
    them. Each connection sends one ApiVersions, so that the broker has served it. Measurements without and with idle
    connections alternate `pairs` times, and `ratio` is the median ratio of the pairs.
    """
    frame = wire.produce_request(topic, 0, wire.record_batch(100)[0])
    meter = Meter(pid)
    without: list[float] = []
    with_them: list[float] = []
    costs: list[float] = []
    with wire.Connection(address) as active:
        _ping(active, frame, count)
        for _ in range(pairs):
            without.append(percentile(sorted(_ping(active, frame, count)), 0.99))
            before = meter.rss()
            idle = [_served_connection(address) for _ in range(connections)]
            costs.append(meter.rss() - before)
            with_them.append(percentile(sorted(_ping(active, frame, count)), 0.99))
            for connection in idle:
                connection.socket.close()
    ratios = sorted(after / before for after, before in zip(with_them, without, strict=True))
    return {
        "rss": max(costs),  # Only the first time counts, because freed memory is reused later.
        "without": percentile(sorted(without), 0.5),
        "with": percentile(sorted(with_them), 0.5),
        "ratio": percentile(ratios, 0.5),
    }


def _served_connection(address: Address) -> wire.Connection:
    """Open a connection and wait for its first response.

    A broker's backlog is short (50 in Kafka), and a dropped SYN costs a second.
    """
    connection = wire.Connection(address)
    connection.api_keys()
    return connection


def session_bytes(address: Address, pid: int, topic: str, *, partitions: int, count: int) -> dict[str, float]:
    """Measure an idle fetch of `partitions` empty partitions, without a session and in one (KIP-227, Fetch v7).

    The bytes of request and response are counted separately, with their length prefixes. The broker's CPU time for each
    kind of fetch is in microseconds.
    """
    ranges = [wire.FetchRange(index, 0, 1024 * 1024) for index in range(partitions)]
    with wire.Connection(address) as connection:
        full = wire.FetchOptions(version=7, max_wait=0, min_bytes=0)
        request = wire.fetch_request(topic, ranges, full)
        _await_usable(connection, topic, partitions)
        size, _ = _idle_fetch(connection, request)
        watch = Stopwatch(pid)
        for _ in range(count):
            _idle_fetch(connection, request)
        result = {"full_request": len(request), "full_response": size, "full_us": watch.read()["cpu"] / count * 1e6}

        opening = wire.FetchOptions(version=7, max_wait=0, min_bytes=0, session_epoch=wire.NEW_SESSION)
        session_id = _idle_fetch(connection, wire.fetch_request(topic, ranges, opening))[1].session_id
        if not session_id:
            raise wire.WireError("the broker opened no session")
        watch = Stopwatch(pid)
        for epoch in range(1, count + 1):
            turn = wire.FetchOptions(version=7, max_wait=0, min_bytes=0, session_id=session_id, session_epoch=epoch)
            request = wire.fetch_request(topic, [], turn)
            size, response = _idle_fetch(connection, request)
            if response.partitions:
                raise wire.WireError("an idle incremental fetch was answered with partitions")
        us = watch.read()["cpu"] / count * 1e6
    return {**result, "session_request": len(request), "session_response": size, "session_us": us}


def _idle_fetch(connection: wire.Connection, request: bytearray) -> tuple[int, wire.Fetched]:
    connection.socket.sendall(request)
    response = connection.receive()
    fetched = wire.fetched(response, 7)
    if fetched.error:
        raise wire.WireError(f"Fetch was answered with error code {fetched.error}")
    return len(response) + 4, fetched


def _await_usable(connection: wire.Connection, topic: str, partitions: int, timeout: float = 60.0) -> None:
    """Wait until a fetch succeeds for all partitions, because Kafka names leaders before it has created their logs."""
    ranges = [wire.FetchRange(index, 0, 1024 * 1024) for index in range(partitions)]
    request = wire.fetch_request(topic, ranges, wire.FetchOptions(version=7, max_wait=0, min_bytes=0))
    deadline = time.monotonic() + timeout
    while True:
        _, response = _idle_fetch(connection, request)
        if len(response.partitions) != partitions:
            raise wire.WireError(f"a fetch of {partitions} partitions was answered for {len(response.partitions)}")
        failed = sum(found.error != 0 for found in response.partitions)
        if not failed:
            return
        if time.monotonic() > deadline:
            raise wire.WireError(f"{failed} of {partitions} partitions cannot be read after {timeout:.0f} s")
        time.sleep(0.5)  # Do not burden a broker that is still working.


def many_partitions(address: Address, pid: int, *, partitions: int, topics: int, repeats: int) -> dict[str, float]:
    """Create `partitions` partitions as one topic, then as many again in `topics` topics, and return the seconds.

    `metadata_...` are the median milliseconds of a Metadata request for all topics of either kind.
    """
    many = [f"many-{number}" for number in range(topics)]
    with wire.Connection(address) as connection:
        watch = Stopwatch(pid)
        connection.create_topics(["huge"], partitions)
        one = watch.read()["seconds"]
        connection.await_partitions(["huge"], partitions)
        _await_usable(connection, "huge", partitions)
        usable = watch.read()["seconds"]
        watch = Stopwatch(pid)
        connection.create_topics(many, partitions // topics)
        several = watch.read()["seconds"]
        connection.await_partitions(many, partitions)
        metadata_one = _metadata_ms(connection, ["huge"], repeats)
        metadata_several = _metadata_ms(connection, many, repeats)
    return {
        "one": one,
        "usable": usable,
        "several": several,
        "metadata_one": metadata_one,
        "metadata_several": metadata_several,
    }


def _metadata_ms(connection: wire.Connection, topics: list[str], repeats: int) -> float:
    """Return the median time to the last byte of the response. Decoding is not included."""
    body = struct.pack(">i", len(topics)) + b"".join(map(wire.string, topics))
    frame = wire.request(wire.METADATA, 1, body)
    times: list[float] = []
    for _ in range(repeats):
        begin = time.perf_counter()
        connection.socket.sendall(frame)
        connection.receive()
        times.append(time.perf_counter() - begin)
    return percentile(sorted(times), 0.5) * 1000
