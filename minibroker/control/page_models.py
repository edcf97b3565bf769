"""Answers that hold a part of what there is."""

from collections.abc import Mapping, Sequence

from pydantic import Field

from minibroker.control.models import About, Record, RecordList, Topic
from minibroker.operations.payloads import Form
from minibroker.operations.records import ConsumerRecord


class TopicList(About):
    """Some topics, by name."""

    topics: list[Topic]
    next_after: str | None = Field(description="The `after` that goes on; null once all were listed.")


class GroupIds(About):
    """Some consumer groups, by id."""

    groups: list[str]
    next_after: str | None = Field(description="The `after` that goes on; null once all were listed.")


class RecordPart(RecordList):
    """Some records of a topic, partition by partition."""

    next_offsets: dict[int, int] = Field(
        description="By partition, the `start` that goes on; empty once all was read to the end."
    )

    @classmethod
    def part_of(cls, records: Sequence[ConsumerRecord], form: Form, next_offsets: Mapping[int, int]) -> "RecordPart":
        """Records, their bytes in one of the forms."""
        return cls(records=[Record.of(each, form) for each in records], next_offsets=dict(next_offsets))
