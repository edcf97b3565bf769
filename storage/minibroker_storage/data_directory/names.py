"""Names of files and directories in a data directory, both Kafka's and minibroker's, and the topics file format.

The names of a partition's files are in `layout`, and those of temporary files in `staged_write` and `files`.

`minibroker-topics.json` lists the topics, with the data that their directories do not contain:

    {"version": 1, "next_producer_id": 1000, "topics": {
    "orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

Each topic is on its own line. If the cluster has ever had several brokers, a topic also has `replicas`, `leaders` and
`leader_epochs`, with one item per partition. A topic whose change was interrupted has `seeding` or `begins_at`.

Like `next_producer_id`, two more numbers survive a reset and a restore. `first_leader_epoch` is the first leader epoch
of new topics' partitions. A transactional id whose producer id is below `first_valid_producer_id` gets a new producer
id (see `Topics`).
"""

import json
import re
from collections.abc import Iterable
from typing import Any, Final, cast

TopicPartition = tuple[str, int]
"""A topic name and a partition number."""

LOCK_FILE: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
TOPICS_FILE: Final = "minibroker-topics.json"
CLUSTER_FILE: Final = "minibroker-cluster.json"
NODES_FILE: Final = "minibroker-nodes.json"
LESSONS_FILE: Final = "minibroker-lessons.json"
SNAPSHOT_FILE: Final = "minibroker-snapshot.json"
BACKUP_SUFFIX: Final = ".bak"
"""Suffix of a metadata file's previous generation, which is known to be on disk."""

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
OFFSET_CHECKPOINTS: Final = (LOG_START_OFFSETS, CLEANER_OFFSETS, RECOVERY_POINTS, HIGH_WATERMARKS)

MAX_TOPIC_NAME: Final = 249
"""Maximum length of a topic name in characters. It leaves room for `-<partition>.<32 hex digits>-delete`."""
LEGAL_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
PARTITION_DIRECTORY: Final = re.compile(rf"(?P<topic>{LEGAL_TOPIC.pattern})-(?P<partition>[0-9]+)")
"""Matches every partition directory and some other names; `parse_partition_directory` decides."""
TEMPORARY_DIRECTORY: Final = re.compile(r".+\.[0-9a-f]{32}-(?P<state>delete|future|stray)")
"""Matches a partition directory that Kafka is deleting or filling, or has set aside."""

_MAX_PARTITION: Final = 2**31 - 1


def parse_partition_directory(name: str) -> TopicPartition | None:
    """Return the topic and partition of a directory `<topic>-<partition>`, or None for any other name.

    Brokers write the partition as an int32 without leading zeros.
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
    """The topics file cannot be read. The message names the file and the reason."""


def parse_topics_file(data: bytes, path: str) -> dict[str, Any]:
    """Parse the content of a topics file.

    Raises:
        TopicsFileError: the content is invalid; the message names `path`.
    """
    try:
        content: object = json.loads(data)
    except ValueError as error:
        raise TopicsFileError(f"{path} is not JSON: {error}") from None
    if not isinstance(content, dict) or cast("dict[str, Any]", content).get("version") != _VERSION:
        raise TopicsFileError(f"{path} is not a topics file of version {_VERSION}")
    return cast("dict[str, Any]", content)


def topics_file_line(name: str, entry: dict[str, Any]) -> bytes:
    """Format the line of a topic in the topics file, without its line break."""
    return f"{json.dumps(name)}: {json.dumps(entry)}".encode()


def format_topics_file(next_producer_id: int, lines: Iterable[bytes], **numbers: int) -> bytes:
    """Return the content of a topics file from lines made by `topics_file_line`. Omit all `numbers` that are 0."""
    fields = {"version": _VERSION, "next_producer_id": next_producer_id}
    fields |= {name: number for name, number in numbers.items() if number}
    head = json.dumps(fields)[:-1].encode() + b', "topics": {'
    body = [*lines]
    if not body:
        return head + b"}}\n"
    body[0] = head + b"\n" + body[0]
    body[-1] += b"}}\n"
    return b",\n".join(body)  # A single join avoids further copies, which dominate the cost with many topics.
