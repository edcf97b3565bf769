"""Metadata (key 3): the brokers, and which of them leads each partition."""

from dataclasses import field
from typing import Annotated, Final

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    Uuid,
    empty,
    message,
    nullable,
    since,
    structure,
    versions,
)

NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
"""The authorized operations in the response to a client that did not ask for them."""


@structure
class MetadataRequestTopic:
    """A topic by name, or from version 10 on by id."""

    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[NullableString, nullable("10+")]


@message(versions="0-13", flexible="9+")
class MetadataRequest:
    """`topics`: null asks for all; an empty list asks for all in version 0 and for none later."""

    topics: Annotated[NullableArray[MetadataRequestTopic], nullable("1+")]
    allow_auto_topic_creation: Annotated[Bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[Bool, versions("8-10")] = False
    include_topic_authorized_operations: Annotated[Bool, since(8)] = False


@structure
class MetadataResponseBroker:
    """Where a broker listens."""

    node_id: Int32
    host: String
    port: Int32
    rack: Annotated[NullableString, since(1)] = None


@structure
class MetadataResponsePartition:
    """Leader and replicas of one partition."""

    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    leader_epoch: Annotated[Int32, since(7)] = -1
    replica_nodes: Array[Int32]
    isr_nodes: Array[Int32]
    offline_replicas: Annotated[Array[Int32], since(5)] = field(default_factory=empty)


@structure
class MetadataResponseTopic:
    """One topic, or why there is none."""

    error_code: Int16
    name: Annotated[NullableString, nullable("12+")]
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[Bool, since(1)] = False
    partitions: Array[MetadataResponsePartition]
    topic_authorized_operations: Annotated[Int32, since(8)] = NO_AUTHORIZED_OPERATIONS


@message(versions="0-13", flexible="9+")
class MetadataResponse:
    """The cluster as clients should see it; `error_code` may ask a client to bootstrap again (KIP-1102)."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    brokers: Array[MetadataResponseBroker]
    cluster_id: Annotated[NullableString, since(2)] = None
    controller_id: Annotated[Int32, since(1)] = -1
    topics: Array[MetadataResponseTopic]
    cluster_authorized_operations: Annotated[Int32, versions("8-10")] = NO_AUTHORIZED_OPERATIONS
    error_code: Annotated[Int16, since(13)] = 0
