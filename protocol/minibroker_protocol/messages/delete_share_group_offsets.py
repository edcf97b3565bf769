"""DeleteShareGroupOffsets (key 92): forget topics of an empty share group (KIP-932)."""

from minibroker_protocol.schema import (
    Array,
    Int16,
    Int32,
    NullableString,
    String,
    Uuid,
    message,
    structure,
)


@structure
class DeleteShareGroupOffsetsRequestTopic:
    """A topic to forget."""

    topic_name: String


@message(versions="0", flexible="0+")
class DeleteShareGroupOffsetsRequest:
    """The group, and its topics to forget."""

    group_id: String
    topics: Array[DeleteShareGroupOffsetsRequestTopic]


@structure
class DeleteShareGroupOffsetsResponseTopic:
    """The outcome for one topic."""

    topic_name: String
    topic_id: Uuid
    error_code: Int16
    error_message: NullableString = None


@message(versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse:
    """`error_code` is that of the group; each topic has an error of its own."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: NullableString = None
    responses: Array[DeleteShareGroupOffsetsResponseTopic]
