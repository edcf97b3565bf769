"""DeleteTopics (key 20)."""

from dataclasses import field
from typing import Annotated

from minibroker_protocol.primitives import ZERO_UUID
from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
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


@structure
class DeleteTopicState:
    """A topic by name or by id, never both."""

    name: NullableString = None
    topic_id: Uuid = ZERO_UUID


@message(versions="0-6", flexible="4+")
class DeleteTopicsRequest:
    """Names up to version 5, names or ids from version 6 on (KIP-516)."""

    topics: Annotated[Array[DeleteTopicState], since(6)] = field(default_factory=empty)
    topic_names: Annotated[Array[String], versions("0-5")] = field(default_factory=empty)
    timeout_ms: Int32


@structure
class DeletableTopicResult:
    """The outcome for one topic."""

    name: Annotated[NullableString, nullable("6+")]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: Int16
    error_message: Annotated[NullableString, since(5)] = None


@message(versions="0-6", flexible="4+")
class DeleteTopicsResponse:
    """One outcome per topic asked."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    responses: Array[DeletableTopicResult]
