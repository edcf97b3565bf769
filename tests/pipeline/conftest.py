"""One Spark session for all tests of the pipeline, because starting it takes longer than most tests.

Where Spark cannot run, the tests that need it are skipped with a reason; under CI they fail.
"""

import os
import sys
import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline import jars, session
from tests.documented import ROOT


@pytest.fixture(scope="session", autouse=True)
def python_of_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Have Spark's Python processes import the installed PySpark, which saves a quarter of the tests' CPU time.

    Spark starts a process for each plan of a query. PYTHONPATH then names a zip file of PySpark and a jar: Python reads
    the directories of both, and compiles every module that it imports from the zip file.
    """
    script = tmp_path_factory.mktemp("python") / "python"
    script.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYSPARK_PYTHON", str(script))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small Spark session with the packages for Kafka and Avro."""
    scratch = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.python.daemon.module": "tests.pipeline.warm_daemon",
    }
    try:
        running = session.spark_session("tests", packages=("kafka", "avro"), **session.test_settings(), **settings)
    except jars.NoJarsError as reason:
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, so Spark has to run: {reason}")
        pytest.skip(f"no Spark: {reason}")
    yield running
    running.stop()


@pytest.fixture
def topic() -> str:
    """A topic name that no other test uses. The topic is not created."""
    return f"topic-{uuid.uuid4().hex[:12]}"
