"""Topic ids in requests (KIP-516), resolved to names: handlers and logs go by names."""

from collections.abc import Iterable
from typing import Protocol, TypeVar

from minibroker.cluster.topics import Topics


class ById(Protocol):
    """A topic of a request: in versions with ids its name is empty."""

    name: str
    topic_id: bytes


_T = TypeVar("_T", bound=ById)


def with_names(topics: Topics, requested: Iterable[_T]) -> tuple[list[_T], list[_T]]:
    """(topics that exist, with their names filled in; those with an unknown id), each in the order of `wanted`."""
    known: list[_T] = []
    unknown: list[_T] = []
    for each in requested:
        topic = topics.with_id(each.topic_id)
        if topic is None:
            unknown.append(each)
        else:
            each.name = topic.name
            known.append(each)
    return known, unknown
