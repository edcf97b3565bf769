"""Waiting for records, and the messages of failed expectations."""

import pickle
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from minibroker import AsyncBroker, Broker, MinibrokerWarning
from minibroker.cluster.errors import NotFoundError, OperationError, UnexpectedRecordError, WaitTimeoutError
from minibroker.operations.matching import RecordMatcher, explain, record
from minibroker.operations.records import ConsumerRecord
from tests.patience import PATIENCE_S


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(timeout=PATIENCE_S) as running:
        yield running


def test_records_that_are_there_are_returned_at_once(broker: Broker) -> None:
    broker.produce("there", "a", "b", "c")
    assert [each.text() for each in broker.wait_for("there", 2, timeout=0)] == ["a", "b", "c"]


def test_it_waits_for_a_real_producer_and_for_the_topic(broker: Broker) -> None:
    def produce() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(3):
            producer.produce("awaited", b"%d" % number)
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=produce)
    thread.start()
    records = broker.wait_for("awaited", 3)
    thread.join()
    assert [item.json() for item in records] == [0, 1, 2]


def test_only_what_matches_counts(broker: Broker) -> None:
    broker.produce("mixed", {"id": 1, "kind": "a"}, {"id": 2, "kind": "b"}, {"id": 3, "kind": "a"})
    assert [each.json()["id"] for each in broker.wait_for("mixed", 2, matching=record({"kind": "a"}))] == [1, 3]
    odd = broker.wait_for("mixed", 2, matching=lambda each: each.json()["id"] % 2 == 1)
    assert [each.offset for each in odd] == [0, 2]


def test_what_is_missing_is_told_with_what_is_there(broker: Broker) -> None:
    broker.produce("short", "a", key="k", headers={"h": "1"})
    with pytest.raises(WaitTimeoutError) as caught:
        broker.wait_for("short", 2, timeout=0)
    assert str(caught.value).splitlines() == [
        "expected 2 records in 'short' within 0 s; found 1",
        "  short-0@0: key='k', value='a', headers={'h': '1'}",
    ]
    message = r"expected 1 record in 'shrot' within 0 s; there is no topic 'shrot'; topics: .*; did you mean short\?"
    with pytest.raises(WaitTimeoutError, match=message):
        broker.wait_for("shrot", timeout=0)
    with pytest.raises(WaitTimeoutError, match="0 match, of 1"):
        broker.wait_for("short", matching=lambda _: False, timeout=0)
    assert issubclass(WaitTimeoutError, AssertionError)


def test_expect_returns_the_record_or_compares_the_nearest_first(broker: Broker) -> None:
    broker.produce("events", {"id": 1, "tags": ["x"]}, key="one")
    broker.produce("events", {"id": 2, "tags": ["x", "y"]}, key="two", headers={"trace": "7"})
    assert broker.expect("events", {"id": 2}, headers={"trace": "7"}).offset == 1
    assert broker.expect("events", {"tags": ["x", ...]}, key="two").offset == 1
    assert broker.expect("events").offset == 0
    with pytest.raises(WaitTimeoutError) as caught:
        broker.expect("events", {"id": 2, "tags": ["x", "z"]}, key="two", headers={"trace": "8"}, timeout=0)
    lines = str(caught.value).splitlines()
    assert lines[1] == "expected record(key='two', value={'id': 2, 'tags': ['x', 'z']}, headers={'trace': '8'})"
    assert lines[2:6] == [
        "found 2 records, the nearest first:",
        """  events-0@1: key='two', value='{"id":2,"tags":["x","y"]}', headers={'trace': '7'}""",
        "    value.tags[1]: expected 'z', found 'y'",
        "    header 'trace': expected '8', found '7'",
    ]
    assert "    key: expected 'two', found 'one'" in lines
    assert "    header 'trace': missing; headers: none" in lines


def test_expect_takes_a_matcher_as_it_is(broker: Broker) -> None:
    broker.produce("whole", {"id": 1}, key="a", headers={"trace": "1"})
    matcher = record({"id": 1}, headers={"trace": "1"})
    assert broker.expect("whole", matcher).key == b"a"
    broker.expect_none("whole", record({"id": 2}))
    with pytest.raises(
        TypeError, match=r"^record\(value=\{'id': 1\}, .*\) has all conditions: write key, headers and "
    ):
        broker.expect("whole", matcher, key="a")


def test_among_a_thousand_records_the_nearest_are_told_and_how_many_differ_in_what(broker: Broker) -> None:
    broker.produce("many", *({"id": each, "kind": "a"} for each in range(1000)))
    with pytest.raises(WaitTimeoutError) as caught:
        broker.expect("many", {"id": 7, "kind": "b"}, partition=0, timeout=0)
    lines = str(caught.value).splitlines()
    assert lines[2:5] == [
        "found 1000 records, the nearest first:",
        """  many-0@7: key=null, value='{"id":7,"kind":"a"}'""",
        "    value.kind: expected 'b', found 'a'",
    ]
    assert lines[-2:] == ["  and 995 more", "of 1000 differ 1000 in value.kind, 999 in value.id"]
    assert len(lines) == 3 + 2 + 4 * 3 + 2


def test_of_many_differences_and_long_texts_only_some_is_told() -> None:
    found = ConsumerRecord("t", 0, 5, 1000, "CreateTime", None, b"{}", (("h", b"x" * 1000),), 2, "none", -1)
    lines = explain(record({f"member{number}": "y" * 1000 for number in range(100)}), [found]).splitlines()
    assert lines[1] == "found 1 record, the nearest first:"
    assert lines[-1] == "    and 95 more differences"
    assert len(lines) == 9
    assert max(map(len, lines)) < 1100


def one(value: bytes | None, key: bytes | None = None) -> ConsumerRecord:
    return ConsumerRecord("t", 0, 5, 1000, "CreateTime", key, value, (("h", b"1"), ("h", None)), 2, "none", -1)


UNKNOWN_SCHEMA = "a schema with the id 1 is not registered"


@pytest.mark.parametrize(
    ("matcher", "value", "mismatches"),
    [
        (record(b"a"), b"a", []),
        (record("ä"), "ä".encode(), []),
        (record(None), None, []),
        (record(None), b"", ["value: expected None, found ''"]),
        (record(b""), None, ["value: expected '', found null"]),
        (record({"a": 1}), b'{"a": 1, "b": 2}', []),
        (record({"a": True}), b'{"a": 1}', ["value.a: expected True, found 1"]),
        (record({"a": 1.0}), b'{"a": 1}', []),
        (record({"a": {"b": ...}}), b'{"a": {}}', ["value.a.b: expected Ellipsis, missing"]),
        (record([1, 2]), b"[1]", ["value: expected [1, 2], found [1]"]),
        (record({"a": 1}), b"no", ["value: expected JSON {'a': 1}, found 'no', which is no JSON"]),
        (
            record({"a": 1}),
            b"\0\0\0\0\1*",
            [r"value: expected JSON {'a': 1}, found b'\x00\x00\x00\x00\x01*', which is no JSON; " + UNKNOWN_SCHEMA],
        ),
        (record({"a": 1}), None, ["value: expected {'a': 1}, found null"]),
        (record("x"), b"\xff", [r"value: expected 'x', found b'\xff'"]),
        (record(key=b"k"), b"", ["key: expected 'k', found null"]),
        (record(partition=0, offset=5, timestamp=1000), b"", []),
        (record(partition=1, offset=6), b"", ["partition: expected 1, found 0", "offset: expected 6, found 5"]),
        (record(headers={"h": b"1"}), b"", []),
        (record(headers={"h": None}), b"", []),
        (record(headers={"h": "2"}), b"", ["header 'h': expected '2', found null"]),
    ],
)
def test_a_matcher_says_what_is_different(matcher: RecordMatcher, value: bytes | None, mismatches: list[str]) -> None:
    assert matcher.mismatches(one(value)) == mismatches
    assert matcher.matches(one(value)) is not bool(mismatches)


def test_long_values_are_shown_in_part() -> None:
    (mismatch,) = record("x").mismatches(one(b"y" * 1000))
    assert mismatch.endswith("yyy'... (1000 bytes)")
    assert len(mismatch) < 300


def test_a_topic_that_is_made_anew_while_someone_waits_is_read_from_its_beginning(broker: Broker) -> None:
    broker.produce("again", "old")
    started = threading.Event()

    def replace(each: ConsumerRecord) -> bool:
        started.set()
        return each.text() == "new"

    def produce() -> None:
        started.wait(PATIENCE_S)
        broker.delete_topic("again")
        broker.produce("again", "new")

    thread = threading.Thread(target=produce)
    thread.start()
    assert [each.offset for each in broker.wait_for("again", matching=replace)] == [0]
    thread.join()


def test_that_nothing_was_sent_holds_for_a_topic_with_no_such_record_and_for_none(broker: Broker) -> None:
    broker.expect_none("invoices")
    with pytest.raises(NotFoundError, match=r"no topic 'invoices'; .*expect_none\('invoices'\) passes also"):
        broker.records("invoices")
    broker.create_topic("quiet")
    broker.expect_none("quiet")
    broker.produce("quiet", {"id": 1}, key="a", partition=0)
    broker.expect_none("quiet", {"id": 2})
    broker.expect_none("quiet", {"id": 1}, key="b")
    broker.expect_none("quiet", partition=1)
    with pytest.raises(UnexpectedRecordError) as caught:
        broker.expect_none("quiet", {"id": ...})
    assert str(caught.value).splitlines() == [
        "expected no record(value={'id': Ellipsis}) in 'quiet', found 1 record",
        """  quiet-0@0: key='a', value='{"id":1}'""",
    ]
    with pytest.raises(UnexpectedRecordError, match=r"^expected no record in 'quiet', found 1 record\n"):
        broker.expect_none("quiet")
    assert issubclass(UnexpectedRecordError, AssertionError)
    with pytest.raises(OperationError, match="within: -1 s is below 0"):
        broker.expect_none("quiet", within=-1)


def test_a_topic_without_records_that_seems_misspelt_is_a_warning_at_the_callers_line() -> None:
    with Broker(topics=["orders", "orders-1"]) as broker:
        with pytest.warns(
            MinibrokerWarning, match=r"^expect_none: there is no topic 'ordres'; .*did you mean orders\?"
        ) as caught:
            broker.expect_none("ordres")
        assert [(warning.filename, warning.category) for warning in caught] == [(__file__, MinibrokerWarning)]
        broker.expect_none("orders-2")  # This name resembles an existing one on purpose.
        broker.expect_none("invoices")
        broker.create_topic("ordres")
        broker.expect_none("ordres")


async def test_a_warning_of_a_misspelt_topic_has_the_line_that_awaits_it() -> None:
    async with AsyncBroker(topics=["orders"]) as broker:
        with pytest.warns(MinibrokerWarning, match="no topic 'ordres'") as caught:
            await broker.expect_none("ordres")
        assert [warning.filename for warning in caught] == [__file__]


def test_that_nothing_is_sent_can_be_held_for_some_time(broker: Broker) -> None:
    broker.expect_none("late", within=0.05)
    started = threading.Event()

    def produce() -> None:
        started.wait()
        broker.produce("late", "x")

    thread = threading.Thread(target=produce)
    thread.start()
    started.set()
    with pytest.raises(UnexpectedRecordError, match="found 1 record"):
        broker.expect_none("late", within=PATIENCE_S)  # It ends when the record arrives.
    thread.join()


def test_records_of_an_open_or_aborted_transaction_were_not_sent(broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "none"})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("undecided", b"x")
    producer.flush()
    broker.expect_none("undecided")
    producer.abort_transaction()
    broker.expect_none("undecided")


def test_the_default_patience_is_the_brokers() -> None:
    with Broker(timeout=0) as impatient:
        for wait in (
            lambda: impatient.expect("t"),
            lambda: impatient.wait_for("t"),
            lambda: impatient.group("g").wait_until_stable(),
            lambda: impatient.group("g").wait_until_caught_up(),
        ):
            with pytest.raises(WaitTimeoutError, match="within 0 s"):
                wait()
    with pytest.raises(ValueError, match="timeout: -1 s is below 0"):
        Broker(timeout=-1)


def test_errors_are_named_as_users_import_them() -> None:
    for kind in (WaitTimeoutError, UnexpectedRecordError, OperationError, NotFoundError):
        assert pickle.loads(pickle.dumps(kind("why"))).args == ("why",)
        assert kind.__module__ == "minibroker"
