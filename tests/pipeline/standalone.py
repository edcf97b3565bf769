"""A standalone Spark cluster: a master and a worker in their own processes, on the loopback interface."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyspark

from tests.patience import PATIENCE_S
from tests.programs import run_program

_HOME: Final = os.path.dirname(pyspark.__file__)
_MASTER_READY: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_WORKER_READY: Final = re.compile(r"Successfully registered with master (\S+)")
# An optimizing compiler does not pay off in programs that end after seconds.
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_DEFAULTS: Final = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "2",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": _JVM,
    "spark.executor.extraJavaOptions": _JVM,
}


class Cluster:
    """A master and a worker. Their environment, and that of their programs, has no trace of this checkout."""

    def __init__(self, directory: Path) -> None:
        self.url = ""
        self._children: list[subprocess.Popen[str]] = []
        self._scripts = os.path.dirname(sys.executable)
        conf = directory / "conf"
        conf.mkdir(parents=True)
        (conf / "spark-defaults.conf").write_text("".join(f"{name} {value}\n" for name, value in _DEFAULTS.items()))
        ours = {"PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"}
        self._environment = {name: value for name, value in os.environ.items() if name not in ours} | {
            "NUMBA_CACHE_DIR": str(directory / "numba"),
            "PATH": f"{self._scripts}:{os.environ['PATH']}",
            "SPARK_CONF_DIR": str(conf),
            "SPARK_DAEMON_JAVA_OPTS": _JVM,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": _HOME,
            "SPARK_LOCAL_DIRS": str(directory / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(directory / "work"),
        }

    def start(self) -> None:
        """Start both.

        Raises:
            AssertionError: one of them does not start in time.
        """
        addresses = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.url = self._daemon(_MASTER_READY, "org.apache.spark.deploy.master.Master", *addresses)
        worker = ("org.apache.spark.deploy.worker.Worker", self.url, *addresses, "--cores", "2", "--memory", "1g")
        self._daemon(_WORKER_READY, *worker)

    def close(self) -> None:
        """Stop both. The worker comes first, because it stops the processes that it started."""
        for child in reversed(self._children):
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(PATIENCE_S)
            finally:
                child.kill()
                child.wait()

    def run(self, script: str, directory: Path, environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
        """Run shell commands in a directory, with PySpark's commands on the path."""
        return run_program(
            ["bash", "-e", "-o", "pipefail", "-c", script], cwd=directory, env={**self._environment, **environment}
        )

    def _daemon(self, ready: re.Pattern[str], *command: str) -> str:
        """Start a Spark daemon, and return the match of the pattern in the line that it prints once it is ready."""
        child = subprocess.Popen(
            [f"{_HOME}/bin/spark-class", *command],
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._children.append(child)
        output: list[str] = []
        result: list[str] = []
        is_known = threading.Event()

        def drain() -> None:
            assert child.stderr is not None
            with child.stderr as lines:
                for line in lines:
                    output.append(line)
                    if not result and (match := ready.search(line)):
                        result.append(match[1])
                        is_known.set()
            is_known.set()

        threading.Thread(target=drain, daemon=True).start()
        is_known.wait(PATIENCE_S)
        assert result, "".join(output)
        return result[0]
