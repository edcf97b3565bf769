"""The fixtures as users have them, in a separate pytest process with its own tests."""

import re
from collections.abc import Callable
from typing import Final

import pytest

from tests.programs import Completed
from tests.sweeps import one_in

Run = Callable[..., Completed]


def passed(result: Completed, number: int) -> None:
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{number} passed" in result.stdout


def test_each_test_has_the_broker_as_it_was_at_the_start(run: Run) -> None:
    tests = """
import pytest

@pytest.mark.parametrize("number", range(5))
def test_isolation(kafka, number):
    assert "orders" not in kafka.topics()
    assert kafka.groups() == []
    assert len(kafka.requests) == 0
    produce(kafka, "orders", b"%d" % number)
    assert [record.value for record in kafka.records("orders")] == [b"%d" % number]
    kafka.faults.add(api="Produce", error="UNKNOWN_SERVER_ERROR")

def test_the_same_broker(kafka, kafka_session, kafka_bootstrap_servers):
    assert kafka is kafka_session
    assert kafka_bootstrap_servers == kafka.bootstrap_servers
"""
    passed(run(tests, all_plugins=True), 6)


def test_options_in_the_ini_file_and_on_the_command_line(run: Run) -> None:
    tests = """
def test_it(kafka):
    topics = kafka.topics()
    assert {name: each.partitions for name, each in topics.items()} == {"orders": 3, "users": 1, "extra": 2}
    assert topics["users"].configs == {"cleanup.policy": "compact"}
    assert len(kafka.brokers) == 3
    assert kafka.create_topic("default").partitions == 7
"""
    ini = """
kafka_topics =
    orders:3
    users:1:cleanup.policy=compact
kafka_config =
    num.partitions = 5
    log.retention.ms=1000
kafka_brokers = 2
"""
    passed(run(tests, "--kafka-topic", "extra:2", "--kafka-set", "num.partitions=7", "--kafka-brokers=3", ini=ini), 1)


def test_topics_can_be_kept_for_readers_with_checkpoints(run: Run) -> None:
    tests = """
import pytest
ids = []

@pytest.mark.parametrize("number", range(3))
def test_it(kafka, number):
    ids.append(kafka.topics()["orders"].topic_id)
    assert kafka.records("orders") == []
    assert kafka.produce("orders", "x")[0].offset == number
    assert len(set(ids)) == 1
"""
    passed(run(tests, ini="kafka_keep_topics = true\nkafka_topics = orders"), 3)


def test_brokers_of_a_tests_own(run: Run) -> None:
    tests = """
started = []

def test_it(kafka_factory):
    strict = kafka_factory(config={"auto.create.topics.enable": False}, topics=["t"])
    many = kafka_factory(brokers=3)
    produce(strict, "t", b"x")
    assert len(many.brokers) == 3
    assert len(strict.requests.entries(api="Produce")) == 1
    started.extend([strict, many])

def test_they_have_ended():
    for broker in started:
        try:
            broker.topics()
        except RuntimeError:
            continue
        raise AssertionError
"""
    passed(run(tests), 2)


def test_a_failed_test_tells_what_the_broker_has_seen(run: Run) -> None:
    tests = """
def test_it(kafka):
    kafka.create_topic("orders", 2)
    kafka.produce("orders", "x")
    reader = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"})
    reader.subscribe(["orders"])
    reader.commit(message=reader.poll(60), asynchronous=False)
    reader.close()
    with kafka.fault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", times=1):
        produce(kafka, "orders", b"x")
    kafka.expect("orders", "y", timeout=0)

def test_without(kafka_session):
    assert False
"""
    result = run(tests)
    assert result.returncode == 1
    assert "value: expected 'y', found 'x'" in result.stdout
    section = result.stdout.split("- kafka -")[1].split("____")[0]
    assert "  orders (2 partitions), offsets " in section
    assert "  g: Empty, 0 members, committed 1 of 2 in orders\n" in section
    assert re.search(r"  Produce v\d+ orders-\d .*: fault \{'api': 'Produce', .*NOT_LEADER_OR_FOLLOWER in", section)
    assert result.stdout.count("- kafka -") == 1


def test_a_failed_test_tells_what_brokers_of_its_own_have_seen(run: Run) -> None:
    tests = """
def test_one(kafka_factory):
    kafka_factory(topics=["orders"])
    assert False

def test_two(kafka_factory):
    kafka_factory(topics=["users"])
    kafka_factory().stop()
    assert False
"""
    result = run(tests)
    assert result.returncode == 1
    assert re.search(r"- kafka_factory -+\ntopics:\n  orders \(1 partition\), no records", result.stdout)
    assert re.search(r"- kafka_factory, broker 1 -+\ntopics:\n  users ", result.stdout)
    assert "broker 2" not in result.stdout


def test_a_broker_that_a_test_has_stopped_is_there_for_the_next_one(run: Run) -> None:
    tests = """
def test_it(kafka):
    kafka.stop()
    assert False

def test_next(kafka):
    produce(kafka, "orders", b"x")
    kafka.expect("orders", "x")
"""
    result = run(tests)
    assert "1 failed, 1 passed" in result.stdout, result.stdout + result.stderr
    assert "cannot be shown: the broker is not running" in result.stdout


def test_asyncio(run: Run) -> None:
    tests = """
import asyncio
from aiokafka import AIOKafkaProducer

async def test_it(kafka):
    producer = AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers)
    await producer.start()
    await producer.send_and_wait("orders", b"x")
    await producer.stop()
    found = await asyncio.to_thread(kafka.wait_for, "orders")
    assert [record.value for record in found] == [b"x"]
"""
    ini = "asyncio_mode = auto\nasyncio_default_fixture_loop_scope = function"
    passed(run(tests, ini=ini, all_plugins=True), 1)


def test_unittest(run: Run) -> None:
    tests = """
import unittest
from minibroker import Broker

class OrdersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kafka = cls.enterClassContext(Broker(topics=["orders"]))

    def setUp(self):
        self.kafka.reset()

    def test_one(self):
        produce(self.kafka, "orders", b"1")
        self.assertEqual(len(self.kafka.records("orders")), 1)

    def test_two(self):
        self.assertEqual(self.kafka.records("orders"), [])
"""
    passed(run(tests), 2)


@pytest.mark.parametrize(
    ("options", "ini", "complaint"),
    one_in(
        3,
        [
            (["--kafka-set", "nothing"], "", "--kafka-set: 'nothing' is not KEY=VALUE"),
            ([], "kafka_config = =5", "kafka_config: '=5' is not KEY=VALUE"),
            ([], "kafka_brokers = many", "kafka_brokers: 'many' is not a whole number of at least 1"),
            (["--kafka-brokers", "0"], "", "kafka_brokers: 0 is not a whole number of at least 1"),
            (["--kafka-topic", "a/b"], "", "a/b"),
            ([], "kafka_timeout = soon", "kafka_timeout: 'soon' is not a number of seconds"),
            (["--kafka-timeout=-1"], "", "kafka_timeout: -1.0 is not a number of seconds"),
            ([], "kafka_keep_topics = yess", "kafka_keep_topics: invalid truth value 'yess'; write true or false"),
            ([], "kafka_registry = perhaps", "kafka_registry: invalid truth value 'perhaps'; write true or false"),
            ([], "kafka_security = TLS", "'TLS' is not one of SSL"),
            ([], "kafka_security = SSL\nkafka_users = alice", "a user is not NAME:PASSWORD"),
            ([], "kafka_users = alice:secret", "users log in only with kafka_security; set it, too"),
        ],
    ),
)
def test_options_that_cannot_be(run: Run, options: list[str], ini: str, complaint: str) -> None:
    result = run("def test_it(kafka):\n    pass\n", *options, ini=ini)
    assert result.returncode != 0
    assert complaint in result.stdout
    assert f"Failed: {complaint[:30]}" in result.stdout or not complaint.startswith(
        "kafka_"
    )  # The summary has the key.
    assert "pytest_plugin" not in result.stdout  # The output contains only lines of the user's own code.


def test_a_session_fixture_that_uses_kafka_is_led_to_kafka_session(run: Run) -> None:
    tests = """
import pytest

@pytest.fixture(scope="session")
def topics(kafka):
    return kafka.topics()

def test_it(topics):
    pass
"""
    assert "a fixture that outlives a test uses `kafka_session`" in run(tests).stdout


def test_who_does_not_use_it_pays_nothing(run: Run) -> None:
    tests = """
import sys

def test_it():
    loaded = {name for name in sys.modules if name.startswith("minibroker")}
    assert loaded == {"minibroker", "minibroker.pytest_plugin"}
"""
    passed(run(tests, all_plugins=True), 1)


def test_pytest_does_not_rewrite_the_modules_of_the_broker_nor_load_spark(run: Run) -> None:
    tests = """
import sys

def test_it(kafka):
    produce(kafka, "orders", b"x")
    modules = {name: module for name, module in sys.modules.items() if name.startswith("minibroker")}
    rewritten = {name for name, module in modules.items() if "rewrite" in type(module.__spec__.loader).__module__}
    assert "minibroker.server.handlers.produce" in modules
    assert "pyspark" not in sys.modules
    assert rewritten <= {"minibroker", "minibroker.pytest_plugin"}
    assert "rewrite" in type(sys.modules[__name__].__spec__.loader).__module__
"""
    passed(run(tests, all_plugins=True), 1)


@pytest.mark.torture
def test_each_worker_has_a_broker_of_its_own(run: Run) -> None:
    tests = """
import os
import pytest

@pytest.mark.parametrize("number", range(6))
def test_it(kafka, number, tmp_path_factory):
    assert kafka.topics() == {}
    produce(kafka, "orders", b"x")
    assert len(kafka.records("orders")) == 1
    assert os.environ["PYTEST_XDIST_WORKER"] in {"gw0", "gw1"}
"""
    passed(run(tests, "-n", "2", all_plugins=True), 6)


FAILING: Final = {
    "wait_for": "kafka.wait_for('t', timeout=0)",
    "expect": "kafka.expect('t', 'a', timeout=0)",
    "wait_until_stable": "kafka.group('g').wait_until_stable(1, timeout=0)",
    "wait_for_requests": "kafka.wait_for_requests(api='Fetch', timeout=0)",
    "expect_none": "kafka.produce('t', 'a') and kafka.expect_none('t')",
    "records": "kafka.records('absent')",
    "fault": "kafka.fault(api='Produce', topics='t', drop='before')",
    "not running": "kafka.stop(), kafka.topics()",
    "move_leader": "kafka.move_leader('t', 0, to=7)",
}


def test_a_failure_shows_the_line_of_the_test_and_none_of_the_brokers(run: Run) -> None:
    tests = "".join(
        f"def test_{number}(kafka):\n    kafka.topics()\n    {line}\n" for number, line in enumerate(FAILING.values())
    )
    result = run(tests)
    assert f"{len(FAILING)} failed in " in result.stdout, result.stdout
    failures = re.split(r"^_+ test_\d _+$", result.stdout.partition("= FAILURES")[2], flags=re.MULTILINE)[1:]
    for line, failure in zip(FAILING.values(), failures, strict=True):
        summary = failure.partition("Captured")[0]
        assert f">       {line}\n" in summary, result.stdout
        assert re.search(r"^test_it\.py:\d+: \w+Error$", summary, re.MULTILINE), result.stdout
        assert not re.search(r"^(?!test_it).*\.py:\d+: ", summary, re.MULTILINE), result.stdout


@pytest.mark.torture  # as above
def test_the_same_holds_on_the_tests_own_loop(run: Run) -> None:
    result = run(
        "import asyncio\n"
        "from minibroker import AsyncBroker\n"
        "async def fail():\n"
        "    async with AsyncBroker() as broker:\n"
        "        await broker.expect('t', timeout=0)\n"
        "def test_it():\n"
        "    asyncio.run(fail())\n"
    )
    assert result.returncode == 1
    assert ">           await broker.expect('t', timeout=0)\n" in result.stdout
    assert "minibroker/" not in result.stdout.partition("short test summary")[0].partition("FAILURES")[2], result.stdout


@pytest.mark.torture
def test_an_error_that_is_not_the_tests_shows_where_it_comes_from(run: Run) -> None:
    result = run(
        "def test_it(kafka):\n    kafka.produce('t', 'a')\n    kafka.wait_for('t', matching=lambda _: 1 / 0)\n"
    )
    assert result.returncode == 1
    assert "expecting.py" in result.stdout


@pytest.mark.torture
def test_clients_have_to_log_in_where_the_ini_file_says_so(run: Run) -> None:
    tests = """
def test_secure(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **kafka.security.librdkafka("alice")})
    producer.produce("orders", b"1")
    assert producer.flush() == 0
    assert [record.value for record in kafka.wait_for("orders")] == [b"1"]
"""
    passed(run(tests, ini="kafka_security = SASL_SSL\nkafka_users =\n  alice:a:secret"), 1)
    passed(run(tests, "--kafka-security", "SASL_PLAINTEXT", "--kafka-user", "alice:secret"), 1)


def test_a_fault_without_a_block_is_told_at_the_end_of_the_run(run: Run) -> None:
    result = run("def test_it(kafka):\n    kafka.fault(api='Produce', drop='before')\n")
    assert "1 passed, 1 warning" in result.stdout, result.stdout
    assert "MinibrokerWarning: Fault(api='Produce', drop='before') was made and never installed" in result.stdout
    assert re.search(r"test_it\.py:\d+: MinibrokerWarning", result.stdout)


def test_the_summary_shows_the_sentence_and_the_report_a_misspelt_topic_and_the_clock(run: Run) -> None:
    tests = """
def test_it(kafka):
    kafka.create_topic("orders")
    produce(kafka, "ordres", b"x")
    kafka.clock.advance(30_000)
    kafka.expect("orders", "x")

def test_next(kafka):
    kafka.expect_none("orders")
    produce(kafka, "invoices", b"x")
    kafka.expect_none("invoices")
"""
    result = run(tests, "--kafka-timeout=0")
    assert "FAILED test_it.py::test_it - expected 1 record in 'orders' within 0 s" in result.stdout, result.stdout
    assert "FAILED test_it.py::test_next - expected no record in 'invoices', found 1 " in result.stdout
    assert "  ordres (1 partition), offsets 0: 0..1; created for a client, did you mean 'orders'?\n" in result.stdout
    assert "clock: 8:20:00 ahead of the machine's\n" in result.stdout
    assert result.stdout.count("clock: ") == 1
    assert result.stdout.count("did you mean") == 1


def test_brokers_of_a_tests_own_wait_as_long_as_the_ini_file_says(run: Run) -> None:
    tests = """
import pytest

def test_it(kafka, kafka_factory):
    for broker in (kafka, kafka_factory()):
        with pytest.raises(AssertionError, match="within 0 s"):
            broker.expect("orders")
    with pytest.raises(AssertionError, match="within 0.01 s"):
        kafka_factory(timeout=0.01).expect("orders")
"""
    passed(run(tests, ini="kafka_timeout = 0"), 1)


def test_a_failed_test_tells_of_clients_whose_security_does_not_fit(run: Run) -> None:
    tests = """
import socket

def connect(broker, data):
    with socket.create_connection(broker.address) as client:
        client.sendall(data)
        while client.recv(100):
            pass

def test_one(kafka):
    connect(kafka, bytes.fromhex("16030102000100"))
    kafka.expect("orders", timeout=0)

def test_two(kafka):
    connect(kafka, bytes.fromhex("16030102000100"))
    kafka.expect("orders", timeout=0)

def test_three(kafka):
    kafka.expect("orders", timeout=0)
"""
    result = run(tests)
    assert result.returncode == 1
    reports = result.stdout.split("- kafka -")[1:]
    assert ["hint: a client speaks TLS, but the listener PLAINTEXT does not" in each for each in reports] == [
        True,
        True,
        False,
    ]


def test_requests_of_clients_from_earlier_tests_are_marked(run: Run) -> None:
    tests = """
left_open = []

def test_one(kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "client.id": "old"})
    producer.produce("orders", b"x")
    assert producer.flush() == 0
    left_open.append(producer)
    kafka.expect("orders", "y")

def test_two(kafka):
    left_open[0].produce("orders", b"x")
    assert left_open[0].flush() == 0
    produce(kafka, "orders", b"x")
    kafka.expect("orders", "y")
"""
    result = run(tests, "--kafka-timeout=0")
    first, second = result.stdout.split("- kafka -")[1:]
    assert "connected before" not in first
    lines = re.findall(r"^  Produce .*$", second, re.MULTILINE)
    assert {(" from old " in line, line.endswith("; connected before the reset")) for line in lines} == {
        (True, True),
        (False, False),
    }, second
