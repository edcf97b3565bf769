"""Deletion of topics: their directories, also on a full disk.

A deletion renames a topic's directories, then writes the topics file without it, then removes the directories. The
first of them gets a name that holds the topic's id. From then on the deletion counts: the next start takes the topic
out of the file, and removes its other directories. Where the disk has no room for the file, the directories are
removed first. If there is no room even then, the first one stays, empty.
"""

import contextlib
import logging
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from minibroker_storage.data_directory.names import PASSING_DIRECTORY
from minibroker_storage.layout import purge

_MARKER: Final = re.compile(r"deleted-0\.(?P<id>[0-9a-f]{32})-unnoted-delete\Z")
"""Of the form that Kafka removes at its start."""
_logger = logging.getLogger(__name__)


def purge_logged(directories: Iterable[str]) -> None:
    """Remove directories, in any thread; an error is logged, and the next start tries again.

    Of one that is a symbolic link only the link goes, with a warning.
    """
    for directory in directories:
        try:
            if os.path.islink(directory):
                _logger.warning("%s: its files stay where the link leads: %s", directory, os.readlink(directory))
            purge(directory)
        except OSError as error:
            _logger.warning("%s cannot be removed: %s", directory, error)


def is_leftover(name: str) -> bool:
    """Whether a directory of this name is what a deletion has left behind."""
    match = PASSING_DIRECTORY.fullmatch(name)
    return match is not None and match["state"] == "delete"


def marker_of(data_dir: str, topic_id: bytes) -> str:
    """Return the path of a directory that says that a topic was deleted."""
    return f"{data_dir}/deleted-0.{topic_id.hex()}-unnoted-delete"


def mark(data_dir: str, name: str, topic_id: bytes, directories: Sequence[str]) -> str:
    """Give one of a deleted topic's directories the name that says so; returns its path. An error is logged."""
    marker = marker_of(data_dir, topic_id)
    for directory in directories:
        with contextlib.suppress(OSError):
            os.rename(directory, marker)
            return marker
    try:
        os.mkdir(marker)
    except OSError as error:
        _logger.error("The deletion of %s may not outlast this run: %s", name, error)  # noqa: TRY400 - not ours
    return marker


def marked(data_dir: str) -> dict[bytes, str]:
    """The markers of a data directory: topic id -> path. OSError."""
    with os.scandir(data_dir) as entries:
        return {bytes.fromhex(match["id"]): entry.path for entry in entries if (match := _MARKER.match(entry.name))}
