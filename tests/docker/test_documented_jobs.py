"""The jobs of docs/ci.md: their files are valid, and their services and commands run as processes on free ports."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it has no types

from tests.documented import ROOT, code
from tests.patience import PATIENCE_S, eventually
from tests.programs import run_program, run_to_success

PAGE = "docs/ci.md"
ALONE = "Tests that start the broker"
SERVICE = "GitHub Actions, as a service"
PROCESS = "GitHub Actions, as a process"
GITLAB = "GitLab"
COMPOSE = "Docker Compose"
BIN = Path(sys.executable).parent

# The tests of a project: they use the broker by the variables of the job, and print the topics.
RUN_TESTS = """
import json, os
from urllib.request import Request, urlopen
from kafka import KafkaProducer

def call(path, body=None):
    token = os.environ.get("CONTROL_TOKEN")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    with urlopen(Request(os.environ["CONTROL"] + path, body and json.dumps(body).encode(), headers)) as response:
        return json.load(response)

producer = KafkaProducer(bootstrap_servers=os.environ["BOOTSTRAP_SERVERS"])
producer.send("orders", b"a new order").get()
producer.close()
call("/topics/orders/records/expect", {"value": "a new order"})
print({each["name"]: each["partitions"] for each in call("/topics")["topics"]})
"""


def document(heading: str) -> dict[str, Any]:
    """Return a file."""
    (text,) = code(PAGE, heading, "yaml")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def job(heading: str) -> dict[str, Any]:
    """Return the job `test` of a file."""
    file = document(heading)
    found: dict[str, Any] = file.get("jobs", file)["test"]
    return found


@pytest.mark.parametrize(
    ("schema", "headings", "files"),
    [
        ("github-workflows", [ALONE, SERVICE, PROCESS], [".github/workflows/release.yml"]),
        ("gitlab-ci", [GITLAB], [".gitlab-ci.yml"]),
        ("compose-spec", [COMPOSE], []),
    ],
)
def test_the_files_and_the_workflows_of_a_release_are_what_their_schema_wants(
    schema: str, headings: list[str], files: list[str], tmp_path: Path
) -> None:
    paths = [tmp_path / f"{heading}.yml" for heading in headings]
    for path, heading in zip(paths, headings, strict=True):
        path.write_text(code(PAGE, heading, "yaml")[0])
    paths += [ROOT / name for name in files]
    checked = run_program([str(BIN / "check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *map(str, paths)])
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout


def run(command: str, folder: Path, variables: Mapping[str, str]) -> str:
    """Run a command of a job in a folder with the project's tests, and return its output."""
    (folder / "check.py").write_text(RUN_TESTS)
    (folder / "run-tests").write_text(f"#!/bin/sh\nexec {shlex.quote(sys.executable)} check.py\n")
    (folder / "run-tests").chmod(0o755)
    path = os.pathsep.join([str(BIN), os.environ["PATH"]])
    done = run_to_success(
        ["sh", "-euc", command], cwd=folder, env={**os.environ, "PATH": path, "TMPDIR": str(folder), **variables}
    )
    return done.stdout


def words(ready: str) -> dict[str, str]:
    """Return the words of the line that the broker prints when it is ready."""
    return dict(each.split("=", 1) for each in ready.split() if "=" in each)


@contextmanager
def service(environment: Mapping[str, str], address: str, folder: Path) -> Iterator[dict[str, str]]:
    """Run the image's entry point with a service's environment, but on free ports and with its data in a folder.

    It has to advertise `address`, by which the job's clients ask for it.
    """
    assert environment["MINIBROKER_CONTROL"] == "0.0.0.0:9900"
    path = {"PATH": os.pathsep.join([str(BIN), os.environ["PATH"]])}
    entrypoint = [sys.executable, str(ROOT / "docker/entrypoint.py")]
    printed = run_to_success([*entrypoint, "--print-command"], env={**environment, **path})
    options = dict(pairwise(shlex.split(printed.stdout)))
    assert (options["--listen"], options["--advertise"]) == ("0.0.0.0:9092", address)
    free = {
        "MINIBROKER_LISTEN": "127.0.0.1:0",
        "MINIBROKER_CONTROL": "127.0.0.1:0",
        "MINIBROKER_DATA_DIR": str(folder / "data"),
        "MINIBROKER_READY_FILE": str(folder / "ready"),
    }
    kept = {name: value for name, value in environment.items() if name != "MINIBROKER_ADVERTISE"}
    with subprocess.Popen(
        entrypoint,
        env={**os.environ, **path, **kept, **free},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout is not None
            served = words(next(line for line in child.stdout if line.startswith("minibroker ready:")))
            yield served
        finally:
            child.terminate()
            child.wait(PATIENCE_S)


def here(variables: Mapping[str, str], host: str, served: Mapping[str, str]) -> dict[str, str]:
    """Return a job's variables with the addresses of a local broker instead of the job's."""
    addresses = {f"{host}:9092": served["bootstrap"], f"http://{host}:9900": served["control"]}
    assert set(addresses) == {variables["BOOTSTRAP_SERVERS"], variables["CONTROL"]}
    return {name: addresses.get(value, value) for name, value in variables.items()}


def test_github_runs_the_tests_beside_a_service(tmp_path: Path) -> None:
    found = job(SERVICE)
    broker = found["services"]["broker"]
    assert broker["ports"] == ["9092:9092", "9900:9900"]
    step = found["steps"][-1]
    with service(broker["env"], step["env"]["BOOTSTRAP_SERVERS"], tmp_path) as served:
        output = run(step["run"], tmp_path, here(step["env"], "localhost", served))
    assert output == "{'invoices': 1, 'orders': 3}\n"


@pytest.mark.torture  # as GitHub does
def test_gitlab_runs_the_tests_beside_a_service(tmp_path: Path) -> None:
    found = job(GITLAB)
    (broker,) = found["services"]
    with service(broker["variables"], found["variables"]["BOOTSTRAP_SERVERS"], tmp_path) as served:
        output = run("\n".join(found["script"]), tmp_path, here(found["variables"], broker["alias"], served))
    assert output == "{'invoices': 1, 'orders': 3}\n"


@pytest.mark.torture  # the same
def test_compose_runs_the_tests_beside_a_service(tmp_path: Path) -> None:
    services = document(COMPOSE)["services"]
    tests = services["tests"]
    assert set(tests["depends_on"]) == services.keys() - {"tests"}
    with service(services["broker"]["environment"], tests["environment"]["BOOTSTRAP_SERVERS"], tmp_path) as served:
        output = run(tests["command"], tmp_path, here(tests["environment"], "broker", served))
    assert output == "{'invoices': 1, 'orders': 3}\n"


def test_tests_that_start_the_broker_have_it_as_the_job_beside_a_process() -> None:
    *setup, test = job(ALONE)["steps"]
    assert setup == job(PROCESS)["steps"][: len(setup)]
    assert test == {"run": "./run-tests"}


def test_github_runs_the_tests_beside_a_process(tmp_path: Path) -> None:
    *_, install, start, test, shown = job(PROCESS)["steps"]
    assert shown == {"if": "failure()", "run": "cat broker.log"}
    assert install["run"].endswith("[control]'")  # what the tests run in has it
    command = start["run"].replace("minibroker serve", "minibroker serve --listen 127.0.0.1:0 --data-dir data")
    assert "127.0.0.1:9900" in command
    try:
        run(command.replace("127.0.0.1:9900", "127.0.0.1:0"), tmp_path, {})
        eventually(lambda: "minibroker ready" in (tmp_path / "broker.log").read_text())  # It follows the ready file.
        served = words((tmp_path / "broker.log").read_text())
        output = run(test["run"], tmp_path, here(test["env"], "localhost", served))
    finally:
        os.kill(int(words((tmp_path / "broker.log").read_text())["pid"]), 15)
    assert output == "{'invoices': 1, 'orders': 3}\n"


def test_a_start_in_vain_shows_the_log_and_fails(tmp_path: Path) -> None:
    start = job(PROCESS)["steps"][-3]["run"].replace("orders:3", "orders:0")
    with pytest.raises(AssertionError, match="Number of partitions"):
        run(start.replace("127.0.0.1:9900", "127.0.0.1:0"), tmp_path, {})
