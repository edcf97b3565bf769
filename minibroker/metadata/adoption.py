"""Partition directories that the topics file does not name, such as those of an Apache Kafka.

They tell a topic's name, id, partitions and leader epochs, but not its configuration.
"""

import contextlib
import os
import re
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from minibroker.metadata.deletion import is_leftover, purge_logged
from minibroker_storage.checkpoints import LeaderEpochCheckpoint, new_uuid, read_partition_metadata
from minibroker_storage.errors import CorruptCheckpointError
from minibroker_storage.layout import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA

_PARTITION_DIRECTORY: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>\d+)\Z")


class Adopted(NamedTuple):
    """A topic that only its directories tell of; `leader_epochs` has one for each partition."""

    name: str
    topic_id: bytes
    leader_epochs: list[int]


def clear_away(data_dir: str) -> None:
    """Remove the leftovers of deletions; one that cannot be removed stays, with a warning. OSError."""
    with os.scandir(data_dir) as entries:
        purge_logged([entry.path for entry in entries if is_leftover(entry.name)])


def find_topics(data_dir: str, known: Container[str]) -> Iterator[Adopted]:
    """The topics of all partition directories but those of `known` names. OSError."""
    found: dict[str, int] = {}
    for entry in os.scandir(data_dir):
        if (match := _PARTITION_DIRECTORY.match(entry.name)) and match["topic"] not in known and entry.is_dir():
            found[match["topic"]] = max(found.get(match["topic"], 0), int(match["partition"]) + 1)
    for name, partitions in found.items():
        epochs = [_epoch_in(f"{data_dir}/{name}-{index}") for index in range(partitions)]
        yield Adopted(name, _topic_id_in(f"{data_dir}/{name}-{partitions - 1}"), epochs)


def _topic_id_in(directory: str) -> bytes:
    """The topic id that a partition directory names, or a new one: Kafka before 2.8 had none."""
    try:
        return read_partition_metadata(f"{directory}/{PARTITION_METADATA}")
    except (FileNotFoundError, CorruptCheckpointError):
        return new_uuid()


def _epoch_in(directory: str) -> int:
    """The last leader epoch that a partition directory knows; 0 if it knows none."""
    epochs = LeaderEpochCheckpoint(f"{directory}/{LEADER_EPOCH_CHECKPOINT}")
    with contextlib.suppress(OSError, CorruptCheckpointError):
        epochs.load()
    return max(epochs.latest_epoch, 0)
