"""kcat -P: sends lines of standard input, lines of a file (-l), or whole files as records."""

import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Final, cast

from minibroker_tools.client.cluster import Cluster
from minibroker_tools.client.producer import ACKS, CODECS, Outgoing, Producer
from minibroker_tools.commands.kcat import Given
from minibroker_tools.failures import ApiError, ToolError

_CHUNK: Final = 1 << 16


def produce(cluster: Cluster, given: Given) -> int:
    """Send the records. The exit status is 1 if the broker refuses any of them."""
    refused: list[ApiError] = []
    acks = cluster.settings.get("acks", "-1")
    if acks not in ACKS:
        raise ToolError(f"% ERROR: acks: {acks} is not one of all, -1, 0, 1")
    codec = CODECS.get(given.text("z") or cluster.settings.get("compression.type", "none"))
    if codec is None:
        raise ToolError(f"% ERROR: -z: {given.text('z')} is not one of {', '.join(CODECS)}")
    topic = given.text("t") or ""

    def note(_records: Sequence[Outgoing], error: ApiError) -> None:
        refused.append(error)
        sys.stderr.write(f"% ERROR: Failed to produce message: Broker: {error.message}\n")

    producer = Producer(cluster, topic, note, acks=acks, codec=codec)
    most, sent = given.number("c", -1), 0
    for pieces in _chunks(given):
        kept = pieces if most < 0 else pieces[: most - sent]
        if kept:
            producer.send([_record(given, piece) for piece in kept])
            sent += len(kept)
        if given.has("T"):
            sys.stdout.buffer.writelines(kept)
        if sent == most:
            break
    return 1 if refused else 0


def _chunks(given: Given) -> Iterator[list[bytes]]:
    """Yield the contents of the records in chunks, as they arrive."""
    if given.words and not given.has("l"):
        for path in given.words:
            with _opened(path) as file:
                yield [file.read()]
    elif given.words:
        with _opened(given.words[0]) as file:
            yield from _split(file, given)
    else:
        yield from _split(sys.stdin.buffer, given)


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise ToolError(f"% ERROR: Cannot open {path}: {error.strerror}") from None


def _split(file: BinaryIO, given: Given) -> Iterator[list[bytes]]:
    delimiter = (given.delimiter("D", "\n") or "\n").encode("latin-1")
    rest = b""
    while data := getattr(file, "read1", file.read)(_CHUNK):
        *pieces, rest = (rest + cast("bytes", data)).split(delimiter)
        yield [piece for piece in pieces if piece]  # kcat also skips empty lines.
    if rest:
        yield [rest]


def _record(given: Given, piece: bytes) -> Outgoing:
    fixed, delimiter = given.text("k"), given.delimiter("K", None)
    key: bytes | None = None if fixed is None else fixed.encode()
    value: bytes | None = piece
    if delimiter:
        before, found, after = piece.partition(delimiter.encode("latin-1"))
        if found:
            key, value = before, after
    if given.has("Z"):
        key, value = key or (fixed.encode() if fixed else None), value or None
    headers = tuple(
        (name, text.encode() if equals else None)
        for name, equals, text in (header.partition("=") for header in given.all("H"))
    )
    partition = given.number("p", -1)
    return Outgoing(key, value, headers, partition if partition >= 0 else None)
