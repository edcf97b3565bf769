"""The clients that are measured, and the command that starts the driver of each.

A driver reads a line of JSON for each try: bootstrap, group, topics, partitions (of each topic), members and poll_ms.
It makes as many consumers, each of which subscribes to the topics and polls. When all have subscribed, it prints
`{"subscribed": true}`, and a record is produced. Who gets that commits. Where there are several members, the last one
closes once all have partitions. Then the others close. The same follows with one consumer of the same group.

At last it prints an object with `first` and `second`, each with these fields, in milliseconds:

- record_ms: from before the consumers are made until the record is there; null after 5 s without.
- closes_ms: how long each close took.
- leave_ms: from the begin of the first close until the remaining members have all partitions.
- is_settled: whether all members had partitions within 10 s.
- error: exceptions of the client.
"""

import functools
import os
import shutil
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import children
from tests.clients import java_programs, rust_programs, toolchains
from tests.clients.matrix import builds

_HERE = Path(__file__).with_name("programs")
_GO_MODULES = children.ROOT / "tests" / "clients" / "matrix" / "go"
_JAVA_JSON = children.ROOT / "tests" / "clients" / "java" / "Json.java"
_NG = "kafka-python-ng==2.2.3"


class Start(NamedTuple):
    command: Sequence[str]
    variables: Mapping[str, str] = {}


def _python(name: str, *folder: str) -> Start:
    return Start([sys.executable, "-W", "ignore", str(_HERE / "python_clients.py"), *folder, name], _rooms())


def _rooms() -> Mapping[str, str]:
    return {"PYTHONPATH": str(children.ROOT)}


def _kafka_python(name: str) -> Start:
    folder = Path(sysconfig.get_path("data")) / name
    if not folder.is_dir():
        toolchains.missing(f"{folder} is not there: `make setup` makes it")
    return _python("kafka-python", str(folder))


def _kafka_python_ng() -> Start:
    def install(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
        if failure := toolchains.run([*pip, "--target", str(folder), _NG], folder):
            toolchains.missing(failure)

    return _python("kafka-python", str(toolchains.build(toolchains.place("kafka-python-ng", [], [_NG]), install)))


def _java(version: str, protocol: str) -> Start:
    sources = [_HERE / "GroupWaits.java", _JAVA_JSON]
    libs = [str(jar) for jar in java_programs.client_libs(version).glob("*.jar")]
    classes = toolchains.build(
        toolchains.place(f"group-waits-java-{version}", sources),
        lambda made: toolchains.compile_java(sources, libs, made, "-Xlint:all", "-Werror"),
    )
    options = ["-Xmx256m", "-Xlog:disable", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
    return Start(["java", *options, "-cp", os.pathsep.join([str(classes), *libs]), "GroupWaits", protocol])


def _node(name: str, *arguments: str) -> Start:
    (program, *_), variables = builds.node(name)
    return Start([program, str(_HERE / name), *arguments], variables)


def _go(name: str) -> Start:
    sources = [*(_HERE / "go").rglob("*.go"), _GO_MODULES / "go.mod", _GO_MODULES / "go.sum"]
    return Start([str(toolchains.build(toolchains.place("group-waits-go", sources), _build_go) / name)])


def _build_go(made: Path) -> None:
    """Build all programs with the modules of the matrix of clients."""
    sources = made / "sources"
    shutil.copytree(_HERE / "go", sources)
    for name in ("go.mod", "go.sum"):
        shutil.copy(_GO_MODULES / name, sources)
    command = [toolchains.tool("go"), "build", "-trimpath", "-buildvcs=false", "-o", f"{made}/", "./..."]
    if failure := toolchains.run(command, sources, {"CGO_ENABLED": "0"}):
        toolchains.missing(failure)


DRIVERS: Mapping[str, Callable[[], Start]] = {
    "kafka-python-3.0": functools.partial(_python, "kafka-python"),
    "kafka-python-2.2": functools.partial(_kafka_python, "kafka-python-2-2"),
    "kafka-python-2.0": functools.partial(_kafka_python, "kafka-python-2-0"),
    "kafka-python-ng": _kafka_python_ng,
    "aiokafka": functools.partial(_python, "aiokafka"),
    "confluent": functools.partial(_python, "confluent"),
    "confluent-consumer": functools.partial(_python, "confluent-consumer"),
    "java": functools.partial(_java, "4.4.0", "classic"),
    "java-consumer": functools.partial(_java, "4.4.0", "consumer"),
    "java-3.9": functools.partial(_java, "3.9.1", "classic"),
    "kafkajs": functools.partial(_node, "kafkajs.js"),
    "platformatic": functools.partial(_node, "platformatic.js", "classic"),
    "platformatic-consumer": functools.partial(_node, "platformatic.js", "consumer"),
    "franz-go": functools.partial(_go, "franz"),
    "sarama": functools.partial(_go, "sarama"),
    "segmentio": functools.partial(_go, "segmentio"),
    "rust": lambda: Start([rust_programs.compiled(_HERE / "rust" / "main.rs")]),
}
