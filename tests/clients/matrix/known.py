"""Known failures, with their reasons."""

from typing import Final

KNOWN: Final[dict[tuple[str, str], str]] = {}
"""By driver and check: what passes on Kafka and not here yet."""

NOT_OURS: Final[dict[tuple[str, str], str]] = {
    ("kafka-python-2.2", "acks-0"): "It reports success, but none of the records arrives.",
    ("franz-go-1.6", "delete-records"): "Its kadm 1.0.0 leaves the partitions out of the request.",
}
"""By driver and check: what fails on both releases of Kafka, for a reason that lies in the client."""

ASKS_FOR_MORE: Final[dict[tuple[str, str], str]] = {
    **{
        (f"java-{version}", check): reason
        for version in ("3.9.1", "4.4.0")
        for check, reason in (
            ("transaction-offsets", "with the group's metadata, which TxnOffsetCommit has since 2.5"),
            ("describe-configs", "with their documentation, which DescribeConfigs has since 2.6"),
            ("describe-topics", "by their ids, which topics have since 2.8"),
        )
    },
    ("franz-go-1.6", "describe-topics"): "by their ids, which topics have since 2.8",
    ("franz-go", "describe-topics"): "by their ids, which topics have since 2.8",
}
"""By driver and check: why a broker of release 2.0 has no answer to it, although the feature is older."""

GIVES_UP_LATE: Final[dict[tuple[str, str], str]] = {
    **{
        (name, "zstd"): "its producer tries again for two minutes when the broker refuses the codec"
        for name in ("java-2.4.1", "java-3.9.1", "java-4.4.0", "spark")
    },
    ("confluent-kafka", "consumer-protocol"): "its member waits for an assignment without an error",
}
"""By driver and check: what is not asked of a broker of release 2.0, since the client takes too long to fail."""

UNSTEADY: Final[dict[tuple[str, str], str]] = {
    ("aiokafka-0.7", "group-rebalance"): "its stop() waits for ever when OffsetFetch is answered at the same moment: "
    "asyncio.wait_for drops the cancellation before Python 3.12, on Kafka as well"
}
"""By driver and check: what passes nearly always, and is recorded, but does not end every time."""
