"""The checks of `minibroker grade` against Kafka itself: one that Kafka fails is wrong."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from minibroker.grade.catalogue import chosen
from minibroker.grade.runner import Result, Target, run
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


def _skipped(kafka: RealKafka) -> set[str]:
    """The checks that do not apply; all others have to pass."""
    with_coordinators(kafka.bootstrap)
    seen: list[Result] = []
    results = run(Target(address_of(kafka.bootstrap), str(kafka.data_dir)), chosen(), seen.append)
    assert [(each.check.name, each.reason) for each in results if each.outcome in {"failed", "died"}] == []
    return {each.check.name for each in results if each.outcome == "skipped" and "--start" not in each.reason}


def test_kafka_3_9_passes_all_checks(real_kafka: RealKafka, kafka_libs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_LIBS", os.fspath(kafka_libs))
    assert _skipped(real_kafka) == set()


def test_kafka_4_passes_all_checks_but_those_of_old_formats(
    kafka_4: RealKafka, kafka_libs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_LIBS", os.fspath(kafka_libs))
    assert _skipped(kafka_4) == _BEFORE_KIP_896
