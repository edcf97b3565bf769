"""Tests under chaos as users have them, in a pytest process of its own."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from minibroker_chaos.steps import VERSION
from tests.programs import Completed
from tests.sweeps import one_in

Run = Callable[..., Completed]

CARELESS: Final = """
def test_all_arrive(kafka):
    kafka.create_topic("orders")
    assert len(kafka.brokers) == 3 and kafka.topic_config("orders")["min.insync.replicas"] == "2"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "app", "retries": 0})
    for number in range(15):
        producer.produce("orders", b"order", b"%d" % number)
        producer.flush()
    assert len(kafka.records("orders")) == 15
"""
"""A test that loses a record whenever its producer is refused one."""
ONE_RECORD: Final = """
def write(kafka, value=b"x"):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "app"})
    producer.produce("orders", value)
    assert producer.flush() == 0
"""


def test_a_failing_seed_is_reported_repeated_and_shrunk(run: Run, tmp_path: Path) -> None:
    marked = f"import pytest\n\n@pytest.mark.kafka_chaos(runs=99, only=['too-few-replicas', 'answer-late']){CARELESS}"
    result = run(marked, "--kafka-chaos-shrink", "--kafka-chaos-shrink-seconds=60")
    assert result.returncode == 1, result.stdout + result.stderr
    section = result.stdout.partition(" kafka chaos -")[2]
    assert re.search(r"^run \d+ of 99; without chaos the test passes$", section, re.MULTILINE), result.stdout
    assert "3 brokers, replication factor 3, min.insync.replicas 2\n" in section
    assert re.search(
        r"^request \d+: too-few-replicas at Produce of '\d+' \(\w+\) to orders-0 by app", section, re.MULTILINE
    )
    assert re.search(r"shrunk from \d+ in \d+ runs to 1 step: \d+ of \d+ runs fail", section), section
    assert re.search(r"^without: 0 of as many runs fail$", section, re.MULTILINE)
    assert re.search(r"^test_it.py::test_all_arrive: shrunk from \d+ in \d+ runs to 1 step", section, re.MULTILINE)
    *_, repeated = re.findall("^repeat .*: pytest (.*)$", section, re.MULTILINE)
    again = run(marked, *shlex.split(repeated))
    assert "1 failed" in again.stdout
    assert "repeated: 1 exactly, 0 at a later attempt, 0 not met" in again.stdout

    (stored,) = (tmp_path / ".pytest_cache" / "d" / "kafka-chaos").iterdir()
    (step,) = json.loads(stored.read_text())["steps"]
    assert step["row"] == "too-few-replicas"
    stored.rename(tmp_path / "lost.json")
    kept = f"import pytest\n\n@pytest.mark.kafka_chaos(steps='lost.json'){CARELESS}"
    assert "1 failed" in run(kept).stdout
    mended = run(kept.replace(', "retries": 0', ""), "-v")
    assert "1 passed" in mended.stdout
    assert "test_it.py::test_all_arrive: clients reacted in 1 of 1 runs" in mended.stdout
    changed = run(kept.replace('b"%d"', 'b"no-%d"'))
    assert (
        "test_all_arrive: 1 stored step did not happen: the test, its service or the order of requests"
        in changed.stdout
    )


def test_a_seed_on_the_command_line_is_run_alone(run: Run) -> None:
    tests = f"""
seeds = []

def test_one(kafka):
    seeds.append(kafka.chaos().to_json())

def test_wrong(kafka):
    assert False

ran = []

def test_unreliable(kafka):
    ran.append(1)
    assert len(ran) > 1

def test_without_a_broker():
    assert seeds == [{{"chaos": {VERSION}, "seed": 7, "profile": "network", "steps": []}}]
"""
    result = run(tests, "--kafka-chaos-seed=7", "--kafka-chaos-profile=network")
    assert "2 failed, 2 passed" in result.stdout, result.stdout
    assert "test_it.py::test_one: not exercised, no client reacted in 1 runs" in result.stdout
    assert result.stdout.count("not exercised") == 1
    assert "run 1 of 1; without chaos the test fails, too\n" in result.stdout
    assert result.stdout.count("nothing had gone wrong in this run: the test fails by itself now and then\n") == 1
    assert 'pytest --kafka-chaos-seed=7 --kafka-chaos-profile=network "test_it.py::test_wrong"\n' in result.stdout


@pytest.mark.torture
def test_what_showed_something_new_is_changed_and_run_again(run: Run) -> None:
    tests = """
seeds = []

def test_it(kafka):
    assert kafka.topics() == {}
    seeds.append(kafka.chaos().to_json()["seed"])
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "app"})
    for number in range(30):
        producer.produce("orders", b"%d" % number)
        producer.flush()

def test_seeds():
    fresh = [seed for seed in seeds if seed is not None]
    assert fresh == list(range(1, len(fresh) + 1))
    assert 5 < len(fresh) < 25 == len(seeds)
"""
    result = run(tests, "--kafka-chaos", "--kafka-chaos-runs=25", "--kafka-chaos-profile=failovers")
    assert "2 passed" in result.stdout, result.stdout
    assert "did not happen" not in result.stdout


def test_chaos_of_a_test_takes_the_place_of_that_of_the_option_for_its_block(run: Run) -> None:
    tests = f"""{ONE_RECORD}

def test_its_own(kafka):
    with kafka.chaos(seed=1, only=["answer-lost"]):
        write(kafka)
        assert kafka.chaos().to_json()["seed"] == 1
    assert kafka.chaos().to_json()["seed"] == 3
    kafka.chaos(seed=1).start()

def test_wrong_seed(kafka):
    assert kafka.chaos().to_json()["seed"] == 3
    with kafka.chaos(seed="x"):
        pass
"""
    result = run(tests, "--kafka-chaos-seed=3")
    assert "1 failed, 1 passed" in result.stdout, result.stdout
    assert "test_its_own: not exercised, its own chaos takes the place of theirs in 1 runs\n" in result.stdout
    assert "without chaos the test fails, too\n" in result.stdout
    assert "now and then" not in result.stdout


def test_a_service_that_outlives_the_reset_is_reported(run: Run) -> None:
    tests = """
import pytest

@pytest.fixture(scope="module")
def producer(kafka_session):
    return Producer({"bootstrap.servers": kafka_session.bootstrap_servers, "client.id": "old"})

def test_it(kafka, producer):
    producer.produce("orders", b"x")
    producer.flush()

@pytest.mark.kafka_chaos(runs=0)
def test_not_under_chaos(kafka, producer):
    test_it(kafka, producer)
"""
    result = run(tests, "--kafka-chaos")
    assert "2 passed, 1 error" in result.stdout, result.stdout
    assert "clients outlived the reset before this run: old. " in result.stdout
    assert "\nconnected before the run: old\n" in result.stdout
    assert re.search("^run [12] of 20; without chaos the test passes$", result.stdout, re.MULTILINE)


def test_a_broken_rule_of_the_broker_is_its_own_bug(run: Run) -> None:
    tests = f"""{ONE_RECORD}
def test_it(kafka):
    write(kafka)
    kafka.services.facts.violations.append("I4: two records have one offset")
"""
    result = run(tests, "--kafka-chaos-seed=3", "--kafka-chaos-shrink")
    assert result.returncode == 1
    assert "This is a bug of minibroker; please report it with its seed and steps:\nI4: two records" in result.stdout
    assert 'repeat it: pytest --kafka-chaos-seed=3 "test_it.py::test_it"' in result.stdout
    assert "shrunk" not in result.stdout


@pytest.mark.torture
def test_other_kinds_of_tests_run_under_chaos_too(run: Run) -> None:
    tests = f"""{ONE_RECORD}
import asyncio
import unittest
import pytest

async def test_asyncio(kafka):
    await asyncio.to_thread(write, kafka)
    assert len(kafka.records("orders")) == 1

class OrdersTest(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def use_broker(self, kafka):
        self.kafka = kafka

    def test_unittest(self):
        write(self.kafka)
        self.assertEqual(len(self.kafka.records("orders")), 1)

def test_that_stops_its_broker(kafka):
    kafka.stop()

@pytest.mark.parametrize("number", range(2))
def test_parameters(kafka, number):
    write(kafka)

def test_skipped(kafka):
    pytest.skip("not today")

@pytest.mark.kafka_chaos
def test_factory(kafka_factory):
    with pytest.raises(ValueError, match="there is no chaos"):
        kafka_factory().chaos().report()
"""
    ini = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    options = "--kafka-chaos", "--kafka-chaos-runs=3", "-v", "-n", "2"
    result = run(tests, *options, ini=ini, all_plugins=True)
    assert "6 passed, 1 skipped, 1 warning" in result.stdout, result.stdout
    assert (
        len(re.findall(r"^test_it\.py::.*: (clients reacted in|not exercised, no)", result.stdout, re.MULTILINE)) == 6
    )
    assert "6 tests, 16 runs, clients reacted in " in result.stdout
    assert "nothing misbehaves, as the test does not use the `kafka` of minibroker" in result.stdout


@pytest.mark.parametrize(
    ("options", "complaint"),
    one_in(
        4,
        [
            (["--kafka-chaos-profile=storm"], "--kafka-chaos-profile: there are default, "),
            (["--kafka-chaos-runs=-1"], "--kafka-chaos-runs: -1 is not a number of runs"),
            (["--kafka-chaos-steps=none.json"], "--kafka-chaos-steps: none.json: "),
            (["--kafka-chaos-steps=pytest.ini"], "--kafka-chaos-steps: pytest.ini: "),
            (["--kafka-chaos-shrink", "-n2"], "--kafka-chaos-shrink: shrinking takes one process; add -n 0"),
        ],
    ),
)
def test_options_that_cannot_be(run: Run, options: list[str], complaint: str) -> None:
    result = run("def test_it(kafka):\n    pass\n", *options, all_plugins="-n2" in options)
    assert result.returncode != 0
    assert f"ERROR: {complaint}" in result.stderr


def test_marks_that_cannot_be(run: Run, tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text('{"chaos": 0, "steps": []}')
    (tmp_path / "unknown.json").write_text(f'{{"chaos": {VERSION}, "steps": [{{"row": "storm", "point": "p"}}]}}')
    complaints = {
        "steps='none.json'": "none.json: ",
        "steps='old.json'": f"these steps are of version 0, and this minibroker has version {VERSION}",
        "steps='unknown.json'": "steps: there is no misbehaviour 'storm'",
        "only='not-leader'": "`only` and `without` take lists of names",
        "only=['no-leadre']": "did you mean no-leader",
        "profiles='network'": "unexpected keyword argument 'profiles'",
    }
    tests = "".join(
        f"@pytest.mark.kafka_chaos({mark})\ndef test_{number}(kafka):\n    pass\n\n"
        for number, mark in enumerate(complaints)
    )
    result = run(f"import pytest\n\n{tests}")
    assert f"{len(complaints)} errors" in result.stdout
    assert [complaint for complaint in complaints.values() if complaint not in result.stdout] == []
    assert "chaos_runs.py" not in result.stdout


def test_no_runs_are_a_single_run_on_the_same_cluster_without_chaos(run: Run) -> None:
    tests = """
import pytest

@pytest.mark.kafka_chaos
def test_it(kafka):
    assert len(kafka.brokers) == 3
    assert kafka.services.facts is not None
    with pytest.raises(ValueError, match="there is no chaos"):
        kafka.chaos().report()
"""
    result = run(tests, "--kafka-chaos-runs=0")
    assert "1 passed" in result.stdout, result.stdout
    assert "kafka chaos" not in result.stdout


def test_only_our_fixture_is_under_chaos_and_properties_are_recorded_once(run: Run, tmp_path: Path) -> None:
    tests = """
import pytest

class TestOther:
    @pytest.fixture
    def kafka(self):
        return "another broker"

    def test_runs_once(self, kafka):
        assert kafka == "another broker"

class TestOurs:
    @pytest.fixture
    def kafka(self, kafka):
        yield kafka

    def test_runs_thrice(self, kafka, record_property):
        record_property("broker", kafka.chaos().to_json()["seed"])
"""
    result = run(tests, "--kafka-chaos", "--kafka-chaos-runs=3", "--junitxml=report.xml", "-v")
    assert "2 passed" in result.stdout, result.stdout
    assert "1 test, 3 runs" in result.stdout
    assert "TestOther" not in result.stdout.partition(" kafka chaos -")[2]
    report = (tmp_path / "report.xml").read_text()
    assert re.findall('<property name="broker" value="(.*?)"', report) == ["3"]


def test_options_without_a_test_under_chaos_are_noticed(run: Run) -> None:
    tests = "def test_it(kafka):\n    pass\n\ndef test_next(kafka):\n    pass\n"
    result = run(tests, "--kafka-chaos-runs=3", "--kafka-chaos-profile=rebalances")
    warning = (
        "MinibrokerWarning: --kafka-chaos-profile, --kafka-chaos-runs: no test runs under chaos; add --kafka-chaos,"
    )
    assert result.stdout.count(warning) == 1, result.stdout
    assert "2 passed, 1 warning" in result.stdout
    assert "warning" not in run(tests, "--kafka-chaos-runs=0").stdout
