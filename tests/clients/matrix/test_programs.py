"""A program that moves data does with minibroker what it does with Kafka.

The others take too long for each run of the tests;
`python -m tests.clients.matrix --clients connect mirror-maker flink` runs all of them.
"""

from pathlib import Path

import pytest

from tests.clients.matrix import records, servers
from tests.clients.matrix.clients import DRIVERS, PROGRAMS
from tests.clients.matrix.runs import Run, prepare
from tests.patience import PATIENCE_S


@pytest.mark.torture
@pytest.mark.parametrize("check", ["connect-standalone", "connect-exactly-once"])
def test_connectors_copy_files_through_a_topic(tmp_path: Path, check: str) -> None:
    prepared = prepare(DRIVERS["connect"])
    with servers.minibroker(tmp_path) as bootstrap:
        assert Run(prepared, bootstrap, [check], seconds=int(10 * PATIENCE_S)).results() == {check: ""}


def test_what_passes_with_kafka_passed_with_minibroker_when_it_was_recorded() -> None:
    for name in PROGRAMS:
        ours = records.load(records.OURS)[name]
        assert [check for check in ours if not ours[check] and records.passes_on_kafka(name, check)] == []
