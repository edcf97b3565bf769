"""Answers that hold a part of what there is."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from minibroker.control.models import Record, RecordList
from minibroker.operations.payloads import Form
from minibroker.operations.records import ConsumerRecord


class RecordPart(RecordList):
    """Some records of a topic, partition by partition."""

    next_offsets: dict[int, int] = Field(
        description="By partition, the `start` that goes on; empty once all was read to the end."
    )

    @classmethod
    def part_of(cls, records: Sequence[ConsumerRecord], form: Form, next_offsets: Mapping[int, int]) -> "RecordPart":
        """Records, their bytes in one of the forms."""
        return cls(records=[Record.of(each, form) for each in records], next_offsets=dict(next_offsets))
