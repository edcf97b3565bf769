"""Hashes, orders and numbers as Java and Kafka compute them, with Kafka's classes as the oracle."""

import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from random import Random
from typing import Final

import pytest

from minibroker.config.keys import ConfigError, ConfigKey, ConfigType, Importance, OffsetReset
from minibroker.coordinators.coordinator_log import partition_for
from minibroker.coordinators.java_order import topic_id_sort_key, uuid_hash
from minibroker_protocol.java_text import fold_case, parse_double, parse_integer, trim, utf16_order
from minibroker_protocol.primitives import uuid_text
from minibroker_protocol.records.partitioner import partition_for_key
from tests.kafka.fixtures import or_skip
from tests.kafka.line_oracle import LineOracle

_SOURCE: Final = Path(__file__).with_name("JavaTextOracle.java")
_UNITS: Final = [
    *map(chr, range(0x21)),
    *"aZ09.-+_eEdDfFxXpPnN,",
    "\u017f",
    "ß",
    "İ",
    "\u0131",
    "\u0660",
    "\uff11",
    "\u3000",
]
_ASTRAL: Final = ["\ue000", "\uffff", "\U00010000", "\U0001d7cf", "\U0001f600", "\ud800", "\udfff"]
_WORDS: Final = [
    "true",
    "FALSE",
    "fal\u017fe",
    "NaN",
    "Infinity",
    "1",
    "0x",
    "p3",
    "1_0",
    "\u0661",
    "9" * 19,
    "2147483648",
    "e5",
]
_NUMBERS: Final = [
    *[
        "",
        "+",
        "-",
        "+-1",
        "1_000",
        " 1",
        "1 ",
        "0x10",
        "00",
        "-0",
        "+7",
        "1.",
        ".5",
        ".",
        "1e",
        "1e5",
        "1e400",
        "1d",
        "1F",
    ],
    *[
        "NaN",
        "-NaN",
        "NaNf",
        "Infinity",
        "+Infinity",
        "inf",
        "nan",
        "0x1p3",
        "-0x.8P-2f",
        "0x1",
        "0xp1",
        "0x1.p1023",
        "0x1p5000",
    ],
    *["9223372036854775807", "9223372036854775808", "-9223372036854775808", "2147483647", "-2147483649", "9" * 5000],
    *["\u0661\u0662", "\U0001d7cf", "\uff11", "²", "1\n", "\t2", "\u00a03"],
]


class JavaTextOracle(LineOracle):
    """See `LineOracle`."""

    def result(self, operation: str, *texts: str) -> str | None:
        """The result, or None for a refusal."""
        fields = (b64encode(text.encode("utf-16-be", "surrogatepass")).decode() for text in texts)
        answer = self.ask(operation, *fields)
        assert answer, self.complaints()
        return None if answer == "!" else answer[1:]

    def number(self, operation: str, *texts: str) -> int | None:
        """A result that is a number."""
        result = self.result(operation, *texts)
        return None if result is None else int(result)

    def text(self, operation: str, *texts: str) -> str | None:
        """A result that is a text."""
        result = self.result(operation, *texts)
        return None if result is None else b64decode(result).decode("utf-16-be", "surrogatepass")


@pytest.fixture(scope="module")
def java(kafka_libs: Path) -> Iterator[JavaTextOracle]:
    with or_skip(lambda: JavaTextOracle(_SOURCE, kafka_libs, heap="256m")) as running:
        yield running


def texts(seed: int, count: int) -> Iterator[str]:
    """Texts of all kinds of characters, also of halves of surrogate pairs."""
    rnd = Random(seed)
    for _ in range(count):
        yield "".join(rnd.choices([*_UNITS, *_ASTRAL, *_WORDS], k=rnd.randrange(8)))


def test_coordinators_are_in_the_same_partitions(java: JavaTextOracle) -> None:
    named = ["orders", "billing", "polygenelubricants", "", "my-group", "g" * 300]
    for text in chain(named, texts(1, 500)):
        for partitions in (1, 7, 50):
            assert partition_for(text, partitions) == java.number("coordinator", text, str(partitions)), text


def test_keys_of_records_are_in_the_same_partitions(java: JavaTextOracle) -> None:
    for text in texts(2, 500):
        encodable = text.encode("utf-8", "replace").decode()
        assert partition_for_key(encodable.encode(), 13) == java.number("producer", encodable, "13"), encodable


def test_topic_ids_have_the_same_hashes(java: JavaTextOracle) -> None:
    rnd = Random(3)
    for _ in range(200):
        topic_id = rnd.randbytes(16)
        found = java.number("uuid", uuid_text(topic_id))
        assert found is not None
        assert uuid_hash(topic_id) == found % (1 << 32)


def test_topic_ids_have_the_same_order(java: JavaTextOracle) -> None:
    rnd = Random(10)
    for _ in range(200):
        one, other = rnd.randbytes(16), rnd.randbytes(16)
        ours = (topic_id_sort_key(one) > topic_id_sort_key(other)) - (topic_id_sort_key(one) < topic_id_sort_key(other))
        assert ours == java.number("ids", uuid_text(one), uuid_text(other))


def test_durations_are_read_alike(java: JavaTextOracle) -> None:
    rnd = Random(11)
    numbers = ["", "", "0", "7", "+3", "-2", "1.5", "2,000000001", "-0.25", "1.", ".5", "\u0661", "9" * 5000]
    for _ in range(2000):
        days, hours, minutes, seconds = rnd.choices(numbers, k=4)
        parts = (days and f"{days}D", rnd.choice(["", "T"]), hours and f"{hours}H", minutes and f"{minutes}m")
        text = rnd.choice(["P", "P", "p", "-P", "+P", ""]) + "".join(parts) + (seconds and f"{seconds}S")
        theirs = java.number("duration", text)
        try:
            ours = OffsetReset.of(f"by_duration:{text}").before_ms
        except ValueError:
            assert theirs is None or theirs < 0, text
        else:
            assert ours == theirs, text


def test_strings_have_the_same_order(java: JavaTextOracle) -> None:
    for one, other in zip(texts(4, 1000), texts(5, 1000), strict=True):
        ours = (utf16_order(one) > utf16_order(other)) - (utf16_order(one) < utf16_order(other))
        assert ours == java.number("order", one, other), (one, other)


def test_blanks_are_trimmed_alike(java: JavaTextOracle) -> None:
    for text in texts(6, 1000):
        assert trim(text) == java.text("trim", text), text


def test_words_are_equal_alike_whatever_their_case(java: JavaTextOracle) -> None:
    for code in range(0x250):
        word = f"f{chr(code)}l"
        for other in ("fsl", "fil", "fkl", "fal"):
            assert str(fold_case(word) == other).lower() == java.result("equal", word, other), word


@pytest.mark.parametrize(("operation", "bits"), [("long", 63), ("int", 31)])
def test_integers_are_read_alike(java: JavaTextOracle, operation: str, bits: int) -> None:
    for text in chain(_NUMBERS, texts(7, 500)):
        assert parse_integer(text, bits) == java.number(operation, text), text


def test_the_digits_of_all_scripts_are_read_alike(java: JavaTextOracle) -> None:
    digits = [chr(code) for code in range(0x110000) if chr(code).isdecimal() or chr(code).isdigit()]
    for digit in digits:
        assert parse_integer(digit) == java.number("long", digit), hex(ord(digit))


def test_doubles_are_read_alike(java: JavaTextOracle) -> None:
    for text in chain(_NUMBERS, texts(8, 500)):
        ours = parse_double(text)
        bits = None if ours is None else struct.unpack(">q", struct.pack(">d", ours))[0]
        if ours is not None and ours != ours:  # noqa: PLR0124 - Java has one NaN
            bits = 0x7FF8_0000_0000_0000
        assert bits == java.number("double", text), text


@pytest.mark.parametrize("kind", ["BOOLEAN", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "STRING"])
def test_configuration_values_are_read_alike(java: JavaTextOracle, kind: str) -> None:
    key = ConfigKey("key", ConfigType[kind], None, None, Importance.LOW, honored=True, documentation="")
    for text in chain(_NUMBERS, _WORDS, ["a , b,,c ", " ,", "a\u00a0, b", "a\v,\fb"], texts(9, 300)):
        try:
            ours = key.text(key.parse(text))
        except ConfigError:
            ours = None
        theirs = java.text(kind, text)
        assert (ours is None) == (theirs is None), text
        if kind != "DOUBLE":  # the notation of doubles has its own tests
            assert ours == theirs, text
