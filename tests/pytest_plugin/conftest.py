"""Runs pytest in a process of its own, as users do."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.programs import Completed, run_program

Run = Callable[..., Completed]
CLIENT: Final = """
from confluent_kafka import Consumer, Producer

def produce(kafka, topic, *values):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush() == 0
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A function that runs pytest over a file, with command line options as arguments.

    Other plugins of this environment would take half of the start-up time. They are disabled, except in tests about
    them or about the entry point.
    """

    def start(tests: str, *options: str, ini: str = "", all_plugins: bool = False) -> Completed:
        (tmp_path / "test_it.py").write_text(CLIENT + tests)
        (tmp_path / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
        command = [sys.executable, "-m", "pytest", *options]
        environment = dict(os.environ)
        if not all_plugins:
            command += ["-p", "minibroker.pytest_plugin"]
            environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        return run_program(command, cwd=tmp_path, env=environment)

    return start
