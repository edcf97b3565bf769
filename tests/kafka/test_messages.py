"""Random messages of every API and version, through the classes that Kafka itself reads and writes them with.

What Kafka 4 has dropped is held against the clients of 3.9.1, what came later against those of 4.4.0, and what both
know against both: the bytes that Kafka writes of what it has read must be ours.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import pytest

from minibroker_protocol.api_keys import ApiKey
from minibroker_protocol.codec import encode
from minibroker_protocol.error_codes import ErrorCode
from minibroker_protocol.primitives import WireType
from minibroker_protocol.schema import Field, fields_of, schema_of
from tests.clients.java_programs import VERSIONS, client_libs
from tests.kafka.fixtures import or_skip
from tests.kafka.messages import UNKNOWN, Messages
from tests.protocol.message_strategies import all_classes
from tests.sweeps import one_in

CASES_PER_VERSION: Final = 20
API_MESSAGES: Final = [cls for cls in all_classes() if cls.__module__.startswith("minibroker_protocol.messages.")]
_EARLY_ACCESS: Final = {"3.9.1": frozenset({ApiKey.READ_SHARE_GROUP_STATE_SUMMARY})}
"""APIs whose messages had other fields in a release that did not serve them yet."""
_KEYS: Final = {key.name.replace("_", ""): key for key in ApiKey}


@pytest.fixture(scope="module")
def kafkas() -> Iterator[list[Messages]]:
    """The message classes of each version of kafka-clients."""
    with ExitStack() as stack:
        yield [stack.enter_context(or_skip(partial(_messages_of, version))) for version in VERSIONS]


def _messages_of(version: str) -> Messages:
    return Messages(client_libs(version))


def key_of(cls: type[Any]) -> ApiKey:
    """The API of a request's or response's class."""
    name = cls.__name__.removesuffix("Request").removesuffix("Response")
    return _KEYS[name.upper()]


class Maker:
    """Random values of declared messages; no two texts are the same, since Kafka keeps some lists as sets."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def message(self, cls: type[Any], version: int, top: type[Any] | None = None) -> Any:
        """A message, or a structure in one of class `top`, with the fields that the version has."""
        flexible = version in schema_of(top or cls).flexible
        made: dict[str, Any] = {}
        for field in fields_of(cls):
            exists = version in field.present and (flexible or version not in field.tagged_in)
            made[field.name] = self._value(field, version, top or cls) if exists else field.default()
        return cls(**made)

    def _value(self, field: Field, version: int, top: type[Any]) -> Any:
        if version in field.nullable and self._chance.random() < 0.3:
            return None
        if field.tag >= 0 and version in field.tagged_in and self._chance.random() < 0.3:
            return field.default()
        if field.is_array:
            return [self._one(field, version, top) for _ in range(self._chance.choice((0, 1, 1, 3)))]
        return self._one(field, version, top)

    def _one(self, field: Field, version: int, top: type[Any]) -> Any:
        kind = field.kind
        if not isinstance(kind, WireType):
            return self.message(kind, version, top)
        self._count += 1
        chance = self._chance
        of_type: dict[str, Callable[[], Any]] = {
            "STRING": lambda: f"{self._count}" + "ä€x"[: chance.randrange(4)] * chance.choice((1, 1, 50)),
            "UUID": lambda: self._count.to_bytes(16, "big"),
            "BYTES": lambda: chance.randbytes(chance.choice((0, 1, 200))),
            "RECORDS": lambda: chance.randbytes(chance.choice((0, 1, 200))),
            "BOOLEAN": lambda: chance.random() < 0.5,
            "FLOAT64": lambda: chance.uniform(-1e9, 1e9),
        }
        return of_type[kind.name]() if kind.name in of_type else self._number(field, kind.name)

    def _number(self, field: Field, kind: str) -> int:
        if field.name.endswith("error_code"):
            code: int = self._chance.choice([int(each) for each in ErrorCode])
            return code
        bits = {"INT8": 7, "INT16": 15, "INT32": 31, "INT64": 63, "UINT16": 16, "UINT32": 32}[kind]
        if field.is_array or self._chance.random() < 0.5:  # in lists of numbers, too, some are kept as sets
            return self._count % (1 << min(bits, 7))
        low = 0 if kind.startswith("U") else -(2**bits)
        return self._chance.randrange(low, 2**bits)


@pytest.mark.parametrize("cls", one_in(2, API_MESSAGES), ids=lambda cls: cls.__name__)
def test_kafka_writes_the_bytes_that_it_has_read(cls: type[Any], kafkas: list[Messages]) -> None:
    maker = Maker(cls.__name__)
    versions = schema_of(cls).versions
    cases: list[tuple[int, bytes]] = []
    for version in range(versions.first, versions.last + 1):
        for _ in range(CASES_PER_VERSION):
            data = bytearray()
            encode(maker.message(cls, version), version, data, [])
            cases.append((version, bytes(data)))
    kind = "request" if cls.__name__.endswith("Request") else "response"
    held: set[int] = set()
    for release, kafka in zip(VERSIONS, kafkas, strict=True):
        if key_of(cls) in _EARLY_ACCESS.get(release, ()):
            continue
        for (version, ours), theirs in zip(cases, kafka.rewritten(kind, key_of(cls), cases), strict=True):
            if theirs != UNKNOWN:
                assert theirs == ours, (version, theirs if isinstance(theirs, str) else theirs.hex(), ours.hex())
                held.add(version)
    assert held == set(range(versions.first, versions.last + 1))
