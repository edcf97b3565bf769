"""Small requests are served at once: a generator for each would cost more than its work."""

from types import GeneratorType
from typing import Any, Final

import pytest

from minibroker.requests.call import Call
from minibroker.requests.endpoints import endpoint_named
from minibroker_protocol.messages.find_coordinator import FindCoordinatorRequest
from minibroker_protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.harness import Harness, batch, fetch_request, produce_request

_LATEST: Final = -1
_FIRST_AFTER_THE_EPOCH: Final = 0


def _list_offsets(partitions: int, timestamp: int = _LATEST) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in range(partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])


def _metadata(topics: int) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name="t" if not number else f"t{number}") for number in range(topics)]
    )


def _fetch(partitions: int) -> Any:
    return fetch_request(*(("t", index, 0) for index in range(partitions)), max_wait_ms=0)


def _find_coordinators(keys: int) -> FindCoordinatorRequest:
    return FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(keys)])


def _takes_steps(harness: Harness, request: Any, version: int) -> bool:
    endpoint = endpoint_named(type(request).__name__.removesuffix("Request"))
    call = Call(harness.core, harness.services, version, "test", harness.session())
    response = endpoint.handle(request, call)
    takes_steps = isinstance(response, GeneratorType)
    if takes_steps:
        response.close()
    return takes_steps


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (_fetch(1), 12),
        (_fetch(8), 12),
        (_list_offsets(1), 7),
        (_list_offsets(4), 7),
        (_metadata(0), 12),
        (_metadata(1), 12),
        (MetadataRequest(topics=None), 12),
        (produce_request(batch(b"a")), 9),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_a_small_request_takes_no_steps(harness: Harness, request_: Any, version: int) -> None:
    assert not _takes_steps(harness, request_, version)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (_fetch(600), 12),
        (_list_offsets(9), 7),
        (_list_offsets(1, _FIRST_AFTER_THE_EPOCH), 7),
        (_find_coordinators(100), 4),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_a_large_request_takes_steps(harness: Harness, request_: Any, version: int) -> None:
    assert _takes_steps(harness, request_, version)
