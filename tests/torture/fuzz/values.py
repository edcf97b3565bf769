"""Requests that are well-formed and hostile: made from the declarations of the messages, with values that hurt."""

import random
import struct
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Final

from minibroker_protocol import primitives as p
from minibroker_protocol.schema import Field, fields_of, schema_of
from tests.torture.fuzz.batches import hostile_records

_MOST_ELEMENTS: Final = 400
"""Of all arrays of a request together, but for the few that are huge."""
_HUGE: Final = 30_000
_HUGE_SHARE: Final = 0.01
_KEPT: Final = 12
TOPICS: Final = ("fuzz-a", "fuzz-b", "fuzz-c")
"""Those that a broker has from the beginning."""

_TEXTS: Final = (
    *TOPICS,
    *TOPICS,
    "",
    "fuzz-new",
    "fuzz-group",
    "fuzz-transaction",
    "User:alice",
    "alice",
    "*",
    ".",
    "..",
    "../../etc",
    "__consumer_offsets",
    "__transaction_state",
    "a b\n\x1b[31m",
    "\0",
    "x" * 249,
    "x" * 250,
    "y" * 32_767,
    "\u00e9\u4e2d\U0001f600" * 20,
    "range",
    "uniform",
    "consumer",
    "127.0.0.1",
    "-1",
    "1",
    "9" * 400,
    "1e999",
    "nan",
    "null",
)
_KNOWN_TEXTS: Final[dict[str, tuple[str, ...]]] = {
    "resource_name": (*TOPICS, "1", "", "fuzz-group"),
    "value": ("-1", "0", "1", "1000", "compact", "delete,compact", "true", str(2**63), "", "gzip", "100:1"),
    "key": ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "connection_creation_rate"),
    "entity_type": ("user", "client-id", "ip"),
    "mechanism": ("PLAIN", "SCRAM-SHA-256", "GSSAPI"),
    "subscribed_topic_regex": ("fuzz-.*", "(a*)*b", "(?:.?){1000}", "[", "(" * 300 + ")" * 300, "x{9}{9}", "(?i)A"),
    "transactional_id_pattern": ("fuzz-.*", "(a|a)*b", "[", "(?:.?){1000}"),
    "server_assignor": ("uniform", "range"),
    "states_filter": ("Stable", "Empty", "OnGoing"),
    "feature": ("metadata.version", "transaction.version", "group.version"),
    "principal": ("User:alice", "User:*"),
    "principal_type": ("User",),
}
"""Texts that a field of this name has to do with."""

_TOPIC_KEYS: Final = (
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
    "segment.bytes",
    "segment.ms",
    "max.message.bytes",
    "compression.type",
    "message.timestamp.type",
    "min.insync.replicas",
    "flush.messages",
    "index.interval.bytes",
    "message.format.version",
    "no.such.key",
)


class Pool:
    """The values of earlier responses, by the name of the field: ids, epochs and names that exist."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Any]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def learn(self, response: Any) -> None:
        """Keep the values of a response and of the first structures in its arrays."""
        for field in fields(response):
            value = getattr(response, field.name)
            if isinstance(value, list):
                for each in value[:3]:
                    if is_dataclass(each):
                        self.learn(each)
            elif isinstance(value, str | bytes | int) and value not in ("", b"", -1):
                self._kept[field.name].append(value)

    def known(self, name: str) -> Sequence[Any]:
        """Values that a field of this name has had."""
        return self._kept.get(name, ())


class Hostile:
    """Makes requests; all that is random comes from `rng`, and from what `pool` has learned."""

    def __init__(self, rng: random.Random, pool: Pool) -> None:
        self._rng = rng
        self._pool = pool
        self._is_huge = False
        self._left = _MOST_ELEMENTS
        numbers = (p.INT8, p.INT16, p.INT32, p.INT64, p.UINT16)
        self._makers: dict[p.WireType, Callable[[str], Any]] = {
            p.BOOLEAN: lambda _: rng.random() < 0.5,
            p.FLOAT64: lambda _: rng.choice([0.0, -1.0, 1.0, 1e9, 1e308, float("inf"), float("nan"), 5e-324]),
            p.UUID: lambda _: rng.choice([bytes(16), bytes(15) + b"\1", rng.randbytes(16)]),
            p.STRING: self._text,
            p.BYTES: lambda _: rng.choice([b"", b"\0", b"\0alice\0secret", rng.randbytes(40), bytes(70_000)]),
            p.RECORDS: lambda _: hostile_records(rng, self._pool.known),
            **{kind: self._number_maker(kind) for kind in numbers},
        }

    def request(self, cls: type[Any], version: int) -> Any:
        """A request of one version."""
        rng = self._rng
        self._is_huge = rng.random() < _HUGE_SHARE
        self._left = _HUGE if self._is_huge else _MOST_ELEMENTS
        return self._message(cls, version, cls)

    def _message(self, cls: type[Any], version: int, top: type[Any]) -> Any:
        return cls(
            **{
                field.name: self._value(field, version, top) if _exists(field, version, top) else field.default()
                for field in fields_of(cls)
            }
        )

    def _value(self, field: Field, version: int, top: type[Any]) -> Any:
        rng = self._rng
        if version in field.nullable and rng.random() < 0.15:
            return None
        if not field.is_array:
            return self._single(field, version, top)
        count = min(self._count(), self._left)
        self._left -= count
        if count > 3 and rng.random() < 0.4:  # duplicates
            return [self._single(field, version, top)] * count
        return [self._single(field, version, top) for _ in range(count)]

    def _count(self) -> int:
        rng = self._rng
        if self._is_huge and rng.random() < 0.5:
            return _HUGE
        return rng.choice([0, 1, 1, 1, 2, 2, 3, 5, 40])

    def _single(self, field: Field, version: int, top: type[Any]) -> Any:
        kind = field.kind
        if not isinstance(kind, p.WireType):
            return self._message(kind, version, top)
        known = self._pool.known(field.name)
        if known and self._rng.random() < 0.5:
            value = self._rng.choice(known)
            if isinstance(value, type(kind.default)):
                return value
        return self._makers[kind](field.name)

    def _text(self, name: str) -> str:
        rng = self._rng
        if name in _KNOWN_TEXTS and rng.random() < 0.7:
            return rng.choice(_KNOWN_TEXTS[name])
        if name in {"name", "configuration_keys"} and rng.random() < 0.2:
            return rng.choice(_TOPIC_KEYS)
        chosen = rng.choice(_TEXTS)
        return chosen[:20] if self._is_huge else chosen

    def _number_maker(self, kind: p.WireType) -> Callable[[str], int]:
        bits = 8 * struct.calcsize(">" + kind.fmt)
        most = (1 << bits) - 1
        low, high = (0, most) if kind.fmt.isupper() else (-(most >> 1) - 1, most >> 1)
        usual = [low, high, high - 1, 0, 0, 0, 1, 1, 2, 3, 5, 100] + ([] if low == 0 else [-1, -1, -1, -2])

        def number(name: str) -> int:
            if name.endswith("timeout_ms"):
                return self._rng.choice([0, 1, 100, high, -1])
            return self._rng.choice(usual) if self._rng.random() < 0.95 else self._rng.randint(low, high)

        return number


def _exists(field: Field, version: int, top: type[Any]) -> bool:
    return version in field.present and (version not in field.tagged_in or version in schema_of(top).flexible)
