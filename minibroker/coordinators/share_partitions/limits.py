"""The limits of share groups, as their configuration has them."""

from typing import NamedTuple


class Limits(NamedTuple):
    """The limits of a share group.

    Attributes:
        lock_ms: how long a member has acquired records to itself.
        deliveries: how often a record is delivered at most.
        locks: how many offsets of a partition are in flight at most.
        renews: members may renew their locks (KIP-1222).
        buries: unprocessable records go to a dead-letter queue (KIP-1191).
        reads_committed: members get no records of transactions that are open or were aborted.
    """

    lock_ms: int
    deliveries: int
    locks: int
    renews: bool = True
    buries: bool = False
    reads_committed: bool = False
