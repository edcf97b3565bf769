"""CreatePartitions (key 37): more partitions for existing topics."""

from minibroker_protocol.schema import (
    Array,
    Bool,
    Int16,
    Int32,
    NullableArray,
    NullableString,
    String,
    message,
    structure,
)


@structure
class CreatePartitionsAssignment:
    """The brokers of one new partition."""

    broker_ids: Array[Int32]


@structure
class CreatePartitionsTopic:
    """`count` is the new total; `assignments` is null when the broker places the new partitions."""

    name: String
    count: Int32
    assignments: NullableArray[CreatePartitionsAssignment] = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsRequest:
    """`validate_only` checks everything and creates nothing."""

    topics: Array[CreatePartitionsTopic]
    timeout_ms: Int32
    validate_only: Bool = False


@structure
class CreatePartitionsTopicResult:
    """The outcome for one topic."""

    name: String
    error_code: Int16
    error_message: NullableString = None


@message(versions="0-3", flexible="2+")
class CreatePartitionsResponse:
    """One outcome per topic asked."""

    throttle_time_ms: Int32 = 0
    results: Array[CreatePartitionsTopicResult]
