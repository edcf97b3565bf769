"""A member of a share group on a raw socket, to compare acquiring and acknowledging records with a plain fetch.

It sends ShareGroupHeartbeat v1 and ShareFetch v1 (KIP-932), which Kafka 4.1 and later serve.
"""

import struct
import time
import uuid
from typing import Final, NamedTuple

from benchmarks import wire
from benchmarks.clients import groups, raw

_HEARTBEAT, _SHARE_FETCH, _ALTER_CONFIGS, _VERSION = 76, 78, 44, 1
_GROUP, _SET = 32, 0
_TIMEOUT = 60.0
_NO_TAGS: Final = b"\x00"
_MAX_BYTES = 50 * 1024 * 1024
_MAX_RECORDS = 500
"""The maximum number of records that the Java client requests: `max.poll.records`."""
_CONFIGS = {"share.auto.offset.reset": "earliest", "share.partition.max.record.locks": "2000"}
"""The group's configuration. Kafka 4 allows this many acquired records by default."""
_NOT_READY = {14, 15, 16}
"""The coordinator is loading, is missing, or has moved. Kafka returns these errors for a while after it is found."""


class _Acquired(NamedTuple):
    """An inclusive range of acquired offsets."""

    first: int
    last: int


class _Reader(wire.Reader):
    """A reader that also supports the compact types."""

    def varint(self) -> int:
        value = shift = 0
        while (byte := self.int8() & 0xFF) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
        return value | byte << shift

    def compact_count(self) -> int:
        """Return the length of an array, a string or bytes, and 0 for null."""
        return max(self.varint() - 1, 0)

    def skip_compact(self) -> None:
        self.skip(self.compact_count())


class _Member:
    """A member of a group. It has no partitions until `beat` receives an assignment.

    Attributes:
        connection: The member's own connection.
        epoch: The member epoch.
    """

    def __init__(self, connection: wire.Connection, group: str, topic: str) -> None:
        self.connection = connection
        self.epoch = 0
        self._group = group
        self._topic = topic
        self._member = str(uuid.uuid4())
        self._topic_id = b""
        self._session_epoch = 0
        groups.await_coordinator(connection, group)

    def _exchange(self, api_key: int, body: bytes) -> _Reader:
        """Send a request with the header of flexible versions, and read the response's first fields."""
        deadline = time.monotonic() + _TIMEOUT
        while (found := self._once(api_key, body))[0] in _NOT_READY and time.monotonic() < deadline:
            time.sleep(0.05)
        error, reader = found
        if error:
            raise wire.WireError(f"API {api_key} was answered with error code {error}")
        reader.skip_compact()  # error message
        return reader

    def _once(self, api_key: int, body: bytes) -> tuple[int, _Reader]:
        self.connection.socket.sendall(_request(api_key, body))
        reader = _Reader(self.connection.receive())
        reader.skip(5)  # correlation id, no tagged fields
        reader.int32()  # throttle time
        if api_key == _ALTER_CONFIGS:
            reader.compact_count()
        return reader.int16(), reader

    def configure(self) -> None:
        """Set `_CONFIGS` for the group."""
        configs = b"".join(
            _compact(name) + bytes((_SET,)) + _compact(value) + _NO_TAGS for name, value in _CONFIGS.items()
        )
        resource = bytes((_GROUP,)) + _compact(self._group) + _unsigned(len(_CONFIGS) + 1) + configs + _NO_TAGS
        self._exchange(_ALTER_CONFIGS, _unsigned(2) + resource + b"\x00" + _NO_TAGS)

    def await_partitions(self) -> None:
        """Send heartbeats until the member has an assignment.

        Raises:
            WireError: There is no assignment after a minute.
        """
        deadline = time.monotonic() + _TIMEOUT
        while not self.beat():
            if time.monotonic() > deadline:
                raise wire.WireError("the member got no partition")
            time.sleep(0.05)

    def beat(self) -> bool:
        """Send a heartbeat, which joins the group at first. Return whether the response has the topic's partitions."""
        reader = self._exchange(_HEARTBEAT, self._heartbeat())
        reader.skip_compact()  # member id
        self.epoch = reader.int32()
        reader.int32()  # heartbeat interval
        if reader.int8() != 1 or not reader.compact_count():
            return False
        self._topic_id = bytes(reader.data[reader.position : reader.position + 16])
        return True

    def _heartbeat(self) -> bytes:
        topics = b"\x00" if self.epoch else _unsigned(2) + _compact(self._topic)
        body = _compact(self._group) + _compact(self._member) + struct.pack(">i", self.epoch) + b"\x00"
        return body + topics + _NO_TAGS

    @property
    def frame(self) -> bytes:
        """Return the heartbeat request."""
        return _request(_HEARTBEAT, self._heartbeat())

    def fetch(self, held: list[_Acquired], max_wait_ms: int) -> tuple[list[_Acquired], int]:
        """Accept the acquired records and acquire more. Return their offsets and the size of their batches."""
        body = _compact(self._group) + _compact(self._member)
        body += struct.pack(">iiiiii", self._session_epoch, max_wait_ms, 1, _MAX_BYTES, _MAX_RECORDS, _MAX_RECORDS)
        if held or not self._session_epoch:
            acknowledged = b"".join(struct.pack(">qqbbb", each.first, each.last, 2, 1, 0) for each in held)
            body += _unsigned(2) + self._topic_id + _unsigned(2) + struct.pack(">i", 0)
            body += _unsigned(len(held) + 1) + acknowledged + 2 * _NO_TAGS
        else:
            body += _unsigned(1)
        reader = self._exchange(_SHARE_FETCH, body + _unsigned(1) + _NO_TAGS)
        self._session_epoch += 1
        reader.int32()  # acquisition lock timeout
        acquired: list[_Acquired] = []
        size = 0
        for _ in range(reader.compact_count()):
            reader.skip(16)
            for _ in range(reader.compact_count()):
                more, bytes_of = _partition(reader)
                acquired += more
                size += bytes_of
            reader.skip(1)
        return acquired, size


def _partition(reader: _Reader) -> tuple[list[_Acquired], int]:
    reader.int32()  # partition
    for place in ("partition", "acknowledgements"):
        if error := reader.int16():
            raise wire.WireError(f"the {place} of ShareFetch got error code {error}")
        reader.skip_compact()  # error message
    reader.skip(9)  # leader
    size = reader.compact_count()
    first = wire.batch_header(reader.data, reader.position).base_offset if size else -1
    reader.skip(size)
    acquired: list[_Acquired] = []
    for _ in range(reader.compact_count()):
        acquired.append(_Acquired(reader.int64(), reader.int64()))
        if reader.int16() != 1:
            raise wire.WireError("a record is not delivered for the first time")
        reader.skip(1)
    reader.skip(1)
    if acquired and acquired[0].first != first:
        raise wire.WireError(f"offset {acquired[0].first} was acquired, and the batches begin at {first}")
    return acquired, size


def _request(api_key: int, body: bytes) -> bytes:
    """Return a request frame with the header of flexible versions."""
    header = struct.pack(">hhi", api_key, _VERSION, 0) + wire.string("bench") + _NO_TAGS
    return struct.pack(">i", len(header) + len(body)) + header + body


def _unsigned(value: int) -> bytes:
    assert value < 0x80
    return bytes((value,))


def _compact(value: str) -> bytes:
    return _unsigned(len(value) + 1) + value.encode()


def fetch(
    address: raw.Address, pid: int, topic: str, *, record_size: int, batch_bytes: int, total_bytes: int
) -> dict[str, float]:
    """Have a member acquire all records of partition 0 in order, and accept them with its next request."""
    produced = int(raw.produce(address, pid, topic, record_size, total_bytes, batch_bytes=batch_bytes)["records"])
    with wire.Connection(address) as connection:
        member = _Member(connection, f"share-{uuid.uuid4().hex}", topic)
        member.configure()
        member.await_partitions()
        held, size = member.fetch([], 500)
        records = sum(each.last - each.first + 1 for each in held)
        watch = raw.Stopwatch(pid)
        while records < produced:
            held, got = member.fetch(held, 500)
            if held and held[0].first != records:
                raise wire.WireError(f"offset {held[0].first} was acquired, {records} was next")
            records += sum(each.last - each.first + 1 for each in held)
            size += got
        member.fetch(held, 0)
        result = watch.read()
    return {**result, "bytes": size, "records": records}


def heartbeats(
    address: raw.Address, pid: int, topic: str, *, groups_count: int, members: int, seconds: float
) -> dict[str, float]:
    """Return the broker's CPU time for groups whose members send a heartbeat every 5 s, each on its own connection."""
    every = [
        [_Member(wire.Connection(address), f"live-share-{number}", topic) for _ in range(members)]
        for number in range(groups_count)
    ]
    _settle(every)
    beating = [(each.connection, each.frame) for group in every for each in group]
    return groups.keep_alive(pid, beating, 5.0, seconds, _one_answer)


def _settle(every: list[list[_Member]]) -> None:
    """Have all members join, and wait until each has a partition in its group's current epoch."""
    deadline = time.monotonic() + _TIMEOUT
    lacking = {each for group in every for each in group}
    while lacking or any(len({each.epoch for each in group}) > 1 for group in every):
        if time.monotonic() > deadline:
            raise wire.WireError(f"{len(lacking)} members got no partition, or groups do not settle")
        lacking -= {each for group in every for each in group if each.beat()}


def _one_answer(data: bytes) -> None:
    reader = _Reader(data)
    if reader.int32() != len(data) - 4:
        raise wire.WireError(f"a heartbeat was answered with {len(data)} bytes")
    reader.skip(9)  # correlation id, no tagged fields, throttle time
    if error := reader.int16():
        raise wire.WireError(f"ShareGroupHeartbeat was answered with error code {error}")
