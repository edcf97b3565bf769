"""kcat -P: sends lines from standard input, lines from a file (-l), or whole files as records."""

import sys
from collections.abc import Iterator
from typing import BinaryIO, Final, cast

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.producer import ACKS, CODECS, Outgoing, Producer
from minibroker_tools.commands.kcat import KcatOptions
from minibroker_tools.failures import ToolError

_CHUNK_BYTES: Final = 1 << 16


def produce(cluster: Cluster, options: KcatOptions) -> int:
    """Send the records. The exit status is 1 if the broker refuses any of them."""
    acks = cluster.settings.get("acks", "-1")
    if acks not in ACKS:
        raise ToolError(f"% ERROR: acks: {acks} is not one of all, -1, 0, 1")
    codec = CODECS.get(options.text("z") or cluster.settings.get("compression.type", "none"))
    if codec is None:
        raise ToolError(f"% ERROR: -z: {options.text('z')} is not one of {', '.join(CODECS)}")
    topic = options.text("t") or ""
    producer = Producer(cluster, topic, acks=acks, codec=codec)
    limit, sent, status = options.number("c", -1), 0, 0
    for chunk in _read_chunks(options):
        payloads = chunk if limit < 0 else chunk[: limit - sent]
        if payloads:
            for batch in producer.send([_parse_record(options, payload) for payload in payloads]):
                if batch.error is not None:
                    status = 1
                    sys.stderr.write(f"% ERROR: Failed to produce message: Broker: {batch.error.message}\n")
            sent += len(payloads)
        if options.has("T"):
            sys.stdout.buffer.writelines(payloads)
        if sent == limit:
            break
    return status


def _read_chunks(options: KcatOptions) -> Iterator[list[bytes]]:
    """Yield the payloads of the records in chunks, as they arrive."""
    if not options.words:
        yield from _split_records(sys.stdin.buffer, options)
    elif options.has("l"):
        with _open_file(options.words[0]) as file:
            yield from _split_records(file, options)
    else:
        for path in options.words:
            with _open_file(path) as file:
                yield [file.read()]


def _open_file(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ToolError(f"% ERROR: Cannot open {path}: {error.strerror}") from None


def _split_records(file: BinaryIO, options: KcatOptions) -> Iterator[list[bytes]]:
    delimiter = (options.delimiter("D", "\n") or "\n").encode("latin-1")
    incomplete = b""
    while data := getattr(file, "read1", file.read)(_CHUNK_BYTES):
        *payloads, incomplete = (incomplete + cast("bytes", data)).split(delimiter)
        yield [payload for payload in payloads if payload]  # Like kcat, skip empty lines.
    if incomplete:
        yield [incomplete]


def _parse_record(options: KcatOptions, payload: bytes) -> Outgoing:
    fixed, delimiter = options.text("k"), options.delimiter("K", None)
    key: bytes | None = None if fixed is None else fixed.encode()
    value: bytes | None = payload
    if delimiter:
        before, separator, after = payload.partition(delimiter.encode("latin-1"))
        if separator:
            key, value = before, after
    if options.has("Z"):
        key, value = key or (fixed.encode() if fixed else None), value or None
    headers = tuple(
        (name, text.encode() if equals else None)
        for name, equals, text in (header.partition("=") for header in options.all("H"))
    )
    partition = options.number("p", -1)
    return Outgoing(key, value, headers, partition if partition >= 0 else None)
