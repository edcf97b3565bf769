"""InitProducerId: ids that nobody has had, for producers without transactions."""

import os

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.harness import Harness

VERSIONS = range(5)


def given(
    harness: Harness,
    *,
    version: int = 4,
    transactional_id: str | None = None,
    producer_id: int = -1,
    producer_epoch: int = -1,
) -> InitProducerIdResponse:
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=60_000,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    response = harness.ask(request, version)
    assert isinstance(response, InitProducerIdResponse)
    return response


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_hands_out_an_id_in_epoch_0(harness: Harness, version: int) -> None:
    response = given(harness, version=version)
    assert (response.error_code, response.producer_epoch, response.throttle_time_ms) == (0, 0, 0)
    assert response.producer_id >= 0


def test_no_id_is_handed_out_twice_also_over_restarts(harness: Harness) -> None:
    ids: list[int] = []
    for _ in range(3):
        ids += [given(harness).producer_id for _ in range(1500)]
        harness.restart()
    assert len(set(ids)) == len(ids)
    assert ids == sorted(ids)


def test_a_crash_hands_out_no_id_twice(harness: Harness) -> None:
    before = given(harness).producer_id
    harness.crash()
    assert given(harness).producer_id > before


@pytest.mark.parametrize("version", [3, 4])
def test_a_producer_that_has_an_id_gets_another_one(harness: Harness, version: int) -> None:
    first = given(harness, version=version)
    second = given(harness, version=version, producer_id=first.producer_id, producer_epoch=0)
    assert (second.error_code, second.producer_epoch) == (0, 0)
    assert second.producer_id != first.producer_id


@pytest.mark.parametrize("half", [{"producer_id": 5}, {"producer_epoch": 5}])
def test_an_id_without_an_epoch_and_the_reverse_are_refused(harness: Harness, half: dict[str, int]) -> None:
    response = given(harness, **half)  # type: ignore[arg-type]  # both are integers
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", ["", "mine"])
def test_a_transactional_id_is_refused(harness: Harness, transactional_id: str, version: int) -> None:
    response = given(harness, version=version, transactional_id=transactional_id)
    assert (response.error_code, response.producer_id, response.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_when_ids_cannot_be_noted_none_is_handed_out(harness: Harness) -> None:
    os.mkdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    response = given(harness)
    assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    os.rmdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    assert given(harness).error_code == 0
