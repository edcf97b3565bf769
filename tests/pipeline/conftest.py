"""One Spark for all tests of the pipeline: starting it takes longer than most of them.

Where Spark cannot run, the tests that ask for it are skipped and say why; under CI that is a failure.
"""

import os
import uuid
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline import jars, session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark in small, with the packages for Kafka and Avro."""
    scratch = tmp_path_factory.mktemp("spark")
    settings = {"spark.sql.warehouse.dir": str(scratch / "warehouse"), "spark.local.dir": str(scratch / "local")}
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
    """A name that no other test uses; nobody has created the topic."""
    return f"topic-{uuid.uuid4().hex[:12]}"
