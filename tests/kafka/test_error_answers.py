"""Error answers, held against what Kafka's requests make of the same requests."""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import pytest

from minibroker.cluster.routing.routes import ROUTES, Route
from minibroker.server.requests.endpoints import endpoint
from minibroker.server.requests.refusals import error_answer
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.error_codes import ErrorCode
from tests.clients.java_programs import VERSIONS, client_libs
from tests.kafka.fixtures import or_skip
from tests.kafka.messages import UNKNOWN, Messages
from tests.protocol.message_strategies import message_class
from tests.protocol.whole_requests import a_request
from tests.sweeps import one_in

CODES = (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION)
OWN_WORDS = "in our own words"


def without_order_and_words(message: Any) -> Any:
    """A message as nested values: Kafka takes topics out of hash maps, and its sentences are its own.

    No records are null in Kafka's error answers and empty in ours, as in all of our answers.
    """
    if is_dataclass(message):
        return {
            field.name: (OWN_WORDS if field.name == "error_message" and value else without_order_and_words(value))
            for field in fields(message)
            for value in [getattr(message, field.name)]
        }
    if isinstance(message, list):
        return sorted((without_order_and_words(each) for each in message), key=repr)
    return bytes(message) or None if isinstance(message, memoryview) else message


@pytest.fixture(scope="module")
def kafkas() -> Iterator[list[Messages]]:
    """The requests of each version of kafka-clients."""
    with ExitStack() as stack:
        yield [stack.enter_context(or_skip(partial(_messages_of, version))) for version in VERSIONS]


def _messages_of(version: str) -> Messages:
    return Messages(client_libs(version))


@pytest.mark.parametrize("route", one_in(2, ROUTES), ids=lambda route: route.message)
def test_an_error_answer_is_the_one_that_kafka_makes(kafkas: list[Messages], route: Route) -> None:
    """Of the newest Kafka that has the version: 4.4 changed what some of them say."""
    chance = random.Random(route.message)
    cases: list[tuple[Any, int, ErrorCode]] = []
    questions: list[tuple[int, int, bytes]] = []
    for version in range(route.first, route.last + 1):
        for code in CODES:
            request = a_request(message_class(route, "Request"), version, chance)
            body = bytearray()
            encode(request, version, body, [])
            cases.append((request, version, code))
            questions.append((version, code, bytes(body)))
    answers = [kafka.refusals(route.key, questions) for kafka in kafkas]
    for (request, version, code), *theirs in zip(cases, *answers, strict=True):
        newest = next((each for each in reversed(theirs) if each != UNKNOWN), None)
        assert isinstance(newest, bytes), (version, newest)
        ours = bytearray()
        encode(error_answer(endpoint(route.key), request, version, code), version, ours, [])
        response = message_class(route, "Response")
        expected, _ = decode(response, memoryview(newest), version)
        answered, _ = decode(response, memoryview(ours), version)
        assert without_order_and_words(answered) == without_order_and_words(expected), (version, code)
