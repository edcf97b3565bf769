"""The drivers of the matrix: one for each client, and how to start it; what a client needs is fetched and built first.

Where a toolchain is missing, the test of the client is skipped and says why; under CI that is a failure.
"""

import functools
import os
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.clients.broker_process import environment
from tests.clients.matrix import builds
from tests.kafka import jars
from tests.kafka.fixtures import or_skip

JAVA_VERSIONS: Final = ("1.1.1", "2.4.1", "3.9.1", "4.4.0")


class Start(NamedTuple):
    """A command, which takes the bootstrap address and a prefix as its last arguments, and its environment."""

    command: Sequence[str]
    variables: Mapping[str, str] = environment()
    #: What follows the bootstrap address and the prefix.
    more: Sequence[str] = ()


class Driver(NamedTuple):
    """A client of the matrix."""

    name: str
    title: str
    start: Callable[[], Start]


def _python(name: str, *arguments: str, more: Sequence[str] = ()) -> Start:
    return Start([sys.executable, "-W", "ignore", "-m", f"tests.clients.matrix.drivers.{name}", *arguments], more=more)


def _folder(name: str) -> str:
    place = Path(sysconfig.get_path("data")) / name
    assert place.is_dir(), f"{place} is not there: `make setup` makes it"
    return str(place)


def _kafka_python(folder: str, *more: str) -> Start:
    return _python("kafka_python", _folder(folder), more=more)


def _python_from(folder: str, name: str, found: Mapping[str, str] | None = None) -> Start:
    """A driver whose client is in a folder of its own, before the one of the tests."""
    variables = environment()
    path = os.pathsep.join([folder, variables["PYTHONPATH"]])
    return Start(_python(name).command, {**variables, **(found or {}), "PYTHONPATH": path})


def _librdkafka_1() -> Start:
    folder, found = builds.librdkafka_1()
    return _python_from(folder, "confluent", found)


def _kcat() -> Start:
    program, found = builds.kcat()
    return Start([*_python("kcat").command, program], {**environment(), **found})


def _java(version: str) -> Start:
    return Start(builds.java(version))


def _sarama(modules: str) -> Start:
    return Start(builds.go("sarama", modules))


def _spark() -> Start:
    or_skip(jars.java)
    return _python("spark")


def _of_connect(name: str) -> Start:
    return _python(name, *builds.connect())


def _node(name: str, *more: str) -> Start:
    command, found = builds.node(name)
    return Start(command, {**environment(), **found}, more)


DRIVERS: Final[dict[str, Driver]] = {
    driver.name: driver
    for driver in (
        Driver("kafka-python-1.4", "kafka-python 1.4.7", lambda: _kafka_python("old-client")),
        Driver(
            "kafka-python-1.4-as-0.8.2",
            "the same with `api_version=(0, 8, 2)`",
            lambda: _kafka_python("old-client", "0.8.2"),
        ),
        Driver("kafka-python-2.0", "kafka-python 2.0.2", lambda: _kafka_python("kafka-python-2-0")),
        Driver("kafka-python-2.2", "kafka-python 2.2.15", lambda: _kafka_python("kafka-python-2-2")),
        Driver("kafka-python-3", "kafka-python 3.0.12", lambda: _python("kafka_python", "-")),
        Driver("aiokafka-0.7", "aiokafka 0.7.0", lambda: _python_from(_folder("aiokafka-0-7"), "aiokafka")),
        Driver("aiokafka", "aiokafka 0.14.0", lambda: _python("aiokafka")),
        Driver("confluent-kafka-1", "confluent-kafka 1.8.2 with librdkafka 1.8.2", _librdkafka_1),
        Driver("confluent-kafka", "confluent-kafka 2.16.1", lambda: _python("confluent")),
        *(
            Driver(f"java-{version}", f"Java kafka-clients {version}", functools.partial(_java, version))
            for version in JAVA_VERSIONS
        ),
        Driver("franz-go-1.6", "franz-go 1.6.0 with kadm 1.0.0", lambda: Start(builds.go("franz", "old"))),
        Driver("franz-go", "franz-go 1.22.2", lambda: Start(builds.go("franz"))),
        *(
            Driver(f"sarama-{version}", f"sarama {title}", functools.partial(_sarama, modules))
            for version, title, modules in (("1.38", "1.38.1", "older"), ("1.45", "1.45.0", "old"))
        ),
        Driver("sarama", "sarama 1.61.1 with its default configuration", lambda: Start(builds.go("sarama"))),
        Driver("kafka-go-0.3", "segmentio/kafka-go 0.3.10", lambda: Start(builds.go("segmentio", "old"))),
        Driver("kafka-go", "segmentio/kafka-go 0.4.51", lambda: Start(builds.go("segmentio"))),
        Driver("kafkajs-1", "kafkajs 1.12.0", lambda: _node("kafkajs.js", "kafkajs-1")),
        Driver("kafkajs", "kafkajs 2.2.4", lambda: _node("kafkajs.js")),
        Driver("platformatic", "@platformatic/kafka 1.35.0", lambda: _node("platformatic.js")),
        Driver("rskafka", "rskafka 0.6.0", lambda: Start(builds.rust())),
        Driver("kcat", "kcat 1.7.1 of Debian", _kcat),
        Driver("spark", "Spark 4.2.0 with its connector", _spark),
        Driver("connect", "Kafka Connect 4.3.1 with its connectors for files", lambda: _of_connect("connect")),
        Driver("mirror-maker", "MirrorMaker 2 of Kafka 4.3.1", lambda: _of_connect("mirror_maker")),
        Driver("flink", "Flink 2.2.0 with its connector 5.0.0", lambda: Start(builds.flink())),
    )
}

PROGRAMS: Final = ("connect", "mirror-maker", "flink")
"""Those that move data between topics: each takes a JVM or more, and as long as all the clients together."""
