"""Files with JSON that name partitions: `{"partitions": [{"topic": "t", "partition": 0, ...}]}`."""

import json
from typing import Any, cast

from minibroker_tools.client.offsets import TopicPartition
from minibroker_tools.failures import ToolError


def read_json(path: str) -> Any:
    """The JSON of a file. ToolError when it cannot be read or is not JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        raise ToolError(f"Unable to read file {path}") from None
    try:
        return json.loads(text)
    except ValueError:
        raise ToolError("The input string is not a valid JSON") from None


def entries_of(path: str, content: Any, missing: str) -> list[tuple[TopicPartition, dict[str, Any]]]:
    """The list `partitions` of the content, each entry with its partition. ToolError, `missing` without the list."""
    members = members_of(content)
    if not isinstance(members.get("partitions"), list):
        raise ToolError(missing)
    found: list[Any] = members["partitions"]
    entries: list[tuple[TopicPartition, dict[str, Any]]] = []
    for each in found:
        entry = members_of(each)
        topic, partition = entry.get("topic"), entry.get("partition")
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise ToolError(f"{path}: {json.dumps(each)} has no topic and number of a partition")
        entries.append(((topic, partition), entry))
    return entries


def members_of(content: Any) -> dict[str, Any]:
    """The members of a JSON object, none of anything else."""
    return cast("dict[str, Any]", content) if isinstance(content, dict) else {}


def twice(partitions: list[TopicPartition]) -> list[str]:
    """The partitions that stand more than once, as Kafka names them."""
    return sorted({named(each) for each in partitions if partitions.count(each) > 1})


def named(partition: TopicPartition) -> str:
    """A partition as Kafka names it, such as orders-0."""
    return f"{partition[0]}-{partition[1]}"
