"""ListTransactions: the transactional ids that there are."""

from typing import Any

import pytest

from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.messages.describe_transactions import ListTransactionsRequest
from tests.broker.coordinators.transactions.producer import Producer
from tests.broker.harness import Harness


@pytest.fixture
def ids(harness: Harness) -> dict[str, int]:
    """The producer ids of three transactional ids."""
    idle, opened, ended = (Producer(harness, name) for name in ("idle", "opened", "ended"))
    opened.write(b"x")
    ended.write(b"x")
    harness.clock.advance(1000)
    assert ended.commit() == 0
    return {each.transactional_id: each.id for each in (idle, opened, ended)}


def listed(harness: Harness, version: int = 1, **filters: Any) -> tuple[list[str], list[str]]:
    """(transactional ids, unknown states)."""
    fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": [], **filters}
    response = harness.ask(ListTransactionsRequest(**fields), version)
    assert response.error_code == 0
    return sorted(known.transactional_id for known in response.transaction_states), response.unknown_state_filters


@pytest.mark.parametrize("version", [0, 1, 2])
def test_without_filters_all_are_listed_with_their_states(harness: Harness, ids: dict[str, int], version: int) -> None:
    response = harness.ask(ListTransactionsRequest(state_filters=[], producer_id_filters=[]), version)
    known = {(each.transactional_id, each.producer_id, each.transaction_state) for each in response.transaction_states}
    assert known == {
        ("idle", ids["idle"], "Empty"),
        ("opened", ids["opened"], "Ongoing"),
        ("ended", ids["ended"], "CompleteCommit"),
    }


def test_version_1_asks_for_those_that_run_long(harness: Harness, ids: dict[str, int]) -> None:
    assert len(ids) == 3
    assert listed(harness, duration_filter=999, state_filters=["Ongoing"]) == (["opened"], [])
    assert listed(harness, duration_filter=1000, state_filters=["Ongoing"]) == ([], [])


def test_version_2_asks_for_ids_that_match_a_regular_expression(harness: Harness, ids: dict[str, int]) -> None:
    assert len(ids) == 3
    assert listed(harness, 2, transactional_id_pattern="(open|end)ed") == (["ended", "opened"], [])
    assert listed(harness, 2, transactional_id_pattern="open") == ([], [])
    assert listed(harness, 2, transactional_id_pattern="") == (["ended", "idle", "opened"], [])
    asked = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="(")
    assert harness.ask(asked, 2).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_a_broker_without_transactions_lists_none(harness: Harness) -> None:
    assert listed(harness) == ([], [])
    assert harness.core.topics.get("__transaction_state") is None
