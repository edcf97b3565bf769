"""`minibroker-topics.json`: the topics of a data directory, and what their directories do not have.

    {"version": 1, "next_producer_id": 1000, "topics": {
    "orders": {"id": "<22 characters>", "partitions": 4, "configs": {"retention.ms": "60000"}}}}

A line for each topic. Where there are several brokers, or were, a topic also has `replicas`, `leaders` and
`leader_epochs`, one for each partition. What a reset or a restore must not take back stands beside `next_producer_id`:
`first_leader_epoch`, with which partitions of new topics begin, and `first_valid_producer_id`: transactional ids with a
smaller one get another one (see `Topics`). A topic whose change was interrupted has `seeding` or `begins_at`.
"""

import json
from collections.abc import Iterable
from typing import Any, Final, cast

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
