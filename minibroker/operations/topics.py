"""Operations on topics, without a client."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from minibroker.cluster.directories import purge_and_log_errors
from minibroker.cluster.errors import ConflictError, OperationError, is_the_callers
from minibroker.cluster.topic_admin import DEFAULT, TopicError, create_topics, plan_topic
from minibroker.cluster.topics import Topic
from minibroker.config.topic import hint_of_unknown_key
from minibroker.operations.records import partitions_of, topic_of
from minibroker.operations.wording import UInt32, config_text
from minibroker.server.services import Services
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import uuid_text

__tracebackhide__ = is_the_callers


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic.

    Attributes:
        topic_id: The id in Kafka's text format.
        configs: The values that differ from the broker's defaults.
    """

    name: str
    topic_id: str
    partitions: UInt32
    configs: Mapping[str, str]
    is_internal: bool


def describe_topics(services: Services) -> dict[str, TopicDescription]:
    """Return the descriptions of all topics by name, sorted by name."""
    return {topic.name: _describe(topic) for topic in sorted(services.core.topics, key=lambda topic: topic.name)}


def describe_topic(services: Services, name: str) -> TopicDescription:
    """Return the description of a topic.

    Raises:
        NotFoundError: the topic does not exist.
    """
    return _describe(topic_of(services, name))


def topics_page(services: Services, after: str, limit: int) -> tuple[list[TopicDescription], str | None]:
    """Return a page of at most `limit` topics with names after `after`, and the `after` of the next page.

    On the last page, the next `after` is None.
    """
    topics = services.core.topics
    names, next_after = page_of((topic.name for topic in topics), after, limit)
    return [_describe(topic) for name in names if (topic := topics.get(name)) is not None], next_after


def create_topic(
    services: Services,
    name: str,
    *,
    partitions: int | None = None,
    replication_factor: int | None = None,
    configs: Mapping[str, str | float | bool] | None = None,
) -> TopicDescription:
    """Create a topic. By default it has the broker's default number of partitions.

    As in CreateTopics, a single broker accepts any replication factor and uses 1.

    Raises:
        OperationError: CreateTopics would refuse the topic.
    """
    texts = {key: config_text(value) for key, value in (configs or {}).items()}
    for argument, value in (("partitions", partitions), ("replication_factor", replication_factor)):
        if value is not None and not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance] - not all callers have types
            raise OperationError(f"{argument}: {value!r} is not a whole number")
    try:
        plan = plan_topic(
            services.core,
            name,
            DEFAULT if partitions is None else partitions,
            DEFAULT if replication_factor is None else replication_factor,
            texts,
        )
        (topic,) = create_topics(services.core, [plan])
    except TopicError as error:
        kind = ConflictError if error.code is ErrorCode.TOPIC_ALREADY_EXISTS else OperationError
        hint = hint_of_unknown_key(error, texts) or _hint_of_name(name)
        raise kind(f"topic {name!r}: {error}{hint}") from None
    return _describe(topic)


def _hint_of_name(name: str) -> str:
    """Return a hint for a name written like an entry of the option `topics`, such as `orders:4`."""
    start, colon, partitions = name.partition(":")
    return f"; write create_topic({start!r}, {partitions})" if colon and partitions.isdecimal() else ""


def delete_topic(services: Services, name: str) -> None:
    """Delete a topic and the offsets that groups have committed for it.

    Raises:
        NotFoundError: the topic does not exist.
    """
    topic = topic_of(services, name)
    services.core.writes.commit()
    services.core.background(partial(purge_and_log_errors, services.core.topics.delete(topic)))
    services.core.hooks.topics_deleted([name])


def leader_of(services: Services, topic: str, partition: int) -> int | None:
    """Return the node id of a partition's leader, or None without a leader.

    Raises:
        NotFoundError: the topic or partition does not exist.
    """
    (chosen,) = partitions_of(topic_of(services, topic), partition)
    return None if chosen.leader is None else chosen.leader.id


def _describe(topic: Topic) -> TopicDescription:
    overrides = dict(topic.config.overrides)
    return TopicDescription(topic.name, uuid_text(topic.id), len(topic.partitions), overrides, topic.is_internal)


def page_of(names: Iterable[str], after: str, limit: int) -> tuple[list[str], str | None]:
    """Return a page of at most `limit` sorted names after `after`, and the `after` of the next page.

    On the last page, the next `after` is None. Names added or removed between two pages do not shift the others.
    """
    following = sorted(name for name in names if name > after) if after else sorted(names)
    page = following[:limit]
    return page, page[-1] if len(following) > limit else None
