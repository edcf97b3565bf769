"""The targets of a request: the topics, partitions, groups and transactional ids that it names.

Requests name them in a few forms: lists of topics with lists of partitions, lists of names, single fields, and lists of
these within transactions, markers or groups. Each handler declares the form of its requests (`declarations.Names`).
`targets_of` reads the targets, and `select_targets` reduces a request to some of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Any, Final

from minibroker.config.keys import ConfigResourceType
from minibroker.server.requests.declarations import KeyList, Names, Target, TopicList
from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import fields_of, first_version

if TYPE_CHECKING:
    from minibroker.cluster.core import Core
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.endpoints import Endpoint

Keep = Callable[[Target], bool]

_FIELDS_OF_TRANSACTION: Final = ("transactional_id", "v3_and_below_transactional_id")


def target_fields(endpoint: Endpoint) -> frozenset[str]:
    """Return the fields of `Target` that requests of an API can set."""
    request: Any = endpoint.request
    return _fields_of_targets(endpoint.names, request)


@cache
def _fields_of_targets(names: Names, request: type[Any]) -> frozenset[str]:
    target_names: set[str] = set()
    if names.topics:
        target_names.add("topic")
    if names.answers_partitions or any(topic_list.partitions for topic_list in names.topics):
        target_names.add("partition")
    if names.resources:
        target_names |= {"topic", "group"}
    if names.keys is not None:
        target_names |= {names.keys.kind} if names.keys.kind else {"group", "transactional_id"}
    fields = {field.name for field in fields_of(request)}
    if "group_id" in fields:
        target_names.add("group")
    if not fields.isdisjoint(_FIELDS_OF_TRANSACTION):
        target_names.add("transactional_id")
    return frozenset(target_names)


def has_list(endpoint: Endpoint, version: int) -> bool:
    """Return whether a request names its objects in a list, so that some can be removed."""
    keys = endpoint.names.keys
    return keys is None or not keys.single or version >= first_version(endpoint.request, keys.field)


def targets_of(names: Names, request: Any, call: Call) -> tuple[Target, ...]:
    """Return all targets of a request, or a single empty target if it names nothing."""
    if request is None:
        return (Target(),)
    return implied_targets(names, request, call) or targets_by_name(names, request, call.core)


def implied_targets(names: Names, request: Any, call: Call) -> tuple[Target, ...]:
    """Return the named and implied targets of a request, or () if the request implies none."""
    implied = () if names.implied is None else names.implied(request, call)
    if not implied:
        return ()
    named_targets = tuple(_walk_targets(names, request, call.core))
    return tuple(dict.fromkeys((*named_targets, *implied))) if named_targets else implied


def targets_by_name(names: Names, request: Any, core: Core) -> tuple[Target, ...]:
    """Return the targets of a request whose API has no implied targets."""
    if request is None:
        return (Target(),)
    targets = tuple(_walk_targets(names, request, core))
    return targets or (_target_of_holder(request, request),)


def names_of(names: Names, request: Any, core: Core, version: int) -> list[str | None]:
    """Return the topics, groups or transactional ids that a request names, with None for an unknown topic id."""
    topic_names: list[str | None] = []
    for shape in names.topics:
        for holder in getattr(request, shape.within) if shape.within else (request,):
            for topic in getattr(holder, shape.topics) or ():
                name = _find_name(shape, topic, core)
                topic_names.append(name if name or _has_name(shape, topic, version) else None)
    if names.keys is not None:
        topic_names += _list_keys(names.keys, request)
    return topic_names


def groups_of(names: Names, request: Any) -> list[str]:
    """Return the ids of the groups that a request names. The endpoint of the request must be `is_about_groups`."""
    if names.keys is not None:
        return _list_keys(names.keys, request)
    holders = [request]
    for shape in names.topics:
        if shape.within:
            holders += getattr(request, shape.within)
    return [group for holder in holders if (group := _get_text(holder, "group_id"))]


def _list_keys(keys: KeyList, request: Any) -> list[str]:
    listed_keys: list[str] = getattr(request, keys.field)
    return listed_keys or ([getattr(request, keys.single)] if keys.single else [])


def _key_to_target(keys: KeyList, request: Any, key: str) -> Target:
    is_group = keys.kind == "group" if keys.kind else request.key_type == 0
    return Target(group=key) if is_group else Target(transactional_id=key)


def _walk_targets(names: Names, request: Any, core: Core) -> Iterator[Target]:
    for shape in names.topics:
        for holder in getattr(request, shape.within) if shape.within else (request,):
            yield from _walk_topics(shape, holder, request, core)
    if names.resources:
        yield from map(_to_target, getattr(request, names.resources))
    if names.keys is not None:
        for key in _list_keys(names.keys, request):
            yield _key_to_target(names.keys, request, key)


def _walk_topics(shape: TopicList, holder: Any, request: Any, core: Core) -> Iterator[Target]:
    topics = getattr(holder, shape.topics)
    if not topics and not shape.within:  # An incremental fetch may name no topics, and then has no target.
        return
    holder_target = _target_of_holder(holder, request)
    if not topics:
        yield holder_target
    for topic in topics or ():
        yield from _targets_of_topic(shape, topic, holder_target, core)


def _target_of_holder(holder: Any, request: Any) -> Target:
    group = _get_text(holder, "group_id") or _get_text(request, "group_id")
    return Target(group=group, transactional_id=_transactional_id(holder) or _transactional_id(request))


def _targets_of_topic(shape: TopicList, topic: Any, holder: Target, core: Core) -> list[Target]:
    """Return the target of each partition of a topic, or of the topic itself if the request names no partitions."""
    name = _find_name(shape, topic, core)
    partitions = getattr(topic, shape.partitions) if shape.partitions else (None,)
    return [
        Target(
            name,
            getattr(partition, shape.number) if shape.number else partition,
            holder.group,
            holder.transactional_id,
        )
        for partition in partitions
    ]


def _find_name(shape: TopicList, topic: Any, core: Core) -> str | None:
    if not shape.name:
        name: str = topic
        return name
    topic_id: bytes = getattr(topic, "topic_id", ZERO_UUID)
    if topic_id != ZERO_UUID:
        topic_with_id = core.topics.with_id(topic_id)
        return None if topic_with_id is None else topic_with_id.name
    topic_name: str | None = getattr(topic, shape.name)
    return topic_name


def _has_name(shape: TopicList, topic: Any, version: int) -> bool:
    """Return whether requests of this version identify topics by name rather than by id."""
    cls: type[Any] = topic.__class__
    return not shape.name or any(field.name == shape.name and version in field.present for field in fields_of(cls))


def _to_target(resource: Any) -> Target:
    if resource.resource_type == ConfigResourceType.TOPIC:
        return Target(topic=resource.resource_name)
    return Target(group=resource.resource_name if resource.resource_type == ConfigResourceType.GROUP else None)


def _get_text(message: Any, name: str) -> str | None:
    value: str | None = getattr(message, name, None)
    return value


def _transactional_id(message: Any) -> str | None:
    return next((value for name in _FIELDS_OF_TRANSACTION if (value := _get_text(message, name))), None)


def select_targets(names: Names, request: Any, keep: Keep, core: Core) -> Any:
    """Return a copy of a request with only the targets that `keep` accepts. Empty lists of elements are removed.

    A request without lists is returned unchanged.
    """
    changes: dict[str, Any] = {}
    for shape in names.topics:
        if not shape.within:
            changes[shape.topics] = _keep_topics(shape, request, request, keep, core)
            continue
        holders: list[Any] = []
        for holder in getattr(request, shape.within):
            topics = _keep_topics(shape, holder, request, keep, core)
            if topics or (not getattr(holder, shape.topics) and keep(_target_of_holder(holder, request))):
                holders.append(dataclasses.replace(holder, **{shape.topics: topics}))
        changes[shape.within] = holders
    if names.resources:
        changes[names.resources] = [item for item in getattr(request, names.resources) if keep(_to_target(item))]
    keys = names.keys
    if keys is not None:
        changes[keys.field] = [key for key in getattr(request, keys.field) if keep(_key_to_target(keys, request, key))]
    return dataclasses.replace(request, **changes) if changes else request


def _keep_topics(shape: TopicList, holder: Any, request: Any, keep: Keep, core: Core) -> Any:
    topics = getattr(holder, shape.topics)
    if topics is None:
        return None
    holder_target = _target_of_holder(holder, request)
    selected: list[Any] = []
    for topic in topics:
        kept_flags = [keep(target) for target in _targets_of_topic(shape, topic, holder_target, core)]
        if not shape.partitions and kept_flags[0]:
            selected.append(topic)
        elif shape.partitions and any(kept_flags):
            partitions: list[Any] = list(compress(getattr(topic, shape.partitions), kept_flags))
            selected.append(dataclasses.replace(topic, **{shape.partitions: partitions}))
    return selected
