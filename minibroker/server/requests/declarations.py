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

All but `needs` are optional (`requests.requirements`). A field `group_id` or `transactional_id` is found without a
declaration. `deadline` is for requests that Kafka's controller refuses with REQUEST_TIMED_OUT when their `timeout_ms`
is not above 0, unless the field that it names is empty. `plain` is for requests that are nearly always about one
partition, and come so often that a few microseconds count.

`requests.endpoints` collects the declarations; `requests.targets`, `requests.refusals` and `requests.dispatch` act on
them.
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
    """One thing that a request names; None for what it does not name."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


Implied = Callable[[Any, "Call"], tuple[Target, ...]]
"""From a request to the targets that it means without naming them, each once."""


class TopicList(NamedTuple):
    """Where the topics of a request are.

    Attributes:
        topics: the field of their list.
        name: the field of a topic's name; empty when the list holds the names themselves.
        partitions: the field of a topic's partitions; empty when partitions are not named.
        number: the field of a partition's number; empty when the partitions are numbers.
        within: the list whose elements hold the list of topics each; empty when the request itself holds it.
    """

    topics: str
    name: str
    partitions: str
    number: str
    within: str


class KeyList(NamedTuple):
    """A list of group ids or transactional ids.

    Attributes:
        field: the list.
        kind: "group", "transactional_id", or empty when the request's `key_type` decides.
        single: the field of the only key in versions without the list.
    """

    field: str
    kind: str
    single: str


class Names(NamedTuple):
    """The kinds of names in the requests of an API; `|` combines two.

    Attributes:
        resources: the list of config resources, of which some are topics and some groups.
        implied: adds the targets that a request means without naming them.
        answers_partitions: the response has partitions that the request does not name.
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
    """A list of topics, maybe with their partitions.

    `name` is the path to a topic's name: "topics.name", "groups.topics.name", or "topic_names" for a list of names.
    `partition` is the path from a topic to a partition's number: "partitions.partition_index", or "partition_indexes"
    for a list of numbers.
    """
    *within, listed, field = name.split(".") if "." in name else (name, "")
    partitions, _, number = partition.partition(".")
    found = TopicList(listed, field, partitions, number, ".".join(within))
    return Names((found,), implied=implied, answers_partitions=answers_partitions)


def groups_at(field: str) -> Names:
    """A list of group ids."""
    return Names(keys=KeyList(field, "group", ""))


def transactional_ids_at(field: str) -> Names:
    """A list of transactional ids."""
    return Names(keys=KeyList(field, "transactional_id", ""))


def coordinator_keys_at(field: str, single: str) -> Names:
    """A list of group ids or transactional ids, as `key_type` says, and the field of versions with a single key."""
    return Names(keys=KeyList(field, "", single))


def config_resources_at(field: str) -> Names:
    """A list of config resources."""
    return Names(resources=field)


Refuse = Callable[[Any, int, "ErrorCode"], Any]
"""From a request, its version and an error to the response that says the error."""


class Refusal(NamedTuple):
    """The refusals of an API's requests, as `AbstractRequest.getErrorResponse` makes them.

    The error code stands at the outermost level of the response that has one: at the top, or at each element that the
    request names. Fields without a default are empty. `whole` makes
    a response that this cannot describe.

    Attributes:
        values: fields that are not empty, by name.
        everywhere: the code stands at each level that has one.
        explained: `error_message` is the error's sentence.
        whole: makes the response itself.
        parts: makes a response with errors of some elements, beside others that are served.
    """

    values: Mapping[str, Any] = {}
    everywhere: bool = False
    explained: bool = False
    whole: Refuse | None = None
    parts: Refuse | None = None


class PlainShape(NamedTuple):
    """The way of requests in the plain shape: one element in each array (`minibroker_protocol.compiler`).

    It is open where no authorizer, quota or fault looks at messages.

    Attributes:
        handle: takes the values of a request; returns what is to be answered. None leads to the handler's `handle`,
            so it must decide before it does anything.
        values: called when the answer is encoded, after all appends are written, with what `handle` has returned.
            Returns the values of the response, or a whole response.
    """

    handle: Callable[[tuple[Any, ...], Call], Any]
    values: Callable[[Any], Any]


NO_NAMES: Final = Names()
PLAIN_REFUSAL: Final = Refusal()


Handle = Callable[[Any, "Call"], Any]
"""A handler. It returns a response, None for no response at all, a `DelayedResponse`, or work with one of these.

Work, nearly always a `ForEach`, is for a request that grows with what the client has sent, or with what the broker has.
It copies what it keeps of the request's BYTES fields past a step.
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
"""The handlers whose modules are loaded."""


def handles(
    key: ApiKey,
    *,
    needs: Requirement,
    names: Names = NO_NAMES,
    refusal: Refusal = PLAIN_REFUSAL,
    deadline: str | None = None,
    plain: PlainShape | None = None,
) -> Callable[[_H], _H]:
    """Declare that a function handles the requests of an API; `needs` are the rights of its clients."""

    def declare(handle: _H) -> _H:
        HANDLERS[key] = Handler(handle, needs, names, refusal, deadline, plain)
        return handle

    return declare
