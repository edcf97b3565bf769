"""Mutants for the files stage, which change files on disk without the broker's knowledge."""

import os
import shutil
from collections.abc import Callable
from typing import Final

from minibroker_protocol.api_keys import ApiKey
from tests.broker.grade.changes import flipped, mapped, removed, swap
from tests.broker.grade.relay import Mutant, caught

_FIRST: Final = "0" * 20


def _bytes(name: str, at: int, data: bytes) -> Callable[[str], None]:
    """Return a change that overwrites bytes of a partition's file as soon as the file has them."""

    def change(directory: str) -> None:
        path = os.path.join(directory, name)
        if os.path.exists(path) and os.path.getsize(path) >= at + len(data):
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(data)

    return change


def _more(name: str, data: bytes) -> Callable[[str], None]:
    """Return a change that appends bytes to a partition's file, creating it if necessary."""

    def change(directory: str) -> None:
        with open(os.path.join(directory, name), "ab") as file:
            file.write(data)

    return change


def _without_id(directory: str) -> None:
    path = os.path.join(directory, "partition.metadata")
    if os.path.exists(path):
        os.unlink(path)


def _cut(directory: str) -> None:
    """Remove the last byte of the first segment of each topic created by the checks."""
    for name in os.listdir(directory):
        path = os.path.join(directory, name, f"{_FIRST}.log")
        if name.startswith("grade-") and os.path.exists(path) and os.path.getsize(path):
            os.truncate(path, os.path.getsize(path) - 1)


def _without(part: str) -> Callable[[str], None]:
    """Return a change that removes files and directories whose name contains this part."""

    def change(directory: str) -> None:
        for name in os.listdir(directory):
            path = os.path.join(directory, name)
            if part in name:
                shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)

    return change


FILES: Final = caught(
    {
        "files/a-partition-has-a-directory-and-a-first-segment": [
            Mutant("a second segment that holds nothing", files=_more(f"{0:019}1.log", b""))
        ],
        "files/a-segment-is-its-batches": [
            Mutant("checksums in the file wrong", files=_bytes(f"{_FIRST}.log", 17, b"\0\0\0\0")),
            Mutant(
                "base offsets in the file as the producer wrote them",
                files=_bytes(f"{_FIRST}.log", 0, b"\0\0\0\0\0\0\0\7"),
            ),
            Mutant("bytes behind the last batch of the file", files=_more(f"{_FIRST}.log", b"\0")),
        ],
        "files/fetch-returns-the-bytes-of-the-file": [
            Mutant(
                "other bytes in Fetch than in the file",
                ApiKey.FETCH,
                mapped("responses.partitions.records", flipped(70)),
            )
        ],
        "files/segments-are-named-by-their-first-offset": [
            Mutant(
                "segments of any size",
                ApiKey.CREATE_TOPICS,
                request=removed("topics.configs", lambda config: config.name == "segment.bytes"),
            )
        ],
        "files/index-entries-lead-to-batches": [
            Mutant("index entries that lead into a batch", files=_bytes(f"{_FIRST}.index", 7, b"\x01")),
            Mutant("index entries with absolute offsets", files=_bytes(f"{_FIRST}.index", 0, b"\x7f")),
            Mutant("no index entries", ApiKey.CREATE_TOPICS, request=swap("topics.configs.value", "1000", "100000000")),
        ],
        "files/time-index-entries-rise-and-are-true": [
            Mutant("times in the index of no record", files=_bytes(f"{_FIRST}.timeindex", 7, b"\xfe"))
        ],
        "files/the-directory-knows-the-topics-id": [
            Mutant("another topic id in the directory", files=_bytes("partition.metadata", 23, b"AAAA")),
            Mutant("no partition.metadata", files=_without_id),
        ],
    }
)
FORGETFUL: Final = caught(
    {
        "files/acknowledged-records-outlive-a-kill": [Mutant("the last batch lost in a kill", restart=_cut)],
        "files/records-outlive-a-stop": [Mutant("the last batch lost in a stop", restart=_cut)],
        "files/topics-outlive-a-kill": [Mutant("topics lost in a kill", restart=_without(""))],
        "files/committed-offsets-outlive-a-kill": [
            Mutant("commits lost in a kill", restart=_without("__consumer_offsets-"))
        ],
        "files/half-a-batch-is-cut-off": [Mutant("records before half a batch lost, too", restart=_without("grade-"))],
    }
)
