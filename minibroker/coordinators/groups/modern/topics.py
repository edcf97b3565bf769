"""The topics that a group subscribes to, as far as they exist: consumer and share groups look at each heartbeat."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from minibroker.cluster.replicas import PartitionRacks
from minibroker.cluster.topics import Topic, Topics
from minibroker.support.slices import Steps

_OF_A_STEP: Final = 500


class TopicMetadata(NamedTuple):
    """A topic as it was when the group looked.

    Attributes:
        racks: the racks of the replicas of each partition, sorted; empty if no broker has a rack.
    """

    topic_id: bytes
    partitions: int
    racks: PartitionRacks = ()


def known_topics(
    topics: Topics, names: AbstractSet[str], known: Mapping[str, TopicMetadata]
) -> Mapping[str, TopicMetadata]:
    """Those of some topics that exist; `known` itself, what was found before, where nothing is new."""
    if known.keys() <= names and all(_is_as_before(topics, *each) for each in known.items()):
        unknown = names - known.keys()
        if not any(topics.get(name) for name in unknown):
            return known
    found: dict[str, TopicMetadata] = {}
    for name in sorted(names):
        topic = topics.get(name)
        if topic is not None:
            found[name] = _metadata_of(topic, topics)
    return found


def finding_topics(
    topics: Topics, names: AbstractSet[str], known: Mapping[str, TopicMetadata]
) -> Steps[Mapping[str, TopicMetadata]]:
    """`known_topics` in steps, each topic as it is when its turn comes."""
    found: dict[str, TopicMetadata] = {}
    for number, name in enumerate(sorted(names), 1):
        topic = topics.get(name)
        if topic is not None:
            found[name] = _metadata_of(topic, topics)
        if not number % _OF_A_STEP:
            yield
    return known if found == known else found


def _metadata_of(topic: Topic, topics: Topics) -> TopicMetadata:
    return TopicMetadata(topic.id, len(topic.partitions), topic.racks(topics.cluster))


def _is_as_before(topics: Topics, name: str, before: TopicMetadata) -> bool:
    topic = topics.get(name)
    return topic is not None and _metadata_of(topic, topics) == before
