"""One run of a foreign suite: fetched, given an environment, run against a broker, and told what came of it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from tests.suites.catalogue import Suite

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
TIMEOUT: Final = 900.0
"""Seconds that a suite may take; kombu's waits for clients that are not to find a broker."""

_TEMPLATES: Final = {
    "kafka.properties": (
        "node.id={broker_id}\nlisteners={transport}://{host}:{port}\nnum.partitions={partitions}\n"
        "default.replication.factor={replicas}\nauto.create.topics.enable={auto_create_topic}\n"
    ),
    "kafka_server_jaas.conf": "# {jaas_config}\n",
    "log4j.properties": "# none\n",
    "zookeeper.properties": "# none\n",
}
"""The template of a suite's configuration for Kafka, in a folder of the version."""


class SuiteError(Exception):
    """A suite that could not be run; the message says why."""


@dataclass(frozen=True)
class Test:
    """A test that ran; `connects` when a new connection sent a request between its begin and its end."""

    name: str
    outcome: Literal["passed", "failed", "skipped"]
    connects: bool


def prepare(suite: Suite, folder: Path) -> None:
    """Fetch the tests and make the environment, unless both are there as the catalogue wants them. `SuiteError`."""
    requirements = (HERE / "requirements" / f"{suite.project}.txt").read_text()
    made, stamp = folder / "made", suite.sha256 + requirements
    if made.exists() and made.read_text() == stamp:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    pin = folder / "sdist.txt"
    pin.write_text(f"{suite.project}=={suite.version} --hash=sha256:{suite.sha256}\n")
    pip = ("-m", "pip", "--disable-pip-version-check", "--quiet")
    _run(sys.executable, *pip, "download", "--no-deps", "--no-binary", suite.project, "--dest", folder, "-r", pin)
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    _run(sys.executable, "-m", "venv", folder / "env")
    python = folder / "env" / "bin" / "python"
    _run(python, *pip, "install", "--require-hashes", "-r", HERE / "requirements" / f"{suite.project}.txt")
    made.write_text(stamp)


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SuiteError(f"{' '.join(map(str, command))}:\n{done.stdout}")


def run(suite: Suite, folder: Path) -> list[Test]:
    """Run its tests with pytest, whose output goes to `folder`/output.txt. `SuiteError` when it gets no test to run."""
    [sources] = (each.parent for each in folder.glob("*/PKG-INFO"))
    with tempfile.TemporaryDirectory(prefix="minibroker-suite-") as directory, ExitStack() as running:
        seen, notes = Path(directory, "seen"), Path(directory, "notes")
        variables = {
            **os.environ,
            "PYTHONPATH": str(HERE / "probe"),
            "MINIBROKER_PROBE": str(seen),
            "MINIBROKER_PYTHON": sys.executable,
            "MINIBROKER_ROOT": str(ROOT),
            "MINIBROKER_NOTES": str(notes),
        }
        if suite.starts_kafka:
            variables |= _stand_in(Path(directory), suite.variables["KAFKA_VERSION"])
            broker = None
        else:
            broker = running.enter_context(_broker(suite.listen or "127.0.0.1:0", notes))
        where = "" if broker is None else _ready(broker)
        variables |= {name: value.format(broker=where) for name, value in suite.variables.items()}
        options = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "minibroker_probe", "--show-capture=no")
        with (folder / "output.txt").open("w") as output:
            subprocess.run(
                [folder / "env" / "bin" / "python", "-m", "pytest", *options, *suite.tests],
                cwd=sources,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
        if broker is not None:
            broker.terminate()
            broker.wait()
        return _tests(seen, notes)


def _broker(listen: str, notes: Path) -> "subprocess.Popen[str]":
    host, _, port = listen.rpartition(":")
    if port != "0":
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                raise SuiteError(f"its tests want the broker at {listen}, where somebody else listens")
    command = [sys.executable, "-m", "tests.suites.recording_broker", listen, str(notes)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def _ready(broker: "subprocess.Popen[str]") -> str:
    assert broker.stdout is not None
    line = broker.stdout.readline().split()
    if not line:
        raise SuiteError("the broker did not start")
    return line[-1]


def _stand_in(directory: Path, version: str) -> Mapping[str, str]:
    """A folder like Kafka's own, and one with templates of its configuration; returns the variables for them."""
    (directory / "kafka" / "bin").mkdir(parents=True)
    shutil.copy(HERE / "kafka-run-class.sh", directory / "kafka" / "bin")
    resources = directory / "project" / "servers" / version / "resources"
    resources.mkdir(parents=True)
    for name, text in _TEMPLATES.items():
        (resources / name).write_text(text)
    return {"KAFKA_ROOT": str(directory / "kafka"), "PROJECT_ROOT": str(directory / "project")}


def _tests(seen: Path, notes: Path) -> list[Test]:
    if not seen.exists():
        raise SuiteError("pytest ran no test")
    moments = [float(line) for line in notes.read_text().split()] if notes.exists() else []
    found: list[Test] = []
    for line in seen.read_text().splitlines():
        test = cast("dict[str, str]", json.loads(line))
        began, ended = float(test["began"]), float(test["ended"])
        connects = any(began <= moment <= ended for moment in moments)
        found.append(Test(test["test"], cast('Literal["passed", "failed", "skipped"]', test["outcome"]), connects))
    return found
