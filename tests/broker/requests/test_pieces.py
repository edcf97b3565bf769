"""Large messages in pieces, and put together again."""

import copy
import dataclasses
from typing import Any

import pytest

from minibroker.requests.pieces import is_large, join, pieces_of
from minibroker_protocol.messages.delete_topics import DeleteTopicsRequest
from minibroker_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minibroker_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from minibroker_protocol.messages.offset_fetch import OffsetFetchRequestTopics as Topics


def topic(name: str, partitions: int) -> ListOffsetsTopic:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    return ListOffsetsTopic(name=name, partitions=asked)


def size_of(message: Any) -> int:
    """The number of elements in all lists."""
    if not dataclasses.is_dataclass(message):
        return 0
    lists = [value for field in dataclasses.fields(message) if isinstance(value := getattr(message, field.name), list)]
    return sum(1 + size_of(each) for elements in lists for each in elements)


MESSAGES = {
    "nothing": MetadataRequest(topics=[]),
    "all": MetadataRequest(topics=None),
    "names": MetadataRequest(topics=[MetadataRequestTopic(name=str(number)) for number in range(1700)]),
    "texts": DeleteTopicsRequest(topic_names=[str(number) for number in range(1200)], timeout_ms=3),
    "one long list": ListOffsetsRequest(topics=[topic("a", 2222)]),
    "long and short lists": ListOffsetsRequest(
        topics=[topic("a", 3), topic("b", 1001), topic("c", 0), topic("d", 999)]
    ),
    "lists in lists": OffsetFetchRequest(
        groups=[
            OffsetFetchRequestGroup(group_id=group, topics=[Topics(name="t", partition_indexes=list(range(700)))])
            for group in "xyz"
        ]
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_pieces_make_the_message_again(name: str) -> None:
    message: Any = MESSAGES[name]
    before = copy.deepcopy(message)
    first, *others = copy.deepcopy(list(pieces_of(message)))
    assert bool(others) == is_large(message)
    for piece in (first, *others):
        assert size_of(piece) <= 1010
    for piece in others:
        join(first, piece)
    assert first == before
    assert message == before


def test_every_element_is_in_one_piece() -> None:
    pieces = list(pieces_of(MESSAGES["long and short lists"]))
    found = [(each.name, part.partition_index) for piece in pieces for each in piece.topics for part in each.partitions]
    assert len(found) == len(set(found)) == 3 + 1001 + 999
    assert {each.name for piece in pieces for each in piece.topics} == set("abcd")
