"""Serves requests about many groups or partitions, each of these in a separate step."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from minibroker.cluster.routing.slices import ForEach
from minibroker.coordinators.groups.modern.coordinator import ModernGroups
from minibroker.coordinators.groups.modern.group import GroupRefusedError
from minibroker.coordinators.groups.registry import AnyModernGroup
from minibroker.security.authorization.acls import Operation, ResourceType
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
    """Serve each partition of a request.

    Args:
        topics: The topics of the request.
        field: The field of a topic that lists its partitions.
        answer: Returns the result of a partition, given the topic and the partition from the request.
        topic_of: Returns the result of a topic, given the topic and the results of its partitions.
        conclude: Returns the response, given the results of the topics.
    """
    requested = [(topic, getattr(topic, field)) for topic in topics]

    def by_topic(results: list[Any]) -> Any:
        remaining = iter(results)
        return conclude([topic_of(topic, list(islice(remaining, len(partitions)))) for topic, partitions in requested])

    pairs = ((topic, partition) for topic, partitions in requested for partition in partitions)
    return ForEach(pairs, lambda pair: answer(*pair), by_topic)


def describe_groups(
    request: Any,
    call: Call,
    groups: ModernGroups[G],
    describe: Callable[[G, Call], D],
    make: Callable[..., D],
    conclude: Callable[[list[D]], Any],
) -> ForEach[Any]:
    """Describe modern groups, with the client's authorized operations if the request asks for them (KIP-430).

    Args:
        request: A request with `group_ids` and `include_authorized_operations`.
        call: The context of the request.
        groups: All groups of the type.
        describe: Describes a group, or raises GroupRefusedError.
        make: Creates the description of a refused group: the class, with the fields that only this type has.
        conclude: Returns the response, given the descriptions.
    """

    def describe_one(group_id: str) -> Any:
        try:
            check_group(groups, group_id, call)
            described: Any = describe(groups.existing(group_id), call)
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


def check_group(groups: ModernGroups[Any], group_id: str, call: Call) -> None:
    """Check that groups of a type are enabled, and that this broker coordinates a group and has loaded it.

    Raises:
        GroupRefusedError: UNSUPPORTED_VERSION, or the status of the group.
    """
    code = call.services.groups.status(group_id, call.node) if groups.is_enabled else ErrorCode.UNSUPPORTED_VERSION
    if code:
        raise GroupRefusedError(code)


def find_blank_field(**fields: str | None) -> str | None:
    """Return the error for the first of these fields that consists only of whitespace, or None."""
    blank = (name for name, text in fields.items() if text is not None and not text.strip())
    return next((f"{name} can't be empty." for name in blank), None)


def check_describable(call: Call, *assignments: Any) -> None:
    """Check that the client may describe every topic in the assignments of a group's member.

    Raises:
        GroupRefusedError: The client may not describe a topic.
    """
    topics = (topic.topic_name for assignment in assignments for topic in assignment.topic_partitions)
    if not all(call.allows(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        raise GroupRefusedError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Members of the group read topics that the client may not describe."
        )
