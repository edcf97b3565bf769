"""InitProducerId: ids that nobody has had, and the sole right to a transactional id."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker.coordinators.transactions.transaction import TransactionState
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.harness import Harness

VERSIONS = range(6)
_TWO_PHASE: Final = "transaction.two.phase.commit.enable"


def given(
    harness: Harness,
    *,
    version: int = 5,
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


@pytest.mark.parametrize("version", [3, 4, 5])
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
def test_a_transactional_id_keeps_its_producer_id_in_ever_new_epochs(harness: Harness, version: int) -> None:
    answers = [given(harness, version=version, transactional_id="mine") for _ in range(3)]
    assert [each.error_code for each in answers] == [0, 0, 0]
    assert [each.producer_epoch for each in answers] == [0, 1, 2]
    assert len({each.producer_id for each in answers}) == 1
    assert given(harness, version=version, transactional_id="other").producer_id != answers[0].producer_id


@pytest.mark.parametrize("version", [3, 4, 5])
def test_a_producer_that_names_its_epoch_gets_the_next_one_and_may_ask_twice(harness: Harness, version: int) -> None:
    first = given(harness, transactional_id="mine")
    named = {"version": version, "transactional_id": "mine", "producer_id": first.producer_id, "producer_epoch": 0}
    answers = [given(harness, **named) for _ in range(2)]  # type: ignore[arg-type]  # as they are declared
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in answers] == [
        (0, first.producer_id, 1)
    ] * 2


def test_when_ids_cannot_be_noted_none_is_handed_out(harness: Harness) -> None:
    os.mkdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    response = given(harness)
    assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    os.rmdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    assert given(harness).error_code == 0


@pytest.mark.parametrize("transactional_id", [None, "mine"])
def test_a_transactional_id_needs_an_id_that_could_be_noted(harness: Harness, transactional_id: str | None) -> None:
    os.mkdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    response = given(harness, transactional_id=transactional_id)
    assert (response.error_code, response.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    os.rmdir(f"{harness.data_dir}/minibroker-topics.json.tmp")
    assert given(harness, transactional_id=transactional_id).error_code == 0


@pytest.mark.parametrize(
    ("config", "fields", "code"),
    [
        ({}, {}, ErrorCode.NONE),
        ({}, {"enable2_pc": True}, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ({_TWO_PHASE: "true"}, {"enable2_pc": True, "transaction_timeout_ms": 0}, ErrorCode.NONE),
        ({_TWO_PHASE: "true"}, {"keep_prepared_txn": True}, ErrorCode.UNSUPPORTED_VERSION),
        ({}, {"enable2_pc": True, "transactional_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_transaction_of_version_6_may_be_part_of_another_one(
    config: dict[str, str], fields: dict[str, Any], code: ErrorCode, tmp_path: Path
) -> None:
    with closing(Harness(str(tmp_path), {**config, "unstable.api.versions.enable": "true"})) as harness:
        fields = {"transactional_id": "t", "transaction_timeout_ms": 1000, **fields}
        response = harness.ask(InitProducerIdRequest(**fields), 6)
        assert (response.error_code, response.producer_epoch) == (code, -1 if code else 0)
        assert (response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch) == (-1, -1)


def test_a_transaction_that_is_part_of_another_one_never_ends_by_itself(tmp_path: Path) -> None:
    config = {_TWO_PHASE: "true", "unstable.api.versions.enable": "true"}
    with closing(Harness(str(tmp_path), config)) as harness:
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1000, enable2_pc=True)
        producer = harness.ask(request, 6)
        ids = producer.producer_id, producer.producer_epoch
        assert harness.services.transactions.add_partitions("t", *ids, [("a", 0)]) == 0
        harness.clock.advance(10**7)
        harness.run_soon()
        known = harness.services.transactions.store.get("t")
        assert known is not None
        assert known.state is TransactionState.ONGOING
