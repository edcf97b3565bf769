"""How the tests are shared between processes."""

from pathlib import Path

import pytest

from tests.shares import LONGEST, place, share

ROOT = Path(__file__).parents[1]


def test_a_file_is_run_by_one_process() -> None:
    assert share("tests/storage/test_log.py::test_one") == "tests/storage/test_log.py"
    assert share("tests/storage/test_log.py::test_two[a::b.py]") == "tests/storage/test_log.py"
    assert share("tests/storage/test_files.py::test_one") != share("tests/storage/test_log.py::test_one")


def test_what_shares_a_spark_is_run_by_one_process() -> None:
    assert share("tests/pipeline/test_cluster.py::test_one") == share("tests/pipeline/jobs/test_diff.py::test_two")


@pytest.mark.parametrize("start", LONGEST)
def test_the_rooms_that_come_first_are_there(start: str) -> None:
    assert list(ROOT.glob(f"{start}*"))


def test_what_takes_long_comes_first_and_else_the_order_stays() -> None:
    tests = ["tests/broker/b.py", "tests/broker/a.py", "tests/clients/c.py", "tests/pipeline/d.py"]
    assert sorted(tests, key=place) == [tests[3], tests[2], tests[0], tests[1]]
