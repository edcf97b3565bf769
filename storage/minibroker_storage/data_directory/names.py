"""The names of files and directories in a data directory, Kafka's and minibroker's own, and the file of its topics.

`layout` has those of a partition's files. `staged_write` and `files` have those of files that are being written.

`minibroker-topics.json` has the topics, and what their directories do not have:

    {"version": 1, "next_producer_id": 1000, "topics": {
    "orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

A line for each topic. Where there are several brokers, or were, a topic also has `replicas`, `leaders` and
`leader_epochs`, one for each partition. What a reset or a restore must not take back stands beside `next_producer_id`:
`first_leader_epoch`, with which partitions of new topics begin, and `first_valid_producer_id`: transactional ids with a
smaller one get another one (see `Topics`). A topic whose change was interrupted has `seeding` or `begins_at`.
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast

TopicPartition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

LOCK_FILE: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
TOPICS_FILE: Final = "minibroker-topics.json"
CLUSTER_FILE: Final = "minibroker-cluster.json"
LESSONS_FILE: Final = "minibroker-lessons.json"
SNAPSHOT_FILE: Final = "minibroker-snapshot.json"
BACKUP_SUFFIX: Final = ".bak"
"""Of the generation of a file of metadata that is on disk for sure."""

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (LOG_START_OFFSETS, CLEANER_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS)

MAX_TOPIC_NAME: Final = 249
"""Characters of the longest topic name, which leaves room for `-<partition>.<32 hex digits>-delete`."""
LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
PARTITION_DIRECTORY: Final = re.compile(rf"(?P<topic>{LEGAL_TOPIC.pattern})-(?P<partition>[0-9]+)")
"""A name that may be that of a partition's directory; `parse_partition_directory` knows whether it is."""
PASSING_DIRECTORY: Final = re.compile(r".+\.[0-9a-f]{32}-(?P<state>delete|future|stray)")
"""A partition's directory that Kafka is deleting, filling, or has set aside."""

_MAX_PARTITION: Final = 2**31 - 1


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Topic and partition of a directory `<topic>-<partition>`; None for every other name.

    The number is an int32 without leading zeros, as brokers write it.
    """
    match = PARTITION_DIRECTORY.fullmatch(name)
    if match is None or len(match["topic"]) > MAX_TOPIC_NAME:
        return None
    partition = int(match["partition"])
    if partition > _MAX_PARTITION or str(partition) != match["partition"]:
        return None
    return match["topic"], partition


_VERSION: Final = 1


class TopicsFileError(ValueError):
    """The topics file cannot be read; the message names it and says why."""


def parse_topics_file(data: bytes, path: str) -> dict[str, Any]:
    """The file's content. TopicsFileError, which names `path`."""
    try:
        content: object = json.loads(data)
    except ValueError as error:
        raise TopicsFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("version") != _VERSION:
        raise TopicsFileError(f"{path} is not a topics file of version {_VERSION}")
    return cast("dict[str, Any]", content)


def topics_file_line(name: str, entry: dict[str, Any]) -> bytes:
    """The line of a topic."""
    return f"{json.dumps(name)}: {json.dumps(entry)}".encode()


def format_topics_file(next_producer_id: int, lines: Iterable[bytes], **numbers: int) -> bytes:
    """Return the file with these lines of `topics_file_line`, and those of the other numbers that are not 0."""
    fields = {"version": _VERSION, "next_producer_id": next_producer_id}
    fields |= {name: number for name, number in numbers.items() if number}
    head = json.dumps(fields)[:-1].encode() + b', "topics": {'
    body = [*lines]
    if not body:
        return head + b"}}\n"
    body[0] = head + b"\n" + body[0]
    body[-1] += b"}}\n"
    return b",\n".join(body)  # copied once: of many topics that is most of the cost
