"""What a request is about: the topics, partitions, groups and transactional ids that it names.

Requests name them in a handful of forms: lists of topics with lists of partitions, lists of names, single fields,
and lists of such things within transactions, markers or groups. The tables here say which API has which; `targets_of`
reads them, and `without` and `only` make the same request of some of them.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from minibroker.call import Call
from minibroker.config.resources import ConfigResourceType
from minibroker.core import Core
from minibroker_protocol.primitives import ZERO_UUID


class Target(NamedTuple):
    """One thing that a request is about; None for what it does not name."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None


Keep = Callable[[Target], bool]


class _TopicList(NamedTuple):
    """Where topics are: the fields of their list, name, list of partitions, and number of a partition.

    Attributes:
        name: empty when the list holds the names themselves.
        partitions: empty when partitions are not named.
        number: empty when the partitions are numbers.
        within: the list that holds this one, once for each of its elements.
    """

    topics: str
    name: str
    partitions: str = ""
    number: str = ""
    within: str = ""


class _Names(NamedTuple):
    """A list of group ids or transactional ids."""

    names: str
    is_group: bool


_TOPICS: Final[dict[str, tuple[_TopicList, ...]]] = {
    "Produce": (_TopicList("topic_data", "name", "partition_data", "index"),),
    "Fetch": (_TopicList("topics", "topic", "partitions", "partition"),),
    "ListOffsets": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "Metadata": (_TopicList("topics", "name"),),
    "OffsetCommit": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "OffsetFetch": (
        _TopicList("topics", "name", "partition_indexes"),
        _TopicList("topics", "name", "partition_indexes", within="groups"),
    ),
    "CreateTopics": (_TopicList("topics", "name"),),
    "DeleteTopics": (_TopicList("topics", "name"), _TopicList("topic_names", "")),
    "DeleteRecords": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "AddPartitionsToTxn": (
        _TopicList("v3_and_below_topics", "name", "partitions"),
        _TopicList("topics", "name", "partitions", within="transactions"),
    ),
    "WriteTxnMarkers": (_TopicList("topics", "name", "partition_indexes", within="markers"),),
    "TxnOffsetCommit": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "CreatePartitions": (_TopicList("topics", "name"),),
    "OffsetDelete": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "DescribeProducers": (_TopicList("topics", "name", "partition_indexes"),),
    "AlterReplicaLogDirs": (_TopicList("topics", "name", "partitions", within="dirs"),),
    "ElectLeaders": (_TopicList("topic_partitions", "topic", "partitions"),),
    "AlterPartitionReassignments": (_TopicList("topics", "name", "partitions", "partition_index"),),
    "DescribeTopicPartitions": (_TopicList("topics", "name"),),
    "OffsetForLeaderEpoch": (_TopicList("topics", "topic", "partitions", "partition"),),
}
_NAMES: Final = {
    "DescribeGroups": _Names("groups", is_group=True),
    "ConsumerGroupDescribe": _Names("group_ids", is_group=True),
    "DeleteGroups": _Names("groups_names", is_group=True),
    "DescribeTransactions": _Names("transactional_ids", is_group=False),
    "FindCoordinator": _Names("coordinator_keys", is_group=True),  # or not: see `_is_about_groups`
}
_CONFIGS: Final = frozenset({"DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"})
"""These have a list of resources, of which some are topics, some groups, and others neither."""
_WITH_GROUP: Final = frozenset(
    {
        "OffsetCommit",
        "OffsetFetch",
        "FindCoordinator",
        "JoinGroup",
        "Heartbeat",
        "LeaveGroup",
        "SyncGroup",
        "ConsumerGroupHeartbeat",
        "ConsumerGroupDescribe",
        "DescribeGroups",
        "DeleteGroups",
        "AddOffsetsToTxn",
        "TxnOffsetCommit",
        "OffsetDelete",
    }
)
_WITH_TRANSACTIONAL_ID: Final = frozenset(
    {
        "Produce",
        "FindCoordinator",
        "InitProducerId",
        "AddPartitionsToTxn",
        "AddOffsetsToTxn",
        "EndTxn",
        "TxnOffsetCommit",
        "DescribeTransactions",
    }
)
_FIELDS_OF_TRANSACTION: Final = ("transactional_id", "v3_and_below_transactional_id")


def named_by(api: str) -> frozenset[str]:
    """Which fields of `Target` the requests of an API can have."""
    found: set[str] = set()
    if api in _TOPICS:
        found.add("topic")
        # The answer of Metadata tells of partitions, and a fault may be about one.
        if api == "Metadata" or any(each.partitions for each in _TOPICS[api]):
            found.add("partition")
    if api in _CONFIGS:
        found.add("topic")
    if api in _WITH_GROUP | _CONFIGS:
        found.add("group")
    if api in _WITH_TRANSACTIONAL_ID:
        found.add("transactional_id")
    return frozenset(found)


def targets_of(api: str, request: Any, version: int, call: Call) -> tuple[Target, ...]:
    """All that a request is about; a single empty target if it names nothing.

    A fetch of a session is about the session's partitions, and a Metadata request for all topics about those.
    """
    if request is None:
        return (Target(),)
    core = call.core
    found = tuple(_walk(api, request, core))
    if api == "Fetch":
        session = call.node.fetch_sessions.get(request.session_id)
        if session is not None and request.session_epoch > 0:
            gone = {
                (each.topic if session.names is None else each.topic_id, index)
                for each in request.forgotten_topics_data
                for index in each.partitions
            }
            held = (
                Target(_name_of_key(topic, core), index)
                for topic, index in session.partitions
                if (topic, index) not in gone
            )
            found = tuple(dict.fromkeys((*found, *held)))
    elif api == "Metadata" and (request.topics is None or (version == 0 and not request.topics)):
        found = tuple(Target(topic.name) for topic in core.topics)
    return found or (Target(group=_field(request, "group_id"), transactional_id=_transactional_id(request)),)


def names_of(api: str, request: Any, core: Core) -> list[str | None]:
    """The topics that a request names, else its groups or transactional ids; None for each id that no topic has."""
    found: list[str | None] = []
    for shape in _TOPICS.get(api, ()):
        for holder in getattr(request, shape.within) if shape.within else (request,):
            found += [_name(shape, topic, core) for topic in getattr(holder, shape.topics) or ()]
    listed = _NAMES.get(api)
    if listed is not None:
        found += getattr(request, listed.names) or ([request.key] if api == "FindCoordinator" else [])
    return found


def _walk(api: str, request: Any, core: Core) -> Iterator[Target]:
    for shape in _TOPICS.get(api, ()):
        for holder in getattr(request, shape.within) if shape.within else (request,):
            yield from _walk_topics(shape, holder, request, core)
    if api in _CONFIGS:
        yield from map(_resource, request.resources)
    names = _NAMES.get(api)
    if names is not None:
        is_group = names.is_group and _is_about_groups(request)
        listed: list[str] = getattr(request, names.names) or ([request.key] if api == "FindCoordinator" else [])
        for name in listed:
            yield Target(group=name) if is_group else Target(transactional_id=name)


def _walk_topics(shape: _TopicList, holder: Any, request: Any, core: Core) -> Iterator[Target]:
    group = _field(holder, "group_id") or _field(request, "group_id")
    transactional_id = _transactional_id(holder) or _transactional_id(request)
    listed = getattr(holder, shape.topics)
    if not listed and shape.within:
        yield Target(group=group, transactional_id=transactional_id)
    for topic in listed or ():
        name = _name(shape, topic, core)
        if not shape.partitions:
            yield Target(name, None, group, transactional_id)
            continue
        for partition in getattr(topic, shape.partitions):
            index = getattr(partition, shape.number) if shape.number else partition
            yield Target(name, index, group, transactional_id)


def _name(shape: _TopicList, topic: Any, core: Core | None) -> str | None:
    if not shape.name:
        name: str = topic
        return name
    topic_id: bytes = getattr(topic, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID and core is not None:
        known = core.topics.with_id(topic_id)
        return None if known is None else known.name
    named: str | None = getattr(topic, shape.name)
    return named


def _name_of_key(named: str | bytes, core: Core) -> str | None:
    if isinstance(named, str):
        return named
    known = core.topics.with_id(named)
    return None if known is None else known.name


def _resource(resource: Any) -> Target:
    if resource.resource_type == ConfigResourceType.TOPIC:
        return Target(topic=resource.resource_name)
    return Target(group=resource.resource_name if resource.resource_type == ConfigResourceType.GROUP else None)


def _is_about_groups(request: Any) -> bool:
    return not getattr(request, "key_type", 0)


def _field(message: Any, name: str) -> str | None:
    value: str | None = getattr(message, name, None)
    return value


def _transactional_id(message: Any) -> str | None:
    return next((value for name in _FIELDS_OF_TRANSACTION if (value := _field(message, name))), None)


def only(api: str, request: Any, keep: Keep, core: Core) -> Any:
    """A copy of a request that is about those targets alone that `keep` likes; lists that are left empty go.

    A request without lists is returned as it is.
    """
    changes: dict[str, Any] = {}
    for shape in _TOPICS.get(api, ()):
        if not shape.within:
            changes[shape.topics] = _only_topics(shape, request, request, keep, core)
            continue
        holders: list[Any] = []
        for holder in getattr(request, shape.within):
            topics = _only_topics(shape, holder, request, keep, core)
            alone = Target(group=_field(holder, "group_id"), transactional_id=_transactional_id(holder))
            if topics or (not getattr(holder, shape.topics) and keep(alone)):
                holders.append(dataclasses.replace(holder, **{shape.topics: topics}))
        changes[shape.within] = holders
    if api in _CONFIGS:
        changes["resources"] = [each for each in request.resources if keep(_resource(each))]
    names = _NAMES.get(api)
    if names is not None:
        is_group = names.is_group and _is_about_groups(request)
        changes[names.names] = [
            name
            for name in getattr(request, names.names)
            if keep(Target(group=name) if is_group else Target(transactional_id=name))
        ]
    return dataclasses.replace(request, **changes) if changes else request


def _only_topics(shape: _TopicList, holder: Any, request: Any, keep: Keep, core: Core) -> Any:
    listed = getattr(holder, shape.topics)
    if listed is None:
        return None
    group = _field(holder, "group_id") or _field(request, "group_id")
    transactional_id = _transactional_id(holder) or _transactional_id(request)
    kept: list[Any] = []
    for topic in listed:
        name = _name(shape, topic, core)
        if not shape.partitions:
            if keep(Target(name, None, group, transactional_id)):
                kept.append(topic)
            continue
        partitions = [
            partition
            for partition in getattr(topic, shape.partitions)
            if keep(
                Target(name, getattr(partition, shape.number) if shape.number else partition, group, transactional_id)
            )
        ]
        if partitions:
            kept.append(dataclasses.replace(topic, **{shape.partitions: partitions}))
    return kept
