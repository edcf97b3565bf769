"""Consumer group clients: the time until a member has partitions, and the cost of members that only send heartbeats."""

import contextlib
import selectors
import struct
import time
import uuid
from collections.abc import Callable, Collection, Sequence

from benchmarks import wire
from benchmarks.clients.raw import Address, Stopwatch, percentile

_JOIN_GROUP, _SYNC_GROUP, _HEARTBEAT, _OFFSET_COMMIT, _OFFSET_FETCH, _FIND_COORDINATOR = 11, 14, 12, 8, 9, 10
_REBALANCE_IN_PROGRESS = 27
_NOT_READY = {14, 15, 16}
"""The coordinator is loading, is missing, or has moved. Kafka returns these errors for a while after it was found."""
_SESSION_TIMEOUT_MS = 45_000
_TIMEOUT = 60.0
_SETTLING_S = 2.0
"""The seconds until the first fetches of all sessions, which can be answered early, have ended."""


# The first assignment


def first_assignment(address: Address, pid: int, topic: str, *, client: str, count: int) -> dict[str, float]:
    """Return the median milliseconds from creating a consumer in a new group to its first assignment.

    `p50` is the time until any assignment, and `with_partitions` the time until an assignment that is not empty.
    """
    servers = f"{address[0]}:{address[1]}"
    join = {"librdkafka": _join_librdkafka, "kafka-python": _join_kafka_python}[client]
    join(servers, topic, "warm-up")
    watch = Stopwatch(pid)
    times = [join(servers, topic, f"group-{uuid.uuid4().hex}") for _ in range(count)]
    assigned, given = (sorted(each) for each in zip(*times, strict=True))
    return {**watch.read(), "p50": percentile(assigned, 0.5), "with_partitions": percentile(given, 0.5)}


class _Assignments:
    """The times of the first assignment, and of the first assignment with partitions."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()
        self._assigned = self._given = 0.0

    def add(self, partitions: Collection[object]) -> None:
        now = (time.perf_counter() - self._begin) * 1000
        self._assigned = self._assigned or now
        if partitions:
            self._given = self._given or now

    def wait(self, poll: Callable[[], object]) -> tuple[float, float]:
        while not self._given:
            poll()
            if time.perf_counter() - self._begin > _TIMEOUT:
                raise wire.WireError(f"no assignment within {_TIMEOUT:.0f} s")
        return self._assigned, self._given


def _join_librdkafka(servers: str, topic: str, group: str) -> tuple[float, float]:
    from confluent_kafka import Consumer  # noqa: PLC0415 - only for the client that is measured

    assignments = _Assignments()
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic], on_assign=lambda _, partitions: assignments.add(partitions))
        return assignments.wait(lambda: consumer.poll(0.1))
    finally:
        consumer.close()


def _join_kafka_python(servers: str, topic: str, group: str) -> tuple[float, float]:
    from kafka import KafkaConsumer  # type: ignore[import-untyped]  # it has no types  # noqa: PLC0415 - as above
    from kafka.consumer.subscription_state import ConsumerRebalanceListener  # type: ignore[import-untyped]  # as above  # noqa: PLC0415

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # its base has no types
        def on_partitions_revoked(self, revoked: object) -> None:
            pass

        def on_partitions_assigned(self, assigned: Collection[object]) -> None:
            assignments.add(assigned)

    assignments = _Assignments()
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
    try:
        consumer.subscribe([topic], listener=Listener())
        return assignments.wait(lambda: consumer.poll(500))
    finally:
        consumer.close()


def heartbeats(address: Address, pid: int, topic: str, *, groups: int, seconds: float) -> dict[str, float]:
    """Return the broker's CPU time for groups of two members, with a connection and a heartbeat every 3 s each."""
    pairs = [_Group(address, f"live-{number}", topic) for number in range(groups)]
    return keep_alive(pid, [member for pair in pairs for member in pair.members], 3.0, seconds, _one_answer)


def idle_consumers(address: Address, pid: int, topic: str, *, consumers: int, seconds: float) -> dict[str, float]:
    """Return the broker's CPU time for consumers in fetch sessions whose fetches return nothing after 500 ms."""
    everything = [wire.FetchRange(0, 0, 1 << 20)]
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        for _ in range(consumers):
            connection = stack.enter_context(wire.Connection(address))
            connection.socket.sendall(wire.fetch_request(topic, everything, wire.FetchOptions(session_epoch=0)))
            selector.register(connection.socket, selectors.EVENT_READ, [connection, 0])
        watch, fetches, begin = Stopwatch(pid), 0, time.perf_counter()
        while time.perf_counter() < begin + _SETTLING_S + seconds:
            if time.perf_counter() < begin + _SETTLING_S:
                watch, fetches = Stopwatch(pid), 0
            for key, _ in selector.select(0.002):
                connection, epoch = key.data
                session = wire.fetched(connection.receive(), 11).session_id
                options = wire.FetchOptions(session_id=session, session_epoch=epoch + 1)
                connection.socket.sendall(wire.fetch_request(topic, [], options))
                key.data[1] += 1
                fetches += 1
        return {**watch.read(), "fetches": fetches}


def keep_alive(
    pid: int,
    members: Sequence[tuple[wire.Connection, wire.Bytes]],
    interval: float,
    seconds: float,
    check: Callable[[bytes], None],
) -> dict[str, float]:
    """Send each member's frame every `interval` seconds, then close the connections.

    Return the broker's CPU time. `check` is called with each response and its size, and raises WireError if the
    response is wrong.
    """
    try:
        with selectors.DefaultSelector() as selector:
            for connection, _ in members:
                connection.socket.settimeout(_TIMEOUT)
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            watch = Stopwatch(pid)
            begin = time.perf_counter()
            sent = answered = 0
            while (elapsed := time.perf_counter() - begin) < seconds:
                due = min(int(elapsed / interval * len(members)), len(members) * int(seconds / interval + 1))
                while sent < due:
                    connection, frame = members[sent % len(members)]
                    connection.socket.sendall(frame)
                    sent += 1
                for key, _ in selector.select(0.002):
                    check(key.data.socket.recv(256))
                    answered += 1
            return {**watch.read(), "heartbeats": answered}
    finally:
        for connection, _ in members:
            connection.socket.close()


def _one_answer(data: bytes) -> None:
    if len(data) != 10:  # size, correlation id, error code
        raise wire.WireError(f"a heartbeat was answered with {len(data)} bytes")
    if error := struct.unpack(">h", data[8:])[0]:
        raise wire.WireError(f"Heartbeat was answered with error code {error}")


class _Group:
    """Two members that have joined and share the topic. Each has its own connection and heartbeat."""

    def __init__(self, address: Address, name: str, topic: str) -> None:
        first, second = wire.Connection(address), wire.Connection(address)
        await_coordinator(first, name)
        leader, generation = _joined(_join(first, name, "", topic))
        # The second member must wait until the first has rejoined. A heartbeat tells the first member to rejoin.
        second.socket.sendall(wire.request(_JOIN_GROUP, 2, _join_body(name, "", topic)))
        heartbeat = wire.string(name) + struct.pack(">i", generation) + wire.string(leader)
        while (error := first.exchange(_HEARTBEAT, 0, heartbeat).int16()) != _REBALANCE_IN_PROGRESS:
            if error:
                raise wire.WireError(f"Heartbeat was answered with error code {error}")
        leader, generation = _joined(_join(first, name, leader, topic))
        reader = wire.Reader(second.receive())
        reader.int32()
        follower, _ = _joined(reader)
        shares = struct.pack(">i", 2) + wire.string(leader) + struct.pack(">i", 0)
        shares += wire.string(follower) + struct.pack(">i", 0)
        for connection, member, assignments in ((first, leader, shares), (second, follower, struct.pack(">i", 0))):
            body = wire.string(name) + struct.pack(">i", generation) + wire.string(member) + assignments
            if error := connection.exchange(_SYNC_GROUP, 0, body).int16():
                raise wire.WireError(f"SyncGroup was answered with error code {error}")
        self.members = [
            (
                connection,
                wire.request(_HEARTBEAT, 0, wire.string(name) + struct.pack(">i", generation) + wire.string(member)),
            )
            for connection, member in ((first, leader), (second, follower))
        ]


def await_coordinator(connection: wire.Connection, group: str) -> None:
    """Wait until the group has a coordinator.

    Raises:
        WireError: There is no coordinator after a minute.
    """
    deadline = time.monotonic() + _TIMEOUT
    while error := connection.exchange(_FIND_COORDINATOR, 0, wire.string(group)).int16():
        if time.monotonic() > deadline:
            raise wire.WireError(f"FindCoordinator was answered with error code {error}")
        time.sleep(0.05)


def _join_body(group: str, member: str, topic: str) -> bytes:
    subscription = struct.pack(">hi", 0, 1) + wire.string(topic) + struct.pack(">i", -1)
    body = wire.string(group) + struct.pack(">ii", _SESSION_TIMEOUT_MS, 60_000) + wire.string(member)
    body += wire.string("consumer") + struct.pack(">i", 1) + wire.string("range")
    return body + struct.pack(">i", len(subscription)) + subscription


def _join(connection: wire.Connection, group: str, member: str, topic: str) -> wire.Reader:
    deadline = time.monotonic() + _TIMEOUT
    while True:
        reader = connection.exchange(_JOIN_GROUP, 2, _join_body(group, member, topic))
        if struct.unpack_from(">h", reader.data, reader.position + 4)[0] not in _NOT_READY:
            return reader
        if time.monotonic() > deadline:
            raise wire.WireError("the coordinator did not get ready")
        time.sleep(0.05)


def _joined(reader: wire.Reader) -> tuple[str, int]:
    """Return the member id and the generation in a JoinGroup v2 response."""
    reader.int32()  # throttle time
    if error := reader.int16():
        raise wire.WireError(f"JoinGroup was answered with error code {error}")
    generation = reader.int32()
    reader.string()  # protocol
    reader.string()  # leader
    return reader.string(), generation


def offset_fetch(address: Address, pid: int, topics: list[str], *, partitions: int, count: int) -> dict[str, float]:
    """Return the CPU us of OffsetFetch for a hundred partitions of a group, and for all committed partitions."""
    group = f"committed-{uuid.uuid4().hex}"
    with wire.Connection(address) as connection:
        await_coordinator(connection, group)
        for topic in topics:
            for first in range(0, partitions, 1_000):
                commit(connection, group, topic, range(first, min(first + 1_000, partitions)))
        total = partitions * len(topics)
        few = _fetch_offsets(connection, pid, _asked(group, topics[:1], 100), count)
        many = _fetch_offsets(connection, pid, _asked(group, topics, partitions), max(count * 100 // total, 5))
    return {"few": few, "all": many, "each": many / total}


def commit(connection: wire.Connection, group: str, topic: str, partitions: range) -> None:
    """Commit offset 1,000 + index for each partition of a group without members.

    Raises:
        WireError: the broker rejects it.
    """
    body = wire.string(group) + struct.pack(">i", -1) + wire.string("") + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + wire.string(topic) + struct.pack(">i", len(partitions))
    body += b"".join(struct.pack(">iq", index, 1_000 + index) + wire.string("") for index in partitions)
    deadline = time.monotonic() + _TIMEOUT
    while errors := _commit_errors(connection.exchange(_OFFSET_COMMIT, 2, body)):
        if not errors <= _NOT_READY or time.monotonic() > deadline:
            raise wire.WireError(f"OffsetCommit was answered with error codes {sorted(errors)}")
        time.sleep(0.05)


def _commit_errors(reader: wire.Reader) -> set[int]:
    reader.count()
    reader.string()
    errors: set[int] = set()
    for _ in range(reader.count()):
        reader.int32()  # partition
        errors.add(reader.int16())
    return errors - {0}


def _asked(group: str, topics: list[str], partitions: int) -> bytes:
    body = wire.string(group) + struct.pack(">i", len(topics))
    indexes = struct.pack(f">i{partitions}i", partitions, *range(partitions))
    return body + b"".join(wire.string(topic) + indexes for topic in topics)


def _fetch_offsets(connection: wire.Connection, pid: int, body: bytes, count: int) -> float:
    """Return the median CPU time of `count` requests, in us."""
    samples: list[float] = []
    for _ in range(count):
        watch = Stopwatch(pid)
        reader = connection.exchange(_OFFSET_FETCH, 1, body)
        samples.append(watch.read()["cpu"] * 1e6)
        for _ in range(reader.count()):
            reader.string()
            for _ in range(reader.count()):
                index, offset = reader.int32(), reader.int64()
                reader.string()
                if reader.int16() or offset != 1_000 + index:
                    raise wire.WireError(f"partition {index}: offset {offset} is not the one that was committed")
    return percentile(sorted(samples), 0.5)
