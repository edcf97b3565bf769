"""The fixture `kafka_spark`, by the page that shows it and where Spark is missing."""

import pytest

from minibroker_storage.installation_hints import format_pip_command
from tests.documented import blocks
from tests.pytest_plugin.conftest import Run


@pytest.mark.toolchain
@pytest.mark.torture
def test_the_page_finds_the_duplicates_of_a_restarted_job(run: Run) -> None:
    (test,) = [block.text for block in blocks("docs/test-spark.md") if block.language == "python"]
    result = run(test, ini="filterwarnings =\n    default")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout


def test_without_pyspark_the_fixture_says_what_to_install(run: Run) -> None:
    tests = """
import sys
sys.modules["pyspark"] = None

def test_it(kafka_spark):
    pass
"""
    result = run(tests)
    assert result.returncode == 1
    assert "the fixture `kafka_spark`: the package pyspark" in result.stdout
    assert f"is missing: {format_pip_command('spark')}" in result.stdout
