"""A thin client for the Kafka protocol, written with `struct` alone.

It deliberately shares no code with the broker: a mistake in the broker's codec would go unnoticed in a client that uses
the same codec. Each request has one fixed version that Kafka 2.1 to 4.x, minibroker and librdkafka's mock cluster all
serve. Field orders are those of Kafka's message definitions (ProduceRequest, FetchRequest and so on). Integers are
big-endian.
"""

import socket
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import crc32c

Bytes = bytes | bytearray | memoryview
PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS, CREATE_TOPICS, DELETE_TOPICS = 0, 1, 2, 3, 18, 19, 20
PRODUCE_VERSION = 7
EARLIEST, LATEST = -2, -1
NO_SESSION, NEW_SESSION = -1, 0
"""The session epochs of KIP-227: a full fetch without a session, and a full fetch that opens one."""

CORRELATION_ID_OFFSET = 8
"""The position of the correlation id in a request frame, after size int32, API key int16 and API version int16."""

_RESPONSE_HEADER = struct.Struct(">ii")
_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
BATCH_HEADER_SIZE = _BATCH_HEADER.size


class WireError(Exception):
    """A broker returned an error code, or bytes that are not the expected response."""


class Reader:
    """Reads the protocol's primitive types from one response, in order."""

    def __init__(self, data: Bytes) -> None:
        self.data = memoryview(data)
        self.position = 0

    def _unpack(self, layout: str, size: int) -> int:
        try:
            value: int = struct.unpack_from(layout, self.data, self.position)[0]
        except struct.error:
            raise WireError(f"the response ends at byte {len(self.data)}, within a field") from None
        self.position += size
        return value

    def skip(self, size: int) -> None:
        self.position += size

    def int8(self) -> int:
        return self._unpack(">b", 1)

    def int16(self) -> int:
        return self._unpack(">h", 2)

    def int32(self) -> int:
        return self._unpack(">i", 4)

    def int64(self) -> int:
        return self._unpack(">q", 8)

    def string(self) -> str:
        """Return a nullable string. Null becomes the empty string."""
        size = max(self.int16(), 0)
        self.position += size
        return str(self.data[self.position - size : self.position], "utf-8")

    def bytes(self) -> memoryview:
        """Return nullable bytes without copying them. Null becomes no bytes."""
        size = max(self.int32(), 0)
        self.position += size
        return self.data[self.position - size : self.position]

    def count(self) -> int:
        """Return the length of an array, or 0 for a null array."""
        return max(self.int32(), 0)


def string(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def request(api_key: int, version: int, body: bytes, correlation_id: int = 0) -> bytearray:
    """Return a frame with its length prefix, mutable so that a prebuilt frame can get its next correlation id."""
    header = struct.pack(">hhi", api_key, version, correlation_id) + string("bench")
    return bytearray(struct.pack(">i", len(header) + len(body)) + header + body)


# Record batches

_STRIDE = 7_919
"""A prime number, which makes the sizes of mixed values look arbitrary."""


def varint(value: int) -> bytes:
    zigzag = value << 1  # only lengths and deltas that are not negative occur here
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def record_batch(value_size: int, batch_bytes: int = 0, *, are_mixed: bool = False) -> tuple[bytes, int]:
    """Return an uncompressed batch (magic 2) of null-key records, at most `batch_bytes` large, and its record count.

    With `batch_bytes` 0, it has one record. Values that `are_mixed` have 0.5 to 1.5 times the size. The bytes are
    entirely valid (CRC32C, lengths, deltas), so a broker that checks them accepts the batch.
    """
    content = b"0123456789abcdef" * (value_size // 8 + 1)
    records = bytearray()
    count = 0
    while True:
        size = value_size // 2 + count * _STRIDE % value_size if are_mixed else value_size
        # Null key (zigzag -1), the value, no headers.
        body = b"\x00\x00" + varint(count) + b"\x01" + varint(size) + content[:size] + b"\x00"
        record = varint(len(body)) + body
        if count and BATCH_HEADER_SIZE + len(records) + len(record) > batch_bytes:
            break
        records += record
        count += 1
    now = int(time.time() * 1000)
    covered = struct.pack(">hiqqqhii", 0, count - 1, now, now, -1, -1, -1, count) + records
    # base offset 0, the length from the leader epoch to the end, leader epoch -1, magic 2, the CRC of all that follows
    return struct.pack(">qiibI", 0, len(covered) + 9, -1, 2, crc32c.crc32c(covered)) + covered, count


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The fields of a batch's 61 header bytes that a reader needs."""

    base_offset: int
    size: int
    records: int
    crc: int


def batch_header(data: Bytes, position: int = 0) -> BatchHeader:
    fields: tuple[int, ...] = _BATCH_HEADER.unpack_from(data, position)
    return BatchHeader(base_offset=fields[0], size=fields[1] + 12, records=fields[12], crc=fields[4])


def check_batch(data: memoryview) -> None:
    """Check that the batch at the start of `data` is complete and has the right CRC32C.

    Raises:
        WireError: It is incomplete or damaged.
    """
    header = batch_header(data)
    if len(data) < header.size or crc32c.crc32c(data[21 : header.size]) != header.crc:
        raise WireError("a fetched batch is not the batch that was produced")


# Produce v7


def produce_request(topic: str, partition: int, batch: bytes, acks: int = -1) -> bytearray:
    body = b"\xff\xff" + struct.pack(">hi", acks, 30_000)  # no transactional id
    body += struct.pack(">i", 1) + string(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch
    return request(PRODUCE, PRODUCE_VERSION, body)


def produced_offset(response: Bytes) -> int:
    """Return the base offset that the broker assigned to the request's only batch.

    Raises:
        WireError: The response has an error code.
    """
    reader = Reader(response)
    reader.int32()  # correlation id
    reader.count()
    reader.string()
    reader.count()
    reader.int32()
    if error := reader.int16():
        raise WireError(f"Produce was answered with error code {error}")
    return reader.int64()


# Fetch v7 (sessions) and v11 (what current clients send)


@dataclass(frozen=True, slots=True)
class FetchRange:
    """One partition of a fetch request, from `offset`, with at most `max_bytes`."""

    partition: int
    offset: int
    max_bytes: int


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The fields of a fetch request that apply to all partitions, in milliseconds and bytes."""

    version: int = 11
    max_wait: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    session_id: int = 0
    session_epoch: int = NO_SESSION


def fetch_request(topic: str, ranges: Sequence[FetchRange], options: FetchOptions) -> bytearray:
    """Return a fetch request. Without ranges it has no topic, like the fetch of a session without changes."""
    body = struct.pack(">iiiib", -1, options.max_wait, options.min_bytes, options.max_bytes, 0)
    body += struct.pack(">iii", options.session_id, options.session_epoch, 1 if ranges else 0)
    if ranges:
        body += string(topic) + struct.pack(">i", len(ranges))
    for fetch_range in ranges:
        body += struct.pack(">i", fetch_range.partition)
        if options.version >= 9:
            body += struct.pack(">i", -1)  # current leader epoch: not checked
        body += struct.pack(">qqi", fetch_range.offset, -1, fetch_range.max_bytes)
    body += struct.pack(">i", 0)  # no forgotten topics
    if options.version >= 11:
        body += string("")  # rack
    return request(FETCH, options.version, body)


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    partition: int
    error: int
    high_watermark: int
    records: memoryview


@dataclass(frozen=True, slots=True)
class Fetched:
    error: int
    session_id: int
    partitions: list[FetchedPartition]


def fetched(response: Bytes, version: int) -> Fetched:
    """Decode a whole fetch response (v7 to v11) without copying record bytes."""
    reader = Reader(response)
    reader.int32()  # correlation id
    reader.int32()  # throttle time
    error, session_id = reader.int16(), reader.int32()
    partitions: list[FetchedPartition] = []
    for _ in range(reader.count()):
        reader.string()
        for _ in range(reader.count()):
            index, code, high_watermark = reader.int32(), reader.int16(), reader.int64()
            reader.int64()  # last stable offset
            reader.int64()  # log start offset
            reader.skip(16 * reader.count())  # aborted transactions
            if version >= 11:
                reader.int32()  # preferred read replica
            partitions.append(FetchedPartition(index, code, high_watermark, reader.bytes()))
    return Fetched(error, session_id, partitions)


def fetch_prefix_size(topic: str) -> int:
    """Return the bytes before the records in a v11 response with one partition and no aborted transactions."""
    return 4 + 4 + 4 + 2 + 4 + 4 + len(string(topic)) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4


# Connection and the administrative requests


class Connection:
    """A blocking connection. `exchange` sends a body and returns the response after its length prefix."""

    def __init__(self, address: tuple[str, int], timeout: float = 60.0) -> None:
        self.socket = socket.create_connection(address, timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def receive_exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise WireError("the broker closed the connection")
            view = view[got:]
        return data

    def receive(self) -> bytearray:
        """Return one response frame without its length prefix, from the correlation id on."""
        size: int = struct.unpack(">i", self.receive_exactly(4))[0]
        return self.receive_exactly(size)

    def exchange(self, api_key: int, version: int, body: bytes) -> Reader:
        """Send one request, and return a reader that is positioned after the response's correlation id."""
        self._correlation_id += 1
        self.socket.sendall(request(api_key, version, body, self._correlation_id))
        reader = Reader(self.receive())
        if reader.int32() != self._correlation_id:
            raise WireError("the response carries another request's correlation id")
        return reader

    def api_keys(self) -> set[int]:
        """Return the API keys that the broker advertises (ApiVersions v0)."""
        reader = self.exchange(API_VERSIONS, 0, b"")
        if error := reader.int16():
            raise WireError(f"ApiVersions was answered with error code {error}")
        keys = set[int]()
        for _ in range(reader.count()):
            keys.add(reader.int16())
            reader.int32()  # the version range
        return keys

    def brokers(self) -> list[tuple[str, int]]:
        """Return the brokers of a Metadata v1 response for no topics."""
        return _read_brokers(self.exchange(METADATA, 1, struct.pack(">i", 0)))

    def metadata(self, topics: Sequence[str]) -> int:
        """Request these topics with Metadata v1, which may create them, and count the partitions with a leader."""
        reader = self.exchange(METADATA, 1, struct.pack(">i", len(topics)) + b"".join(map(string, topics)))
        _read_brokers(reader)
        reader.int32()  # controller
        led = 0
        for _ in range(reader.count()):
            reader.int16()
            reader.string()
            reader.int8()  # internal
            for _ in range(reader.count()):
                error, _index, leader = reader.int16(), reader.int32(), reader.int32()
                reader.skip(4 * reader.count())  # replicas
                reader.skip(4 * reader.count())  # in-sync replicas
                led += error == 0 and leader >= 0
        return led

    def await_partitions(self, topics: Sequence[str], partitions: int, timeout: float = 60.0) -> None:
        """Wait until these topics have `partitions` partitions with a leader.

        Raises:
            WireError: `timeout` seconds have passed.
        """
        deadline = time.monotonic() + timeout
        while (led := self.metadata(topics)) < partitions:
            if time.monotonic() > deadline:
                raise WireError(f"{led} of {partitions} partitions have a leader after {timeout:.0f} s")
            time.sleep(0.005)

    def create_topics(self, topics: Sequence[str], partitions: int, configs: Mapping[str, str] | None = None) -> None:
        """Create topics with replication factor 1 (CreateTopics v2).

        Raises:
            WireError: A topic was refused.
        """
        body = struct.pack(">i", len(topics))
        overrides = configs or {}
        for topic in topics:
            body += string(topic) + struct.pack(">ihii", partitions, 1, 0, len(overrides))
            body += b"".join(string(name) + string(value) for name, value in overrides.items())
        reader = self.exchange(CREATE_TOPICS, 2, body + struct.pack(">ib", 60_000, 0))
        reader.int32()  # throttle time
        for _ in range(reader.count()):
            topic, error, message = reader.string(), reader.int16(), reader.string()
            if error:
                raise WireError(f"CreateTopics for {topic} was answered with error code {error} {message}")

    def delete_topics(self, topics: Sequence[str]) -> None:
        """Delete topics (DeleteTopics v1).

        Raises:
            WireError: A topic was refused.
        """
        body = struct.pack(">i", len(topics)) + b"".join(map(string, topics)) + struct.pack(">i", 60_000)
        reader = self.exchange(DELETE_TOPICS, 1, body)
        reader.int32()  # throttle time
        for _ in range(reader.count()):
            topic, error = reader.string(), reader.int16()
            if error:
                raise WireError(f"DeleteTopics for {topic} was answered with error code {error}")

    def offset(self, topic: str, partition: int, timestamp: int = LATEST) -> int:
        """Return an offset of one partition (ListOffsets v1). `timestamp` is LATEST or EARLIEST."""
        body = struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">iiq", 1, partition, timestamp)
        reader = self.exchange(LIST_OFFSETS, 1, body)
        reader.count()
        reader.string()
        reader.count()
        reader.int32()
        if error := reader.int16():
            raise WireError(f"ListOffsets was answered with error code {error}")
        reader.int64()  # timestamp
        return reader.int64()


def _read_brokers(reader: Reader) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for _ in range(reader.count()):
        reader.int32()  # node id
        found.append((reader.string(), reader.int32()))
        reader.string()  # rack
    return found


def response_sizes(buffer: Bytes) -> tuple[int, int]:
    """Return the size and the correlation id at the start of a response frame."""
    size, correlation_id = _RESPONSE_HEADER.unpack_from(buffer)
    return size, correlation_id
