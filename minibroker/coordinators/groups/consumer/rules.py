"""The rules of Kafka's releases for groups of the consumer protocol, for `--emulate`."""

from collections.abc import Callable
from typing import NamedTuple, Self


class Rules(NamedTuple):
    """The releases whose changes hold; all of them unless the broker emulates an earlier one.

    Attributes:
        since_4_0: who leaves for a while need not name itself in version 0 of ConsumerGroupHeartbeat. The uniform
            assignor lets members keep one partition more than others, and balances one topic after the other where
            members subscribe to different ones.
        since_4_1: a group keeps a hash of its topics, and no longer a record of them.
        since_4_2: a member gives up at once what it no longer subscribes to; it comes to another epoch only with the
            assignment of that epoch.
        since_4_3: a group begins in epoch 1. Partitions have the epoch that they were assigned in, for late commits
            (KIP-1251). An assignment has a time, and is kept for `consumer.assignment.interval.ms`.
        since_4_4: the target's epoch of an emptied group goes up; the group assigns again when most of its members wish
            for another assignor; a static member that comes back has its place in a full group.
    """

    since_4_0: bool = True
    since_4_1: bool = True
    since_4_2: bool = True
    since_4_3: bool = True
    since_4_4: bool = True

    @classmethod
    def of(cls, is_before: Callable[[str], bool]) -> Self:
        """The rules of a broker that can tell whether it emulates a release before a given one."""
        return cls(*(not is_before(release) for release in ("4.0", "4.1", "4.2", "4.3", "4.4")))
