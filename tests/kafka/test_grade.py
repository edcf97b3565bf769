"""The checks of `minibroker grade` against Kafka itself: one that Kafka fails is wrong."""

import os
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from minibroker.cli.main import main
from minibroker_grade.catalogue import select_checks
from minibroker_grade.check import Check
from minibroker_grade.runner import Target, run
from tests.broker.grade.tables import PAGE
from tests.broker.socket_client import address_of
from tests.kafka import jars
from tests.kafka.coordinators import with_coordinators
from tests.kafka.fixtures import or_skip
from tests.kafka.real_kafka import RealKafka

_BEFORE_KIP_896 = {"produce/format-0-is-accepted", "produce/format-1-is-accepted", "produce/format-1-may-be-compressed"}


@pytest.fixture
def kafka_4(tmp_path: Path) -> Iterator[RealKafka]:
    libs = or_skip(lambda: jars.find(version=jars.NEWEST))
    with closing(RealKafka(tmp_path / "kafka", libs)) as running:
        running.start()
        yield running


def _skipped(kafka: RealKafka, checks: Iterable[Check]) -> set[str]:
    """The checks that do not apply; all others have to pass."""
    with_coordinators(kafka.bootstrap)
    results = list(run(Target(address_of(kafka.bootstrap), str(kafka.data_dir)), checks))
    assert [(each.check.name, each.reason) for each in results if each.outcome in {"failed", "died"}] == []
    return {each.check.name for each in results if each.outcome == "skipped" and "--start" not in each.reason}


@pytest.mark.torture
@pytest.mark.parametrize("stage", ["without clients", "clients"])
def test_kafka_3_9_passes_all_checks(
    real_kafka: RealKafka, kafka_libs: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    monkeypatch.setenv("KAFKA_LIBS", os.fspath(kafka_libs))
    checks = [check for check in select_checks() if (check.stage == "clients") == (stage == "clients")]
    assert len(checks) > 4
    assert _skipped(real_kafka, checks) == set()


@pytest.mark.torture
def test_kafka_4_passes_all_checks_but_those_of_old_formats(
    kafka_4: RealKafka, kafka_libs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LIBS", os.fspath(kafka_libs))
    assert _skipped(kafka_4, select_checks()) == _BEFORE_KIP_896


@pytest.mark.torture
@pytest.mark.parametrize("version", [jars.VERSION, jars.NEWEST])
def test_kafka_is_started_killed_and_started_again_by_the_script_of_the_page(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (script,) = re.findall(r"^```sh\n(#!/bin/sh\n.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "start-kafka.sh").write_text(script)
    monkeypatch.setenv("KAFKA_LIBS", os.fspath(or_skip(lambda: jars.find(version=version))))
    status = main(["grade", "--start", f"sh {tmp_path}/start-kafka.sh {{port}} {{dir}}"])
    printed, errors = capsys.readouterr()
    assert status == 0, printed + errors
    passed = len(select_checks()) - (len(_BEFORE_KIP_896) if version == jars.NEWEST else 0)
    assert f"{passed} of {passed}" in printed


_A_CLASS = re.compile(r"[A-Z]\w+[a-z]\w*(\.\w+)?")
_OTHERS = re.compile(r"KIP-\d+|KAFKA-\d+|[a-z_]+(\.[a-z]+)+|__consumer_offsets|librdkafka|kafka-python")

_CONFIGURATIONS = ("TopicConfig", "GroupCoordinatorConfig", "TransactionStateManagerConfigs", "SocketServerConfigs")


def _classes(libs: Path) -> dict[str, bytes]:
    """The class files of Kafka's own jars by the names of the classes, with those inside of them."""
    found: dict[str, bytes] = {}
    for path in libs.glob("kafka*.jar"):
        with zipfile.ZipFile(path) as jar:
            for name in jar.namelist():
                if name.endswith(".class"):
                    data = jar.read(name)
                    for simple in name.removesuffix(".class").rpartition("/")[2].split("$"):
                        found[simple] = found.get(simple, b"") + data
    return found


def test_the_sources_that_checks_name_are_classes_methods_and_keys_of_kafka(kafka_libs: Path) -> None:
    classes = _classes(kafka_libs)
    text = b"".join(classes[name] for name in _CONFIGURATIONS)
    wrong: list[str] = []
    for check in select_checks():
        for source in check.source.split(", "):
            if _A_CLASS.fullmatch(source):
                name, _, member = source.partition(".")
                constant = len(member).to_bytes(2) + member.encode()  # as a class file has it
                right = name in classes and (not member or constant in classes[name])
            else:
                right = _OTHERS.fullmatch(source) is not None and ("." not in source or source.encode() in text)
            if not right:
                wrong.append(f"{check.name}: {source}")
    assert wrong == []
