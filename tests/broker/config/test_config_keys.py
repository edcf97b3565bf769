import ast
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minibroker.config import BROKER_KEYS, TOPIC_KEYS, ConfigError, ConfigType
from minibroker.config.key_tables import CLIENT_METRICS_KEYS, GROUP_KEYS
from minibroker.config.reference import KAFKA_4_DEFAULTS, render
from tests.programs import run_to_success

ROOT = Path(__file__).parents[3]


def test_a_key_that_one_release_alone_has_says_so() -> None:
    documentation = {name: key.documentation for name, key in BROKER_KEYS.items()}
    assert documentation["group.share.assignors"].endswith("; new in Kafka 4.")
    assert all(
        words.endswith("; gone in Kafka 4.") for name, words in documentation.items() if name.startswith("zookeeper.")
    )


def test_both_tables_are_in_order_and_every_key_says_what_it_means() -> None:
    for table in (BROKER_KEYS, TOPIC_KEYS):
        assert list(table) == sorted(table)
        assert all(key.documentation.endswith(".") for key in table.values())


def test_the_text_of_a_default_is_read_back_as_that_default() -> None:
    for key in (*BROKER_KEYS.values(), *TOPIC_KEYS.values()):
        text = key.text(key.default)
        assert (None if text is None else key.parse(text)) == key.default, key.name


# The output of Java 17 for these numbers.
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456789.25, "1.2345678925E8"),
        (1e21, "1.0E21"),
        (0.001, "0.001"),
        (9.9e-4, "9.9E-4"),
        (-2.5e-7, "-2.5E-7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_a_number_is_written_as_java_writes_it(number: float, text: str) -> None:
    assert BROKER_KEYS["log.cleaner.io.max.bytes.per.second"].text(number) == text


@given(st.floats())
def test_every_number_is_read_back_from_its_java_form(number: float) -> None:
    key = BROKER_KEYS["log.cleaner.io.max.bytes.per.second"]
    text = key.text(number)
    assert text is not None
    read = key.parse(text)
    assert read == number or (read != read and number != number)  # noqa: PLR0124 - only a NaN differs from itself


@cache
def words_in_the_code() -> frozenset[str]:
    """Return every string literal of the broker and its storage, except the tables."""
    files = [file for room in ("minibroker", "storage") for file in (ROOT / room).rglob("*.py")]
    tables = ROOT / "minibroker/config"
    trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files if not file.is_relative_to(tables)]
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


@pytest.mark.slow
def test_a_topic_key_is_marked_as_honored_if_and_only_if_the_code_reads_it() -> None:
    through_other_keys = {"message.timestamp.difference.max.ms"}  # see `timestamp_limits`
    honored = {name for name, key in TOPIC_KEYS.items() if key.honored}
    assert honored == (words_in_the_code() & set(TOPIC_KEYS)) | through_other_keys


@pytest.mark.slow
def test_a_broker_key_is_marked_as_honored_if_and_only_if_the_code_reads_it_or_its_key_of_topics_or_groups() -> None:
    honored = {name for name, key in BROKER_KEYS.items() if key.honored}
    lesser = (*TOPIC_KEYS.values(), *GROUP_KEYS.values())
    through_others = {name for key in lesser if key.honored for name, _ in key.synonyms}
    through_node_id = {"broker.id"}
    # The container reads its role from these keys.
    of_containers = {"controller.quorum.voters", "process.roles", "zookeeper.connect"}
    of_clients = {"ssl.endpoint.identification.algorithm"}  # Clients of a broker check its name with it.
    others = of_containers | of_clients
    of_each_kind = {f"group.{kind}.max.size" for kind in ("consumer", "share", "streams")}
    through_others |= through_node_id | of_each_kind
    assert honored == (words_in_the_code() & set(BROKER_KEYS)) - others | through_others


def test_the_page_of_the_docs_is_what_the_tables_say() -> None:
    assert (ROOT / "docs/configuration.md").read_text(encoding="utf-8") == render()


def test_the_page_of_the_docs_has_a_row_for_every_key() -> None:
    rows = [line for line in render().splitlines() if line.startswith("| `")]
    tables = (BROKER_KEYS, TOPIC_KEYS, GROUP_KEYS, CLIENT_METRICS_KEYS, KAFKA_4_DEFAULTS)
    assert len(rows) == sum(map(len, tables))
    assert (
        "| `segment.ms` | LONG | `604800000` | at least 1 | medium | After how long a new segment is begun. |"
        in render()
    )


def test_the_page_of_the_docs_begins_with_the_keys_that_have_an_effect() -> None:
    with_effect, without = render().partition("## Topic")[0].split("### Broker keys without an effect")
    assert "| `listeners` |" in with_effect
    assert "| `zookeeper.connect` |" in without


def test_importing_the_configuration_loads_no_other_room() -> None:
    script = (
        "import enum, importlib, sys, typing; before = set(sys.modules); import minibroker.config; "
        "from minibroker_protocol.lazy_imports import is_loaded; "
        "print(*filter(is_loaded, sorted(set(sys.modules) - before)))"
    )
    loaded = run_to_success([sys.executable, "-c", script], cwd=ROOT)
    rooms = [name for name in loaded.stdout.split() if name.startswith("minibroker")]
    assert [name for name in rooms if not name.startswith("minibroker.config")] == [
        "minibroker",
        "minibroker_protocol",
        "minibroker_protocol.java_text",
        "minibroker_protocol.lazy_imports",
    ]


def test_config_types_have_the_numbers_of_describe_configs() -> None:
    names = ["BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"]
    assert [ConfigType[name].value for name in names] == list(range(1, 10))


@pytest.mark.parametrize("text", ["1" * 5000, "-" + "9" * 5000])
def test_a_number_of_thousands_of_digits_is_refused_as_any_that_is_too_large(text: str) -> None:
    with pytest.raises(ConfigError, match="Not a number of type LONG"):
        TOPIC_KEYS["retention.ms"].parse(text)
