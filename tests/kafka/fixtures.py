"""Apache Kafka for every room of the tests: its jars, its classes, and a broker.

Where Kafka cannot run, the tests that ask for it are skipped and say why; under CI that is a failure.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pytest

from tests.kafka import jars
from tests.kafka.oracle import Oracle
from tests.kafka.real_kafka import RealKafka

T = TypeVar("T")


def or_skip(make: Callable[[], T]) -> T:
    """The result of `make`; the test is skipped, or failed under CI, when Kafka cannot run here."""
    try:
        return make()
    except jars.NoJarsError as reason:
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, so Kafka has to run: {reason}")
        pytest.skip(f"no Apache Kafka: {reason}")


@pytest.fixture(scope="session")
def kafka_libs() -> Path:
    """The folder of Kafka's jars."""
    libs = or_skip(jars.find)
    assert any(libs.glob("kafka-clients-3.9.*.jar")), (
        f"{libs}: the tests compare with Kafka 3.9, and this is another one"
    )
    return libs


@pytest.fixture(scope="session")
def oracle(kafka_libs: Path) -> Iterator[Oracle]:
    """Kafka's record classes and tools."""
    with or_skip(lambda: Oracle(kafka_libs)) as running:
        yield running


@pytest.fixture(scope="module")
def real_kafka(kafka_libs: Path, tmp_path_factory: pytest.TempPathFactory) -> RealKafka:
    """A running Kafka, shared by the tests of a module: each uses topics of its own and leaves the broker running.

    So do the modules that follow each other and take it.
    """
    or_skip(jars.java)
    return shared_kafka(tmp_path_factory, kafka_libs, {})


@pytest.fixture(scope="module")
def newest_kafka(tmp_path_factory: pytest.TempPathFactory) -> RealKafka:
    """A running Kafka of the newest release, shared in the same way."""
    return shared_kafka(tmp_path_factory, or_skip(lambda: jars.find(version=jars.NEWEST)), {})


_shared: dict[tuple[Path, frozenset[tuple[str, str]]], RealKafka] = {}


def shared_kafka(tmp_path_factory: pytest.TempPathFactory, libs: Path, config: Mapping[str, str]) -> RealKafka:
    """Return a running Kafka of this process with these jars and this configuration, started if there is none."""
    key = (libs, frozenset(config.items()))
    if key not in _shared:
        _shared[key] = kafka = RealKafka(tmp_path_factory.mktemp("kafka"), libs, config)
        kafka.start()
    return _shared[key]


def end_shared_kafkas() -> None:
    """End them, since 40 idle seconds cost as much CPU time as a start."""
    while _shared:
        _shared.popitem()[1].close()
