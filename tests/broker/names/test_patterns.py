"""Wildcard patterns for names, suggestions for misspelled names, and names that are similar on purpose."""

import logging

import pytest

from minibroker import Broker
from minibroker.cluster.advice import log_topic_creation
from minibroker.config.names import api_matcher, matcher, misspelling
from minibroker.server.inspection.journal import error_code
from minibroker_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.socket_client import SocketClient


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("or*", "orders", True),
        ("*or*s", "orders", True),
        ("o?ders", "orders", True),
        ("*", "", True),
        ("?", "", False),
        ("a[b]*", "a[b]c", True),
        ("a[b]*", "abc", False),
        ("[!a]", "b", False),
        ("a.b", "axb", False),
        ("a*", "a\nb", True),
    ],
)
def test_a_star_and_a_question_mark_are_the_only_wildcards(pattern: str, name: str, *, expected: bool) -> None:
    assert matcher(pattern)(name) is expected


def test_an_api_matches_in_either_spelling() -> None:
    assert api_matcher("ADD_*_TO_TXN")("AddPartitionsToTxn")


@pytest.mark.parametrize("pattern", ["*" * 40 + "!", "*a" * 40 + "!", "*?" * 40 + "!"])
def test_a_pattern_of_many_stars_does_not_backtrack(pattern: str) -> None:
    """With backtracking, this test would not finish."""
    assert not matcher(pattern)("a" * 1000)


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("ordres", ["orders", "users"], "orders"),
        ("order", ["orders"], "orders"),
        ("Orders", ["orders"], "orders"),
        ("orders-2", ["orders-1"], None),
        ("orders-retry", ["orders"], None),
        ("orders.dlq", ["orders"], None),
        ("orders", ["orders-2"], None),
        ("orders_out", ["orders_in"], None),
        ("payments", ["orders"], None),
        ("orders", ["orders"], None),
    ],
)
def test_a_misspelling_is_found_and_kin_is_left_alone(name: str, known: list[str], meant: str | None) -> None:
    assert misspelling(name, known) == meant


def test_many_topics_are_not_compared() -> None:
    assert log_topic_creation("ordres", ["orders", *map(str, range(99))]) == "orders"
    assert log_topic_creation("ordres", ["orders", *map(str, range(100))]) is None


def test_a_topic_that_a_client_has_created_by_its_name_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "minibroker")
    with Broker(topics=["orders"]) as broker, SocketClient(broker.address) as client:
        for name in ("ordres", "users", "orders"):
            client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True), 8)
    messages = [(each.name, each.getMessage()) for each in caplog.records if "created topic" in each.getMessage()]
    assert messages == [
        ("minibroker.support.advice", "created topic 'ordres', which a client has asked for (did you mean 'orders'?)"),
        ("minibroker", "created topic 'users', which a client has asked for"),
    ]


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        ("TIMEOUT", "; did you mean INVALID_SESSION_TIMEOUT or INVALID_TRANSACTION_TIMEOUT or REQUEST_TIMED_OUT?"),
        ("QUOTA_EXCEEDED", "; did you mean THROTTLING_QUOTA_EXCEEDED?"),
        ("FAILED", ""),  # Too many names have this ending.
    ],
)
def test_the_end_of_an_error_is_answered_with_the_names_that_have_it(error: str, hint: str) -> None:
    with pytest.raises(ValueError, match="neither the name nor the number") as refused:
        error_code(error)
    assert str(refused.value).endswith(f"of Kafka's errors{hint}")
