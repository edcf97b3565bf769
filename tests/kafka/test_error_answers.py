"""Error answers, held against what Kafka's requests make of the same requests."""

import random
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from minibroker.dispatch import ROUTES, Route
from minibroker.faults.error_answers import error_answer
from minibroker_protocol.codec import decode, encode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import ZERO_UUID, WireType
from minibroker_protocol.schema import Field, fields_of
from tests.kafka.oracle import Oracle, Refusal, Refused
from tests.protocol.message_strategies import message_class

CODES = (ErrorCode.NOT_COORDINATOR, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.UNSUPPORTED_VERSION)
OF_TYPE: dict[str, Any] = {"RECORDS": b"", "UUID": ZERO_UUID, "BYTES": b"abc", "BOOLEAN": True}
OWN_WORDS = "in our own words"


def a_request(cls: type[Any], version: int, chance: random.Random) -> Any:
    """A request with two of everything."""
    return cls(**{f.name: a_value(f, version, chance) for f in fields_of(cls) if version in f.present})


def a_value(field: Field, version: int, chance: random.Random) -> Any:
    if field.is_array:
        return [one_value(field, version, chance) for _ in range(2)]
    return one_value(field, version, chance)


def one_value(field: Field, version: int, chance: random.Random) -> Any:
    kind = field.kind
    if not isinstance(kind, WireType):
        return a_request(kind, version, chance)
    if kind.name in OF_TYPE:
        return OF_TYPE[kind.name]
    if kind.name == "STRING":
        return f"name{chance.randrange(10**6)}"
    if kind.name in {"INT32", "INT64"}:
        return chance.randrange(10**9)
    return 1 if field.name in {"acks", "key_type"} else chance.randrange(1, 100)


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


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.message)
def test_an_error_answer_is_the_one_that_kafka_makes(oracle: Oracle, route: Route) -> None:
    chance = random.Random(route.message)
    cases: list[tuple[Any, int, ErrorCode]] = []
    questions: list[Refused] = []
    for version in range(route.first, route.last + 1):
        for code in CODES:
            request = a_request(message_class(route, "Request"), version, chance)
            body = bytearray()
            encode(request, version, body, [])
            cases.append((request, version, code))
            questions.append(Refused(route.key, version, code, bytes(body)))
    for (request, version, code), theirs in zip(cases, oracle.refuse(questions), strict=True):
        assert not isinstance(theirs, Refusal), (version, theirs.text)
        ours = bytearray()
        encode(error_answer(route.message, request, version, code), version, ours, [])
        response = message_class(route, "Response")
        expected, _ = decode(response, memoryview(theirs), version)
        answered, _ = decode(response, memoryview(ours), version)
        assert without_order_and_words(answered) == without_order_and_words(expected), (version, code)
