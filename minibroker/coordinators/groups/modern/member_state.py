"""The state of a member of a consumer or a share group (Kafka's `MemberState`)."""

from enum import IntEnum
from typing import Final


class MemberState(IntEnum):
    """The state of a member on its way to its target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127

    @classmethod
    def of(cls, number: int) -> "MemberState":
        """The state of a record; one of a later Kafka is UNKNOWN."""
        return cls(number) if number in _STATES else cls.UNKNOWN


_STATES: Final = frozenset(int(each) for each in MemberState)
