"""Initial topics and records of a broker."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from minibroker import Broker
from minibroker.operations.seeding import SeedError, read_seeds

SEEDS: Final[dict[str, Any]] = {
    "topics": [
        "plain:2",
        {
            "name": "orders",
            "partitions": 3,
            "configs": {"cleanup.policy": ["compact", "delete"], "retention.ms": 60000},
            "records": [
                {"key": "a", "value": {"id": 1}, "partition": 2, "timestamp": "2026-01-02T03:04:05.678Z"},
                {"key": "b", "value": None, "headers": {"trace": "t1"}, "timestamp": 17},
                {"key": {"base64": "/w=="}, "value": {"json": "text"}, "headers": [["h", "1"], ["h", None]]},
            ],
        },
        {"name": "old", "message_format": "v0", "codec": "gzip", "records": ["one", "two"]},
    ],
    "records": [{"topic": "plain", "value": "x"}, {"topic": "unheard-of", "value": 3}],
}


def written(path: Path, data: Any) -> str:
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return str(path)


def check(broker: Broker) -> None:
    """Check that the broker has everything in `SEEDS`."""
    assert {name: each.partitions for name, each in broker.topics().items()} == {
        "old": 1,
        "orders": 3,
        "plain": 2,
        "unheard-of": 1,
    }
    assert broker.topics()["orders"].configs == {"cleanup.policy": "compact,delete", "retention.ms": "60000"}
    orders = {record.key: record for record in broker.records("orders")}
    assert orders[b"a"].json() == {"id": 1}
    assert (orders[b"a"].partition, orders[b"a"].timestamp) == (2, 1767323045678)
    assert (orders[b"b"].value, orders[b"b"].headers, orders[b"b"].timestamp) == (None, (("trace", b"t1"),), 17)
    assert (orders[b"\xff"].value, orders[b"\xff"].headers) == (b'"text"', (("h", b"1"), ("h", None)))
    assert [(each.value, each.message_format, each.codec) for each in broker.records("old")] == [
        (b"one", 0, "gzip"),
        (b"two", 0, "gzip"),
    ]
    assert [each.value for each in broker.records("plain") + broker.records("unheard-of")] == [b"x", b"3"]


def test_json_fills_topics(tmp_path: Path) -> None:
    with Broker(seed_data=written(tmp_path / "seeds.json", SEEDS)) as broker:
        check(broker)


def test_lines_of_json_fill_topics(tmp_path: Path) -> None:
    topics = [each if isinstance(each, str) else {**each, "records": []} for each in SEEDS["topics"]]
    records = [
        {"topic": topic["name"], **(each if isinstance(each, dict) else {"value": each})}
        for topic in SEEDS["topics"]
        if isinstance(topic, dict)
        for each in topic["records"]
    ]
    lines = "\n\n".join(json.dumps(each) for each in [*records, *SEEDS["records"], *topics])
    with Broker(seed_data=written(tmp_path / "seeds.ndjson", f"{lines}\r\n")) as broker:
        check(broker)


def test_yaml_fills_topics_and_knows_dates_and_bytes(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    text = "topics:\n  - orders:2\nrecords:\n"
    text += "  - {topic: orders, key: !!binary /w==, value: {id: 1}, timestamp: 2026-01-02T03:04:05Z}\n"
    text += "  - {topic: orders, value: ja, timestamp: 2026-01-02 03:04:06}\n"
    with Broker(seed_data=written(tmp_path / "seeds.yaml", text)) as broker:
        records = sorted(broker.records("orders"), key=lambda each: each.timestamp)
    assert [(each.key, each.value, each.timestamp) for each in records] == [
        (b"\xff", b'{"id":1}', 1767323045000),
        (None, b"ja", 1767323046000),
    ]


def test_a_broker_that_starts_again_has_each_record_once(tmp_path: Path) -> None:
    seeds = written(tmp_path / "seeds.json", {"records": [{"topic": "t", "value": "once"}]})
    for _ in range(2):
        with Broker(seed_data=seeds, data_dir=str(tmp_path / "data")) as broker:
            assert [record.text() for record in broker.records("t")] == ["once"]


def test_a_reset_brings_the_seeds_back_with_the_time_of_the_machine(tmp_path: Path) -> None:
    with Broker(seed_data=written(tmp_path / "seeds.json", {"records": [{"topic": "t", "value": "s"}]})) as broker:
        (first,) = broker.records("t")
        broker.produce("t", "more")
        broker.clock.advance(24 * 3600)
        broker.reset()
        (again,) = broker.records("t")
    assert again.value == b"s"
    assert 0 <= again.timestamp - first.timestamp < 12 * 3600 * 1000


def test_topics_are_made_also_where_clients_may_not_make_them(tmp_path: Path) -> None:
    seeds = written(tmp_path / "seeds.json", {"records": [{"topic": "t", "value": "s"}]})
    with Broker(seed_data=seeds, config={"auto.create.topics.enable": False}) as broker:
        assert len(broker.records("t")) == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("s.json", "{", "not JSON: Expecting"),
        ("s.json", "[" * 100_000, "nested too deeply"),
        ("s.json", "[]", "it is [], not a mapping with some of the fields topics, records"),
        ("s.yaml", "# nothing", "it is empty; there may be topics and records"),
        ("s.json", '{"topic": []}', "topic: there is no such field; there are topics, records"),
        ("s.json", '{"topics": {}}', "topics: {} is not a list"),
        ("s.json", '{"topics": [3]}', "topic 1: it is 3, not a mapping with some of"),
        ("s.json", '{"topics": ["a:x"]}', "topic 1: 'a:x': 'x' is not a number of partitions"),
        ("s.json", '{"topics": [{"partitions": 1}]}', "topic 1: the field 'name' is missing"),
        ("s.json", '{"topics": [{"name": "a", "partitions": "2"}]}', "topic 1: partitions: '2' is not a whole number"),
        ("s.json", '{"topics": ["a", {"name": "a"}]}', "topic 2: name: there is a topic 'a' already"),
        ("s.json", '{"topics": [{"name": "a", "configs": {"x": null}}]}', "topic 1: configs: x: None is neither"),
        (
            "s.json",
            '{"topics": [{"name": "a", "codec": "rar"}]}',
            "topic 1: codec: 'rar' is not a codec of",
        ),
        ("s.json", '{"topics": [{"name": "a", "records": [3]}]}', "topic 1: record 1: it is 3, not a mapping"),
        ("s.json", '{"topics": [{"name": "a", "records": [{"topic": "b"}]}]}', "topic 1: record 1: topic: this record"),
        ("s.json", '{"records": [{"value": "x"}]}', "record 1: the field 'topic' is missing"),
        ("s.json", '{"records": [{"topic": "t", "vaule": 1}]}', "record 1: vaule: there is no such field; there are"),
        ("s.json", '{"records": [{"topic": "t", "key": {"base64": "?"}}]}', "record 1: key: '?' is not valid base64"),
        ("s.json", '{"records": [{"topic": "t", "value": "\\ud800"}]}', "record 1: a text that has no form in UTF-8"),
        ("s.json", '{"records": [{"topic": "t", "headers": [1]}]}', "record 1: headers: 1 is not [name, value]"),
        (
            "s.json",
            '{"records": [{"topic": "t", "timestamp": -1}]}',
            "record 1: timestamp: -1 is neither a num",
        ),
        (
            "s.json",
            '{"records": [{"topic": "t", "timestamp": "soon"}]}',
            "record 1: timestamp: 'soon' is neither",
        ),
        ("s.ndjson", '\n{"topic": "t"}\n{"name": ', "line 3: not JSON: Expecting value"),
        ("s.ndjson", '{"topic": "t", "partition": "0"}', "line 1: partition: '0' is not a whole number"),
        ("s.jsonl", "3", "line 1: it has no name as a topic, no subject as a schema and no topic as a record"),
        ("s.yaml", "topics: [", "not YAML: while parsing"),
        ("s.yaml", "records: [{topic: t, value: [2026-01-02]}]", "record 1: value: [datetime.date(2026, 1, 2)] is"),
    ],
)
def test_what_is_wrong_is_told_with_file_place_and_field(tmp_path: Path, name: str, text: str, message: str) -> None:
    if name.endswith("yaml"):
        pytest.importorskip("yaml")
    path = written(tmp_path / name, text)
    with pytest.raises(SeedError) as caught:
        read_seeds(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ({"topics": [{"name": "a b"}]}, "topic 1: topic 'a b': Topic name is invalid"),
        ({"topics": [{"name": "a", "configs": {"no.such": 1}}]}, "topic 1: topic 'a': "),
        (
            {"records": [{"topic": "t"}, {"topic": "t", "partition": 1}]},
            "record 2: partition: topic 't' has no partition 1; it has 1 partition",
        ),
        (
            {"topics": [{"name": "t", "message_format": "v1", "records": [{"headers": {"h": "v"}}]}]},
            "records of the topic 't': headers: format v1 does not have any",
        ),
    ],
)
def test_what_the_broker_refuses_is_told_with_its_place(tmp_path: Path, seeds: Any, message: str) -> None:
    path = written(tmp_path / "seeds.json", seeds)
    with pytest.raises(SeedError) as caught, Broker(seed_data=path):
        pass
    assert str(caught.value).startswith(f"{path}: {message}")
