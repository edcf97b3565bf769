"""Soft and permanent deletions of versions and subjects."""

from minibroker import Broker
from tests.registry.rest import Rest
from tests.registry.schemas import V1, V2


def test_a_softly_deleted_version_is_hidden_but_its_id_stays_readable(rest: Rest) -> None:
    first, second = rest.register("a", V1), rest.register("a", V2)
    assert rest.delete("/subjects/a/versions/2") == 2
    assert rest.get("/subjects/a/versions") == [1]
    assert rest.get("/subjects/a/versions?deleted=true") == [1, 2]
    assert rest.get("/subjects/a/versions?deletedOnly=true") == [2]
    assert rest.get("/subjects/a/versions/latest")["id"] == first
    assert rest.refusal("GET", "/subjects/a/versions/2") == (404, 40402)
    assert rest.get("/subjects/a/versions/2?deleted=true")["id"] == second
    assert rest.get(f"/schemas/ids/{second}")["schema"] == V2
    assert rest.get(f"/schemas/ids/{second}/subjects") == []
    assert rest.get(f"/schemas/ids/{second}/subjects?deleted=true") == ["a"]
    assert rest.refusal("POST", "/subjects/a", {"schema": V2}) == (404, 40403)
    assert rest.post("/subjects/a?deleted=true", {"schema": V2})["version"] == 2
    assert rest.refusal("DELETE", "/subjects/a/versions/2") == (404, 40406)


def test_a_version_is_deleted_permanently_only_after_softly(rest: Rest) -> None:
    id_ = rest.register("a", V1)
    assert rest.refusal("DELETE", "/subjects/a/versions/1?permanent=true") == (404, 40407)
    rest.delete("/subjects/a/versions/1")
    assert rest.delete("/subjects/a/versions/1?permanent=true") == 1
    assert rest.refusal("GET", f"/schemas/ids/{id_}") == (404, 40403)
    assert rest.refusal("GET", "/subjects/a/versions?deleted=true") == (404, 40401)
    assert rest.register("a", V1) == id_ + 1
    assert rest.get("/subjects/a/versions") == [1]


def test_a_schema_that_is_registered_again_has_its_id_and_a_new_version(rest: Rest) -> None:
    id_ = rest.register("a", V1)
    rest.register("a", V2)
    rest.delete("/subjects/a/versions/1")
    assert rest.register("a", V1) == id_
    assert rest.get("/subjects/a/versions?deleted=true") == [2, 3]


def test_a_subject_is_deleted_softly_and_then_permanently(rest: Rest) -> None:
    for text in (V1, V2):
        rest.register("a", text)
    assert rest.refusal("DELETE", "/subjects/a?permanent=true") == (404, 40405)
    assert rest.delete("/subjects/a") == [1, 2]
    assert rest.get("/subjects") == []
    assert rest.get("/subjects?deleted=true") == ["a"]
    assert rest.get("/subjects?deletedOnly=true") == ["a"]
    assert rest.refusal("DELETE", "/subjects/a") == (404, 40404)
    rest.put("/config/a", {"compatibility": "NONE"})
    assert rest.delete("/subjects/a?permanent=true") == [1, 2]
    assert rest.refusal("DELETE", "/subjects/a?permanent=true") == (404, 40401)
    assert rest.refusal("GET", "/config/a") == (404, 40408)


def test_deleted_versions_take_no_part_in_compatibility(rest: Rest) -> None:
    rest.register("a", V1)
    rest.delete("/subjects/a")
    rest.register("a", '"string"')
    assert rest.get("/subjects/a/versions") == [2]


def test_the_records_of_deletions_are_confluent_s(rest: Rest, broker: Broker) -> None:
    rest.register("a", V1)
    rest.delete("/subjects/a")
    rest.delete("/subjects/a?permanent=true")
    keys = [record.key for record in broker.records("_schemas")]
    assert keys == [
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
        b'{"keytype":"DELETE_SUBJECT","subject":"a","magic":0}',
        b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
    ]
    values = [record.value for record in broker.records("_schemas")]
    assert values[1:] == [b'{"subject":"a","version":1}', None]
