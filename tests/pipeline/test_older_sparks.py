"""The pipeline with Spark 4.0 and 4.1, each in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients import toolchains
from tests.clients.broker_process import environment
from tests.documented import ROOT
from tests.patience import PATIENCE_S


@pytest.fixture
def spark_folder(version: str) -> Path:
    """The folder that has this PySpark."""
    name = f"spark-{version.replace('.', '-')}"
    made = Path(sys.prefix) / name
    if made.exists():
        return made
    requirements = ROOT / "requirements" / f"{name}.txt"
    folder = toolchains.place(name, [requirements])
    return toolchains.build(folder, lambda made: toolchains.pip_install(requirements, made / "python")) / "python"


@pytest.mark.parametrize(
    ("version", "streams"),
    [
        ("4.0", ()),
        pytest.param("4.0", ("streams",), marks=pytest.mark.torture),
        pytest.param("4.1", ("streams",), marks=pytest.mark.torture),
    ],
)
def test_a_topic_is_written_and_read(
    version: str, streams: tuple[str, ...], spark_folder: Path, tmp_path: Path
) -> None:
    variables = environment()
    variables["PYTHONPATH"] = os.pathsep.join([str(spark_folder), str(ROOT), variables["PYTHONPATH"]])
    variables["PYSPARK_PYTHON"] = sys.executable
    variables.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.pipeline.older_spark", str(tmp_path), *streams],
        env=variables,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert got.pop("version").startswith(version)
    expected: dict[str, Any] = {"values": [*range(100)], "filtered": 10}
    if streams:
        assert "maxOffsetsPerTrigger: this needs Spark 4.2" in got.pop("limited")
        expected["streamed"] = [100, 150]
    assert got == expected
