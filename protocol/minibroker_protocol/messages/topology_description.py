"""The description of a Kafka Streams topology for people to read (KIP-1331)."""

from minibroker_protocol.schema import (
    Array,
    Int8,
    NullableString,
    String,
    structure,
)


@structure
class TopologyDescriptionNode:
    """A node; `node_type` is 1 for a source, 2 for a processor, 3 for a sink."""

    name: String
    node_type: Int8
    source_topics: Array[String]
    sink_topic: NullableString = None
    stores: Array[String]
    successors: Array[String]


@structure
class TopologyDescriptionSubtopology:
    """A subtopology with its nodes."""

    subtopology_id: String
    nodes: Array[TopologyDescriptionNode]


@structure
class TopologyDescriptionGlobalStore:
    """A global state store: the source that feeds it, and the processor that writes it."""

    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


@structure
class TopologyDescription:
    """Subtopologies and global stores."""

    subtopologies: Array[TopologyDescriptionSubtopology]
    global_stores: Array[TopologyDescriptionGlobalStore]
