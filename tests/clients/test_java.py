"""Kafka's Java clients: what they see of clusters, groups and transactions is what they see of Apache Kafka.

The programs `Consoles`, `Groups` and `Transactions` print what the admin client, consumers and producers were
answered. What Kafka 3.9.1 answers its clients is noted in java/golden, and where Kafka 4.4.0 answers newer ones
otherwise, that too: `Groups-4.jsonl` and `Transactions-4.jsonl`. `--kafka HOST:PORT` runs them against that Kafka
instead of the broker, and `python -m tests.clients.test_java HOST:PORT` notes its answers again, with `4` behind it
those of Kafka 4.
"""

import json
import sys
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.clients.broker_process import BrokerProcess
from tests.clients.flow import PARTITIONS, SOURCE, TARGET, TOPICS, flow
from tests.clients.java_programs import VERSIONS, client_command
from tests.clients.line_process import LineProcess
from tests.programs import run_to_success
from tests.sweeps import one_in

PROGRAMS: Final = ("Consoles", "Groups", "Transactions")
GOLDEN: Final = Path(__file__).parent / "java" / "golden"


@pytest.fixture(scope="module", params=one_in(len(VERSIONS), reversed(VERSIONS)))
def version(request: pytest.FixtureRequest) -> str:
    """Of the clients."""
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def config(version: str) -> Mapping[str, str]:
    """The broker soon aborts transactions that have timed out.

    For the clients of Kafka 3.9 it is taken for their Kafka, whose transactions have no epochs that are raised.
    """
    emulated = {"minibroker.emulate": "3.9"} if version == VERSIONS[0] else {}
    return {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100", **emulated}


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_java_client_is_answered_as_by_apache_kafka(bootstrap: str, program: str, version: str) -> None:
    noted = noted_for(program, version).read_text()
    assert [json.loads(line) for line in answers(bootstrap, program, version).splitlines()] == [
        json.loads(line) for line in noted.splitlines()
    ]


@pytest.mark.torture
def test_a_java_copier_copies_each_record_once_while_the_broker_is_killed(
    broker_process: Callable[..., BrokerProcess], version: str
) -> None:
    command = client_command("Copier", version)
    broker = broker_process(*TOPICS)
    values = [b"%d" % number for number in range(1_000)]
    with LineProcess([*command, broker.bootstrap, "copying", SOURCE, TARGET, "copier", "20"]) as copier:
        arrived = flow(
            broker.bootstrap, copier, values, factor=1, turns=dict.fromkeys((300, 600), broker.kill_and_start)
        )
        copier.end()
    for partition in range(PARTITIONS):
        copies = [
            f"{SOURCE}-{partition}@{number} ".encode() + value
            for number, value in enumerate(values[partition::PARTITIONS])
        ]
        assert [record.value for record in arrived if record.partition == partition] == copies
    broker.terminate()


def noted_for(program: str, version: str) -> Path:
    """The file of what Kafka answers a program with clients of this version."""
    newer = GOLDEN / f"{program}-4.jsonl"
    return newer if version != VERSIONS[0] and newer.exists() else GOLDEN / f"{program}.jsonl"


def answers(bootstrap: str, program: str, version: str) -> str:
    """The output of a program about that broker."""
    command = [*client_command(program, version), bootstrap, f"run-{uuid.uuid4().hex[:12]}-"]
    done = run_to_success(command)
    return done.stdout


if __name__ == "__main__":
    clients = VERSIONS[-1] if sys.argv[2:] == ["4"] else VERSIONS[0]
    for each in PROGRAMS:
        noted_for(each, clients).write_text(answers(sys.argv[1], each, clients))
