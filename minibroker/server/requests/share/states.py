"""Requests to the share coordinator, which name share-partitions of one group."""

from collections.abc import Callable
from typing import Any, TypeVar

from minibroker.cluster.routing.slices import Steps
from minibroker.coordinators.share_state.state import SharePartitionKey

R = TypeVar("R")


def answer_each(
    request: Any,
    serve: Callable[[SharePartitionKey, Any], Any],
    result: Callable[..., R],
    *,
    may_be_empty: bool = False,
) -> Steps[list[R]]:
    """Serve each share-partition of a request, and return the results of its topics.

    As in Kafka there are none for a request without a group.

    Args:
        request: A request with a `group_id` and `topics`.
        serve: Returns the result of a share-partition, given its key and its part of the request.
        result: The class of the result of a topic.
        may_be_empty: Whether a topic without partitions is served. Otherwise there are no results then.
    """
    if not request.group_id or not (may_be_empty or all(topic.partitions for topic in request.topics)):
        return []
    results: list[R] = []
    for topic in request.topics:
        partitions: list[Any] = []
        for asked in topic.partitions:
            partitions.append(serve(SharePartitionKey(request.group_id, topic.topic_id, asked.partition), asked))
            yield
        results.append(result(topic_id=topic.topic_id, partitions=partitions))
    return results
