"""Tests are shared between processes."""

from pathlib import Path

import pytest

from tests.shares import LONGEST, SPARK, place, share

ROOT = Path(__file__).parents[1]


def test_a_file_is_run_by_one_process() -> None:
    assert share("tests/storage/test_log.py::test_one") == "tests/storage/test_log.py"
    assert share("tests/storage/test_log.py::test_two[a::b.py]") == "tests/storage/test_log.py"
    assert share("tests/storage/test_files.py::test_one") != share("tests/storage/test_log.py::test_one")


def place_of(name: str) -> str:
    """Where a file of the pipeline's tests is."""
    (found,) = ROOT.glob(f"tests/pipeline/**/{name}")
    return found.relative_to(ROOT).as_posix()


def test_what_shares_a_spark_is_run_by_one_process() -> None:
    assert {share(f"{place_of(name)}::test_one") for name in ("test_batches.py", "test_diff.py")} == {SPARK}


def test_what_needs_no_spark_is_shared_as_all_others() -> None:
    file = place_of("test_decode.py")
    assert share(f"{file}::test_one") == file


def test_every_test_that_asks_for_spark_is_among_those_that_share_it(request: pytest.FixtureRequest) -> None:
    asking = {item.nodeid for item in request.session.items if "spark" in getattr(item, "fixturenames", ())}
    assert {nodeid for nodeid in asking if share(nodeid) != SPARK} == set()


@pytest.mark.parametrize("start", LONGEST)
def test_the_rooms_that_come_first_are_there(start: str) -> None:
    assert list(ROOT.glob(f"{start}*"))


def test_what_takes_long_comes_first_and_else_the_order_stays() -> None:
    tests = ["tests/broker/b.py", "tests/broker/a.py", "tests/clients/c.py", place_of("test_batches.py")]
    assert sorted(tests, key=place) == [tests[3], tests[2], tests[0], tests[1]]
