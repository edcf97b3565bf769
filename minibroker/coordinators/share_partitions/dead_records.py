"""Unprocessable records, on their way to the dead-letter queue of their share group (KIP-1191)."""

from typing import Final, NamedTuple

REJECTED: Final = "Offset rejected by client."
EXCEEDED: Final = "Offset delivery count exceeded the threshold."
"""The reasons, in Kafka's words (`ShareGroupDLQManager`)."""


class DeadRecords(NamedTuple):
    """Offsets of a partition, the last one included.

    Attributes:
        deliveries: how often they were acquired.
        reason: REJECTED or EXCEEDED.
    """

    first: int
    last: int
    deliveries: int
    reason: str
