"""Declarations of handlers: the rights that an API needs, the names in its requests, its error responses.

    @handles(
        ApiKey.DELETE_TOPICS,
        needs=asked_by_handler("DELETE on each topic"),
        names=topics_at("topics.name"),
        refusal=Refusal({"error_message": None}),
        deadline="topics",
        plain=PlainShape(_handle_plain, _plain_values),
    )
    def delete_topics(request, call): ...

Everything except `needs` is optional (`requests.requirements`). Fields named `group_id` and `transactional_id`
are found without a declaration. `deadline` is for requests that Kafka's controller rejects with
REQUEST_TIMED_OUT if their `timeout_ms` is not above 0. Requests in which the field named by `deadline` is empty
are not rejected. `plain` is for requests so frequent that a few microseconds matter, and that nearly always
concern a single partition.

`requests.endpoints` collects the declarations. `requests.targets`, `requests.refusals` and `requests.dispatch`
use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.requirements import Requirement
    from minibroker_protocol.api_keys import ApiKey
    from minibroker_protocol.error_codes import ErrorCode


class Target(NamedTuple):
    """One object that a request names, such as a topic. Fields that do not apply are None."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


Implied = Callable[[Any, "Call"], tuple[Target, ...]]
"""Returns the distinct targets that a request implies without naming them."""


class TopicList(NamedTuple):
    """The location of the topics in a request.

    Attributes:
        topics: The field with the list of topics.
        name: The field with a topic's name. Empty if the list contains the names themselves.
        partitions: The field with a topic's partitions. Empty if the request names no partitions.
        number: The field with a partition's number. Empty if the partitions are numbers.
        within: The list whose elements contain the list of topics. Empty if the request itself contains it.
    """

    topics: str
    name: str
    partitions: str
    number: str
    within: str


class KeyList(NamedTuple):
    """The location of a list of group ids or transactional ids in a request.

    Attributes:
        field: The field with the list.
        kind: "group" or "transactional_id". Empty if the request's `key_type` determines the kind.
        single: The field that holds the single key in versions without a list.
    """

    field: str
    kind: str
    single: str


class Names(NamedTuple):
    """The kinds of names in the requests of an API. `|` combines two of them.

    Attributes:
        topics: The lists of topics.
        keys: The list of group ids or transactional ids.
        resources: The field with the list of config resources, which can be topics or groups.
        implied: Returns the targets that a request implies without naming them.
        answers_partitions: Whether the response has partitions that the request does not name.
    """

    topics: tuple[TopicList, ...] = ()
    keys: KeyList | None = None
    resources: str = ""
    implied: Implied | None = None
    answers_partitions: bool = False

    def __or__(self, other: Names) -> Names:
        return self._replace(topics=self.topics + other.topics)


def topics_at(
    name: str, partition: str = "", *, implied: Implied | None = None, answers_partitions: bool = False
) -> Names:
    """Declare a list of topics, optionally with their partitions.

    Args:
        name: The path to a topic's name: "topics.name", "groups.topics.name", or "topic_names" for a list of names.
        partition: The path from a topic to a partition number: "partitions.partition_index", or "partition_indexes" for
            a list of numbers.
        implied: Returns the targets that a request implies without naming them.
        answers_partitions: Whether the response has partitions that the request does not name.
    """
    *within, list_field, field = name.split(".") if "." in name else (name, "")
    partitions, _, number = partition.partition(".")
    topic_list = TopicList(list_field, field, partitions, number, ".".join(within))
    return Names((topic_list,), implied=implied, answers_partitions=answers_partitions)


def groups_at(field: str) -> Names:
    """Declare a list of group ids."""
    return Names(keys=KeyList(field, "group", ""))


def transactional_ids_at(field: str) -> Names:
    """Declare a list of transactional ids."""
    return Names(keys=KeyList(field, "transactional_id", ""))


def coordinator_keys_at(field: str, single: str) -> Names:
    """Declare a list of group ids or transactional ids, according to `key_type`.

    `single` is the field that holds the single key in versions without a list.
    """
    return Names(keys=KeyList(field, "", single))


def config_resources_at(field: str) -> Names:
    """Declare a list of config resources."""
    return Names(resources=field)


Refuse = Callable[[Any, int, "ErrorCode"], Any]
"""Returns the error response for a request, its version and an error code."""


class Refusal(NamedTuple):
    """The error responses of an API, equal to those of Kafka's `AbstractRequest.getErrorResponse`.

    The error code is set at the outermost level that has one: at the top, or in each element that the request
    names. Fields without a default are empty. `whole` builds responses that these attributes cannot describe.

    Attributes:
        values: The values of fields that are not empty, by name.
        everywhere: Whether the code is set at every level that has a field for it.
        explained: Whether `error_message` contains the message of the error.
        whole: Builds the whole response.
        parts: Builds a response with errors for some elements, to be merged with the response for the served
            elements.
    """

    values: Mapping[str, Any] = {}
    everywhere: bool = False
    explained: bool = False
    whole: Refuse | None = None
    parts: Refuse | None = None


class PlainShape(NamedTuple):
    """The fast path for requests in which each array has one element (`minibroker_protocol.compiler`).

    It is used unless an authorizer, a quota or a fault inspects messages.

    Attributes:
        handle: Takes the values of a request and returns a result, or None to fall back to the regular handler. It
            must decide on the fallback before it changes anything.
        values: Takes the result of `handle`, and returns the values of the response, or a whole response. It is
            called when the response is encoded, after all appends are written.
    """

    handle: Callable[[tuple[Any, ...], Call], Any]
    values: Callable[[Any], Any]


NO_NAMES: Final = Names()
PLAIN_REFUSAL: Final = Refusal()


Handle = Callable[[Any, "Call"], Any]
"""A handler. It returns a response, None for no response, a `DelayedResponse`, or work that results in one of these.

Work, usually a `ForEach`, is for requests whose cost grows with the request or with the state of the broker. It must
copy BYTES fields of the request that it uses after its first step.
"""
_H = TypeVar("_H", bound=Handle)


class Handler(NamedTuple):
    """A handler with its declarations."""

    handle: Handle
    needs: Requirement
    names: Names
    refusal: Refusal
    deadline: str | None
    plain: PlainShape | None


HANDLERS: Final[dict[ApiKey, Handler]] = {}
"""The handlers in loaded modules."""


def handles(
    key: ApiKey,
    *,
    needs: Requirement,
    names: Names = NO_NAMES,
    refusal: Refusal = PLAIN_REFUSAL,
    deadline: str | None = None,
    plain: PlainShape | None = None,
) -> Callable[[_H], _H]:
    """Register a function as the handler of an API. `needs` are the rights that clients need."""

    def declare(handle: _H) -> _H:
        HANDLERS[key] = Handler(handle, needs, names, refusal, deadline, plain)
        return handle

    return declare
