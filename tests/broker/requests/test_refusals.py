"""Responses that only contain an error. `tests/kafka/test_error_answers.py` compares them with Kafka's."""

import random
from typing import Any, Final

import pytest

from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker.server.requests.endpoints import endpoint, find_endpoint
from minibroker.server.requests.refusals import error_answer, partial_error_answer
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from minibroker_protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from tests.broker.security.authorization.attempts import codes_in
from tests.protocol.whole_requests import a_request

CODE: Final = ErrorCode.NOT_COORDINATOR


def codes_of(message: Any) -> list[int]:
    """Return all error codes of a response, outermost first."""
    return [int(code) for _, code in codes_in(message)]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
def test_every_version_of_every_api_can_say_an_error(route: Route) -> None:
    served = endpoint(route.key)
    for version in range(route.first, route.last + 1):
        request = a_request(served.request, version, random.Random(route.message))
        for make in (error_answer, partial_error_answer):
            data = bytearray()
            encode(make(served, request, version, CODE), version, data, [])
            response, end = decode(served.response, memoryview(data), version)
            assert end == len(data)
            codes = codes_of(response)
            assert CODE in codes or (route.message, version) in SAY_NOTHING
            assert set(codes) <= {0, CODE}


SAY_NOTHING: Final = {("DescribeLogDirs", 0), ("DescribeLogDirs", 1), ("DescribeLogDirs", 2)}
"""Responses with errors for directories only."""


@pytest.mark.parametrize(
    ("version", "whole", "parts"), [(1, [0, CODE, CODE], [0, CODE, CODE]), (7, [CODE], [0, CODE, CODE])]
)
def test_an_error_stands_at_the_outermost_level_or_at_the_innermost(
    version: int, whole: list[int], parts: list[int]
) -> None:
    served = find_endpoint("OffsetFetch")
    topics = [OffsetFetchRequestTopic(name="t", partition_indexes=[3, 4])]
    request = OffsetFetchRequest(group_id="g", topics=topics)
    assert codes_of(over_the_wire(served.response, error_answer(served, request, version, CODE), version)) == whole
    response = over_the_wire(served.response, partial_error_answer(served, request, version, CODE), version)
    assert sorted(codes_of(response)) == sorted(parts)
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in response.topics] == [("t", [3, 4])]
    assert {(p.committed_offset, p.metadata) for topic in response.topics for p in topic.partitions} == {(-1, "")}


def test_lists_within_lists_are_matched_by_name_and_number() -> None:
    served = find_endpoint("OffsetFetch")
    topics = [OffsetFetchRequestTopics(name=name, partition_indexes=[1]) for name in "ab"]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])
    (group,) = partial_error_answer(served, request, 8, CODE).groups
    assert (group.group_id, group.error_code, [topic.name for topic in group.topics]) == ("g", 0, ["a", "b"])


def test_a_transaction_is_refused_as_a_whole_or_by_partition() -> None:
    served = find_endpoint("AddPartitionsToTxn")
    topics = [AddPartitionsToTxnTopic(name="t", partitions=[5])]
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=1, producer_epoch=0, verify_only=False, topics=topics
    )
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    whole = error_answer(served, request, 4, CODE)
    assert (whole.error_code, whole.results_by_transaction) == (CODE, [])
    parts = partial_error_answer(served, request, 4, CODE)
    (result,) = parts.results_by_transaction
    (partition,) = result.topic_results[0].results_by_partition
    assert (parts.error_code, result.transactional_id) == (0, "x")
    assert (partition.partition_index, partition.partition_error_code) == (5, CODE)


def over_the_wire(cls: type[Any], response: Any, version: int) -> Any:
    data = bytearray()
    encode(response, version, data, [])
    return decode(cls, memoryview(data), version)[0]
