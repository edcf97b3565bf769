"""The standalone cluster of docs/spark.md, whose workers have packages, but not this distribution."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from minibroker import Broker
from minibroker_pipeline import jars
from tests.documented import ROOT, code
from tests.patience import PATIENCE_S
from tests.pipeline.producing import Message, create, produce
from tests.pipeline.standalone import Cluster
from tests.programs import run_program, run_to_success

PAGE: Final = "docs/spark.md"
SECTION: Final = "On a cluster"
WHEEL: Final = "minibroker-1.1.0-py3-none-any.whl"
RECORDS: Final = 400
COMPARE: Final = """
import sys
from minibroker_pipeline.connector import TopicSource, read_topics
from minibroker_pipeline.session import spark_session

spark = spark_session("compare")
topic = read_topics(spark, TopicSource(bootstrap=sys.argv[1], topics="orders"))
files = spark.read.format("minibroker").option("topics", "orders").load(sys.argv[2])
print("rows:", files.count(), topic.count(), "different:", files.exceptAll(topic).count())
"""

pytestmark = pytest.mark.torture


class Site(NamedTuple):
    """The folder from which programs are submitted, with a wheel and programs, and the broker whose logs they read."""

    cluster: Cluster
    directory: Path
    python: str
    broker: Broker
    logs: str


def bare_environment(path: Path) -> str:
    """Create a Python with the packages of this one, except editable ones: links (.pth) are not followed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(path)], check=True, timeout=PATIENCE_S)
    packages = next(entry for entry in reversed(sys.path) if os.path.isdir(os.path.join(entry, "pyarrow")))
    (site,) = path.glob("lib/python*/site-packages")
    (site / "packages.pth").write_text(packages)
    return str(path / "bin/python")


def build_wheel(directory: Path) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(directory), str(ROOT)]
    run_to_success(command)
    next(directory.glob("*.whl")).rename(directory / WHEEL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        jars.find()
    except jars.NoJarsError as reason:
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, so Spark has to run: {reason}")
        pytest.skip(f"no Spark: {reason}")
    directory = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(directory / "spark")
    python = bare_environment(directory / "bare")
    build_wheel(directory)
    logs = str(directory / "logs")
    orders, _, job = code(PAGE, SECTION, "python")
    (directory / "orders.py").write_text(orders.replace("/var/lib/minibroker", logs))
    (directory / "job.py").write_text(job)
    (directory / "compare.py").write_text(COMPARE)
    try:
        with Broker(data_dir=logs) as broker:
            create(broker.bootstrap_servers, "orders", 2)
            records = [Message(b"%d" % number, partition=number % 2) for number in range(RECORDS)]
            produce(broker.bootstrap_servers, "orders", records)
            cluster.start()
            yield Site(cluster, directory, python, broker, logs)
    finally:
        cluster.close()


def run(site: Site, script: str, python: str | None = None) -> str:
    """Run commands of the page with our master in place of theirs, and return their output."""
    assert "spark://host:7077" in script
    script = script.replace("spark://host:7077", site.cluster.url).replace("/var/lib/minibroker", site.logs)
    completed = site.cluster.run(script, site.directory, {"PYSPARK_PYTHON": python or site.python})
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def counts(output: str) -> list[list[str]]:
    """Return the rows of a table printed by Spark."""
    lines = [line.strip("|").split("|") for line in output.splitlines() if line.startswith("|")]
    return sorted([cell.strip() for cell in line] for line in lines[1:])


def test_the_workers_do_not_have_this_distribution(site: Site) -> None:
    completed = run_program([site.python, "-c", "import pyarrow, numba, minibroker_pipeline"])
    assert "No module named 'minibroker_pipeline'" in completed.stderr


def test_a_wheel_goes_along_as_a_zip(site: Site) -> None:
    _, script, *_ = code(PAGE, SECTION, "sh")
    assert counts(run(site, script)) == [["0", str(RECORDS // 2)], ["1", str(RECORDS // 2)]]


def test_an_environment_goes_along_as_an_archive_and_topics_have_the_rows_of_their_files(site: Site) -> None:
    """The environment has the packages of this Python, because installing them needs a network.

    The jars are given as a list.
    """
    first, _, script, _ = code(PAGE, SECTION, "sh")
    made, installed, *packed = script.splitlines(keepends=True)
    assert made == "python3 -m venv environment\n"
    assert installed == f"environment/bin/pip install {WHEEL} numpy pyarrow fsspec numba\n"
    option = '--jars "$($PYSPARK_PYTHON -m minibroker_pipeline.jars kafka)"'
    assert option in first
    bare_environment(site.directory / "environment")
    (packages,) = (site.directory / "environment").glob("lib/python*/site-packages")
    with zipfile.ZipFile(site.directory / WHEEL) as wheel:
        wheel.extractall(packages)
    program = f" {option} compare.py {site.broker.bootstrap_servers} {site.logs}"
    output = run(site, "".join(packed).replace(" orders.py", program))
    assert output.splitlines()[-1] == f"rows: {RECORDS} {RECORDS} different: 0"
    assert list(site.directory.glob("spark/work/*/*/environment/bin/python"))


def test_a_job_is_submitted(site: Site) -> None:
    *_, script = code(PAGE, SECTION, "sh")
    (site.directory / "minibroker.zip").write_bytes((site.directory / WHEEL).read_bytes())
    output = run(site, script)
    assert f" {RECORDS} records, " in output
    assert output.endswith(": no damage\n")
