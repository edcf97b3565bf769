"""The topic `_schemas`: its records, takeovers, other writers, restarts, snapshots and resets."""

import json
import logging
from pathlib import Path

import pytest

from minibroker import Broker, Message
from tests.registry.rest import Rest
from tests.registry.schemas import ID, OTHER, V1, V2, record

SCHEMA = '{"keytype":"SCHEMA","subject":"%s","version":%d,"magic":1}'


def value(subject: str, version: int, id_: int, text: str = V1, **fields: object) -> str:
    """Return the value of a record as Confluent's registry 7.x writes it."""
    return json.dumps({"subject": subject, "version": version, "id": id_, "schema": text, "deleted": False, **fields})


def compact(content: object) -> str:
    return json.dumps(content, separators=(",", ":"))


def test_the_records_have_the_bytes_of_confluent_s(rest: Rest, broker: Broker) -> None:
    customer = rest.register("customer", OTHER)
    reference = {"name": "Customer", "subject": "customer", "version": 1}
    order = record({"name": "customer", "type": "Customer"})
    second = rest.register("Bücher", order, references=[reference], metadata={"properties": {"b": "2", "a": "1"}})
    third = rest.register("proto", 'syntax = "proto3"; message M { int32 a = 1; }', schemaType="PROTOBUF")
    rest.register(":.ctx:a", V1)
    rest.put("/config", {"compatibility": "full"})
    rest.put("/config/customer", {"compatibility": "none", "normalize": True})
    rest.put("/mode/customer", {"mode": "READONLY"})
    rest.delete("/mode/customer")
    records = [
        (read.key.decode(), None if read.value is None else read.value.decode())
        for read in broker.records("_schemas")
        if read.key is not None
    ]
    text = json.dumps(OTHER)
    assert records[:2] == [
        (
            SCHEMA % ("customer", 1),
            f'{{"subject":"customer","version":1,"id":{customer},"schema":{text},"deleted":false}}',
        ),
        (
            SCHEMA % ("Bücher", 1),
            (
                f'{{"subject":"Bücher","version":1,"id":{second},"references":[{compact(reference)}],'
                f'"metadata":{{"properties":{{"a":"1","b":"2"}}}},"schema":{json.dumps(order)},"deleted":false}}'
            ),
        ),
    ]
    assert records[2][1] is not None
    assert records[2][1].startswith(f'{{"subject":"proto","version":1,"id":{third},"schemaType":"PROTOBUF","schema":')
    assert records[3:] == [
        (
            '{"keytype":"CONTEXT","tenant":"default","context":".ctx","magic":0}',
            '{"tenant":"default","context":".ctx"}',
        ),
        (
            SCHEMA % (":.ctx:a", 1),
            f'{{"subject":":.ctx:a","version":1,"id":1,"schema":{json.dumps(V1)},"deleted":false}}',
        ),
        ('{"keytype":"CONFIG","magic":0}', '{"compatibilityLevel":"FULL"}'),
        (
            '{"keytype":"CONFIG","subject":"customer","magic":0}',
            '{"subject":"customer","normalize":true,"compatibilityLevel":"NONE"}',
        ),
        ('{"keytype":"MODE","subject":"customer","magic":0}', '{"subject":"customer","mode":"READONLY"}'),
        ('{"keytype":"MODE","subject":"customer","magic":0}', None),
    ]
    topic = broker.topics()["_schemas"]
    assert (topic.partitions, topic.configs) == (1, {"cleanup.policy": "compact"})


def test_the_topic_of_another_registry_is_taken_over(broker: Broker, rest: Rest) -> None:
    broker.create_topic("_schemas", 1, configs={"cleanup.policy": "compact"})
    broker.produce(
        "_schemas",
        Message(key='{"keytype":"NOOP","magic":0}', value=None),
        Message(key=SCHEMA % ("a", 1), value=value("a", 1, 7)),
        Message(key=SCHEMA % ("a", 2), value=value("a", 2, 9, V2)),
        Message(key=SCHEMA % ("b", 1), value=value("b", 1, 7)),
        Message(key=SCHEMA % ("c", 1), value=value("c", 1, 10, '"int"')),
        Message(
            key='{"keytype":"CONFIG","subject":"a","magic":0}', value='{"subject":"a","compatibilityLevel":"FULL"}'
        ),
        Message(key='{"keytype":"MODE","subject":"b","magic":0}', value='{"subject":"b","mode":"READONLY"}'),
        Message(key='{"keytype":"DELETE_SUBJECT","subject":"c","magic":0}', value='{"subject":"c","version":1}'),
    )
    assert rest.get("/subjects") == ["a", "b"]
    assert rest.get("/subjects?deleted=true") == ["a", "b", "c"]
    assert rest.get("/schemas/ids/7/subjects") == ["a", "b"]
    assert rest.get("/config/a") == {"compatibilityLevel": "FULL"}
    assert rest.get("/mode/b") == {"mode": "READONLY"}
    assert rest.register("a", V1) == 7
    assert rest.register("d", OTHER) > 10
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": '"string"'}) == (409, 409)


def test_what_others_write_is_seen_before_the_next_answer(broker: Broker, rest: Rest) -> None:
    first = rest.register("a", V1)
    broker.produce("_schemas", Message(key=SCHEMA % ("b", 4), value=value("b", 4, first + 50, V2)))
    assert rest.get("/subjects/b/versions") == [4]
    assert rest.register("b", OTHER.replace("Customer", "Order").replace("long", "double")) == first + 51
    assert rest.get("/subjects/b/versions") == [4, 5]
    broker.produce("_schemas", Message(key=SCHEMA % ("b", 4), value=None), Message(key=SCHEMA % ("b", 5), value=""))
    assert rest.get("/subjects?deleted=true") == ["a"]


BROKEN = [
    (b"", b"{}"),
    (b"\xff", b"{}"),
    (b"{}", b"{}"),
    (b"[]", b"{}"),
    (b'{"keytype":"OTHER","magic":0}', b"{}"),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b"{"),
    (b'{"keytype":"SCHEMA","subject":"a","version":"x","magic":1}', value("a", 1, 1).encode()),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', b'{"subject":"a","version":1}'),
    (b'{"keytype":"MODE","subject":"a","magic":0}', b"[]"),
    (b'{"keytype":"MODE","subject":"a","magic":0}', b'{"subject":"a"}'),
    (b"[" * 100_000, b""),
    (b'{"keytype":"SCHEMA","subject":"\\ud800","version":1,"magic":1}', value("\ud800", 1, 1).encode()),
    (b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', value("a", 1, 1, '"\ud800"').encode()),
    (b'{"keytype":"SCHEMA","subject":"\xed\xa0\x80","version":1,"magic":1}', value("\ud800", 1, 1).encode()),
]


@pytest.mark.parametrize(("key", "content"), BROKEN, ids=range(len(BROKEN)))
def test_a_record_that_is_not_understood_is_skipped_and_logged(
    key: bytes, content: bytes, broker: Broker, rest: Rest, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("_schemas", 1)
    with caplog.at_level(logging.WARNING, "minibroker_registry"):
        broker.produce("_schemas", Message(key=key, value=content))
        assert rest.get("/subjects") == []
    assert "was skipped" in caplog.text
    rest.register("a", V1)
    assert rest.get("/subjects") == ["a"]


def test_a_schema_of_the_topic_that_is_not_valid_is_reported_when_it_is_needed(broker: Broker, rest: Rest) -> None:
    broker.create_topic("_schemas", 1)
    broker.produce("_schemas", Message(key=SCHEMA % ("a", 1), value=value("a", 1, 1, "{")))
    assert rest.get("/subjects/a/versions/1")["schema"] == "{"
    assert rest.refusal("GET", "/subjects/a/versions/1?format=resolved") == (422, 42201)
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": V1}) == (422, 42201)


def test_a_reset_empties_the_registry_and_never_repeats_an_id(broker: Broker, rest: Rest) -> None:
    first = rest.register("a", V1)
    rest.put("/config", {"compatibility": "NONE"})
    broker.reset()
    assert rest.get("/subjects") == []
    assert rest.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.refusal("GET", f"/schemas/ids/{first}") == (404, 40403)
    assert rest.register("a", V2) == first + 1
    broker.reset(keep_topics=True)
    assert rest.get("/subjects") == []
    assert rest.register("a", V2) == first + 2


@pytest.mark.parametrize("kept", [{}, {"keep_topics": True}])
def test_a_reset_can_keep_the_schemas(kept: dict[str, bool], broker: Broker, rest: Rest) -> None:
    id_ = rest.register("a", V1)
    rest.put("/config/a", {"compatibility": "FULL"})
    broker.create_topic("other")
    broker.produce("other", "x")
    broker.reset(keep_schemas=True, **kept)
    assert ("other" in broker.topics()) == bool(kept)
    assert rest.get("/subjects") == ["a"]
    assert rest.get("/config/a") == {"compatibilityLevel": "FULL"}
    assert rest.register("b", V1) == id_
    assert rest.register("b", V2) == id_ + 1


def test_the_registry_of_a_deleted_topic_is_empty(broker: Broker, rest: Rest) -> None:
    first = rest.register("a", V1)
    broker.delete_topic("_schemas")
    assert rest.get("/subjects") == []
    assert rest.register("a", V1) == first + 1


def test_a_snapshot_holds_the_registry(broker: Broker, rest: Rest) -> None:
    first = rest.register("a", V1)
    with broker.snapshot() as snapshot:
        second = rest.register("b", V2)
        broker.restore(snapshot)
        assert rest.get("/subjects") == ["a"]
        assert rest.get(f"/schemas/ids/{first}")["schema"] == V1
        assert rest.register("c", OTHER) == second + 1


def test_a_restarted_broker_has_its_schemas(tmp_path: Path) -> None:
    with Broker(registry=True, data_dir=tmp_path) as broker, Rest(broker.registry_url) as rest:
        ids = [rest.register("a", text) for text in (V1, V2)]
        rest.delete("/subjects/a/versions/1")
        view = rest.get("/subjects/a/versions/2")
        assert ids == [1, 2]
    with Broker(registry=True, data_dir=tmp_path) as broker, Rest(broker.registry_url) as rest:
        assert rest.get("/subjects/a/versions?deleted=true") == [1, 2]
        assert rest.get("/subjects/a/versions/latest") == view
        assert rest.register("b", OTHER) == 3


def test_compaction_leaves_the_registry_as_it_is(tmp_path: Path) -> None:
    with Broker(registry=True, data_dir=tmp_path) as broker, Rest(broker.registry_url) as rest:
        for level in ("FULL", "NONE"):
            rest.put("/config", {"compatibility": level})
        for number in range(5):
            rest.register("a", record({**ID, "doc": str(number)}))
        rest.delete("/subjects/a/versions/3")
        rest.delete("/subjects/a/versions/3?permanent=true")
        broker.compact("_schemas")
        assert rest.get("/subjects/a/versions") == [1, 2, 4, 5]
    with Broker(registry=True, data_dir=tmp_path) as broker, Rest(broker.registry_url) as rest:
        assert rest.get("/subjects/a/versions") == [1, 2, 4, 5]
        assert rest.get("/config") == {"compatibilityLevel": "NONE"}


def test_the_journal_and_faults_do_not_concern_the_registry() -> None:
    with Broker(registry=True, journal=True) as broker, Rest(broker.registry_url) as rest:
        broker.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
        broker.faults.add(api="Fetch", disconnect="before")
        rest.register("a", V1)
        assert rest.get("/subjects") == ["a"]
        assert len(broker.requests.entries()) == 0
