"""The names of files and directories in a data directory, Kafka's and minibroker's own.

`layout` has those of a partition's files. `staged_write` and `files` have those of files that are being written.
"""

import re
from typing import Final

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
