"""Requests about many groups or partitions: each is answered by itself, and takes a step."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.groups.modern.coordinator import GroupRefusedError, ModernGroups
from minibroker.coordinators.groups.registry import AnyModernGroup
from minibroker.security.authorization.acls import ResourceType
from minibroker.server.requests.call import Call
from minibroker.server.requests.requirements import authorized_operations
from minibroker_protocol.error_codes import ErrorCode

G = TypeVar("G", bound=AnyModernGroup)
D = TypeVar("D")


def for_each_partition(
    topics: Sequence[Any],
    field: str,
    answer: Callable[[Any, Any], Any],
    topic_of: Callable[[Any, list[Any]], Any],
    conclude: Callable[[list[Any]], Any],
) -> ForEach[Any]:
    """Answer each partition of a request.

    Args:
        topics: the topics of the request.
        field: the field of a topic that lists its partitions.
        answer: returns the result of a partition, given its topic and the partition as the request has them.
        topic_of: returns the result of a topic, given the topic and the results of its partitions.
        conclude: returns the response, given the results of the topics.
    """
    listed = [getattr(topic, field) for topic in topics]

    def by_topic(results: list[Any]) -> Any:
        left = iter(results)
        return conclude(
            [topic_of(topic, list(islice(left, len(each)))) for topic, each in zip(topics, listed, strict=True)]
        )

    pairs = ((topic, partition) for topic, each in zip(topics, listed, strict=True) for partition in each)
    return ForEach(pairs, lambda pair: answer(*pair), by_topic)


def described_groups(
    request: Any,
    call: Call,
    groups: ModernGroups[G],
    describe: Callable[[G, Call], D],
    make: Callable[..., D],
    conclude: Callable[[list[D]], Any],
) -> ForEach[Any]:
    """Describe modern groups, with the client's operations on them if the request asks for these (KIP-430).

    Args:
        request: has `group_ids` and `include_authorized_operations`.
        call: the context of the request.
        groups: all groups of the kind.
        describe: describes a group, or raises GroupRefusedError.
        make: makes the description of a group that is refused: the class, with fields that only this kind has.
        conclude: returns the response, given the descriptions.
    """

    def describe_one(group_id: str) -> Any:
        try:
            described: Any = describe(_existing(groups, group_id, call), call)
        except GroupRefusedError as error:
            return make(
                error_code=error.code,
                error_message=error.message,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                members=[],
            )
        if request.include_authorized_operations:
            described.authorized_operations = authorized_operations(call, ResourceType.GROUP, group_id)
        return described

    return ForEach(request.group_ids, describe_one, conclude)


def _existing(groups: ModernGroups[G], group_id: str, call: Call) -> G:
    """Return the group. Raise GroupRefusedError: UNSUPPORTED_VERSION, GROUP_ID_NOT_FOUND, or the group's status."""
    code = call.services.groups.status(group_id, call.node) if groups.is_enabled else ErrorCode.UNSUPPORTED_VERSION
    if code:
        raise GroupRefusedError(code)
    return groups.existing(group_id)
