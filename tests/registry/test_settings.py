"""Configuration, modes and contexts."""

import pytest

from minibroker import Broker
from tests.registry.rest import Rest
from tests.registry.schemas import INCOMPATIBLE, V1, V2, record


def test_the_level_of_a_subject_overrides_that_of_the_registry(rest: Rest) -> None:
    assert rest.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert rest.put("/config", {"compatibility": "none"}) == {"compatibility": "NONE"}
    assert rest.get("/config/") == {"compatibilityLevel": "NONE"}
    rest.register("a", V1)
    rest.register("a", INCOMPATIBLE)
    assert rest.get("/config/a?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    rest.put("/config/a", {"compatibility": "FULL"})
    assert rest.get("/config/a") == {"compatibilityLevel": "FULL"}
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": '"string"'}) == (409, 409)
    assert rest.delete("/config/a") == {"compatibilityLevel": "FULL"}
    assert rest.delete("/config") == {"compatibilityLevel": "NONE"}
    assert rest.get("/config") == {"compatibilityLevel": "BACKWARD"}


def test_further_settings_are_kept_and_can_be_removed(rest: Rest) -> None:
    settings = {"compatibility": "FULL", "normalize": True, "compatibilityPolicy": "LENIENT", "unknown": 1}
    assert rest.put("/config/a", settings) == {name: settings[name] for name in settings if name != "unknown"}
    assert rest.put("/config/a", {"compatibilityPolicy": "lenient"})["normalize"]
    assert rest.get("/config/a") == {
        "compatibilityLevel": "FULL",
        "normalize": True,
        "compatibilityPolicy": "LENIENT",
    }
    rest.put("/config/a", {"normalize": None})
    assert rest.get("/config/a") == {"compatibilityLevel": "FULL", "compatibilityPolicy": "LENIENT"}


def test_metadata_of_the_configuration_becomes_that_of_new_schemas(rest: Rest) -> None:
    rest.put("/config/a", {"defaultMetadata": {"properties": {"owner": "x", "team": "y"}}})
    rest.register("a", V1, metadata={"properties": {"owner": "z"}})
    assert rest.get("/subjects/a/versions/1")["metadata"] == {"properties": {"owner": "z", "team": "y"}}


@pytest.mark.parametrize("path", ["/config", "/config/a"])
def test_an_unknown_level_is_refused(path: str, rest: Rest) -> None:
    assert rest.refusal("PUT", path, {"compatibility": "SOME"}) == (422, 42203)


def test_a_read_only_subject_takes_no_changes_but_answers_known_schemas(rest: Rest) -> None:
    id_ = rest.register("a", V1)
    assert rest.put("/mode/a", {"mode": "READONLY"}) == {"mode": "READONLY"}
    assert rest.get("/mode/a") == {"mode": "READONLY"}
    assert rest.get("/mode") == {"mode": "READWRITE"}
    assert rest.register("a", V1) == id_
    for method, path, body in (
        ("POST", "/subjects/a/versions", {"schema": V2}),
        ("DELETE", "/subjects/a", None),
        ("DELETE", "/subjects/a/versions/1", None),
        ("PUT", "/config/a", {"compatibility": "NONE"}),
    ):
        assert rest.refusal(method, path, body) == (422, 42205)
    rest.register("b", V2)
    assert rest.delete("/mode/a") == {"mode": "READONLY"}
    rest.register("a", V2)


def test_the_mode_of_a_subject_comes_before_that_of_the_registry(rest: Rest) -> None:
    rest.put("/mode/a", {"mode": "READWRITE"})
    assert rest.put("/mode", {"mode": "readonly_override"}) == {"mode": "readonly_override"}
    rest.register("a", V1)
    assert rest.refusal("POST", "/subjects/b/versions", {"schema": V1}) == (422, 42205)
    assert rest.get("/mode/b?defaultToGlobal=true") == {"mode": "READONLY_OVERRIDE"}
    assert rest.put("/mode/a", {"mode": None}) == {"mode": None}
    assert rest.refusal("GET", "/mode/a") == (404, 40409)


@pytest.mark.parametrize(("path", "body"), [("/config", {"compatibility": "NONE"}), ("/mode", {"mode": "READONLY"})])
def test_settings_of_an_invalid_subject_are_refused(path: str, body: object, rest: Rest) -> None:
    assert rest.refusal("PUT", f"{path}/__GLOBAL", body) == (422, 42208)
    assert rest.refusal("PUT", f"{path}/a%0Ab", body) == (422, 42208)


def test_an_unknown_mode_is_refused(rest: Rest) -> None:
    assert rest.refusal("PUT", "/mode", {"mode": "SOME"}) == (422, 42204)


def test_an_import_gives_ids_and_versions(rest: Rest) -> None:
    rest.put("/mode/a", {"mode": "IMPORT"})
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": V1}) == (422, 42205)
    assert rest.register("a", V1, id=100_000, version=3) == 100_000
    assert rest.register("a", INCOMPATIBLE, id=100_001, version=5) == 100_001
    assert rest.get("/subjects/a/versions") == [3, 5]
    assert rest.refusal("POST", "/subjects/a/versions", {"schema": V2, "id": 100_000}) == (422, 42205)
    assert rest.register("b", V2) == 100_002
    rest.put("/mode/a", {"mode": "READWRITE"})
    assert rest.refusal("PUT", "/mode/a", {"mode": "IMPORT"}) == (422, 42205)
    assert rest.ask("PUT", "/mode/a?force=true", {"mode": "IMPORT"}).status == 200
    rest.delete("/subjects/b")
    rest.put("/mode/b", {"mode": "IMPORT"})
    assert rest.refusal("GET", "/subjects/b/versions?deleted=true") == (404, 40401)


def test_a_context_has_its_own_ids_settings_and_subjects(rest: Rest) -> None:
    default = rest.register("a", V1)
    assert rest.register(":.ctx:a", V2) == 1
    assert rest.post("/contexts/.ctx/subjects/b/versions", {"schema": V1}) == {"id": 2}
    assert rest.get("/contexts") == [".", ".ctx"]
    assert rest.get("/subjects") == [":.ctx:a", ":.ctx:b", "a"]
    assert rest.get("/contexts/.ctx/subjects") == [":.ctx:a", ":.ctx:b"]
    assert rest.get("/contexts/:.:/subjects") == ["a"]
    assert rest.get("/subjects?subjectPrefix=:.ctx:a") == [":.ctx:a"]
    assert [view["subject"] for view in rest.get("/schemas")] == ["a"]
    assert [view["subject"] for view in rest.get("/schemas?subjectPrefix=:*:")] == [":.ctx:a", ":.ctx:b", "a"]
    assert rest.get("/subjects?subjectPrefix=:*:a") == [":.ctx:a", "a"]
    assert rest.get("/contexts/:.ctx:/schemas/ids/2")["schema"] == V1
    assert rest.get("/schemas/ids/1?subject=:.ctx:a")["schema"] == V2
    assert rest.get(f"/schemas/ids/{default}")["schema"] == V1
    assert rest.get("/subjects/:.:a/versions/1")["subject"] == "a"
    rest.put("/contexts/.ctx/config", {"compatibility": "NONE"})
    assert rest.get("/config/:.ctx:") == {"compatibilityLevel": "NONE"}
    rest.register(":.ctx:a", INCOMPATIBLE)
    assert rest.get("/config/:.ctx:b?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    rest.put("/contexts/.ctx/mode", {"mode": "READONLY"})
    assert rest.refusal("POST", "/subjects/:.ctx:c/versions", {"schema": V1}) == (422, 42205)
    assert rest.get("/mode/a?defaultToGlobal=true") == {"mode": "READWRITE"}


def test_the_default_level_can_be_configured() -> None:
    config = {"minibroker.registry.compatibility.level": "FULL_TRANSITIVE"}
    with Broker(registry=True, config=config) as broker, Rest(broker.registry_url) as rest:
        assert rest.get("/config") == {"compatibilityLevel": "FULL_TRANSITIVE"}


def test_invalid_defaults_are_taken_if_new_schemas_are_not_validated(rest: Rest) -> None:
    schema = {"schema": record({"name": "a", "type": "int", "default": "text"})}
    assert rest.refusal("POST", "/subjects/s/versions", schema) == (422, 42201)
    rest.put("/config", {"validateNewSchemas": False})
    id_ = rest.post("/subjects/s/versions", schema)["id"]
    assert rest.get(f"/schemas/ids/{id_}") == schema


def test_nothing_is_normalized_in_mode_import(rest: Rest) -> None:
    schema = {"schema": '{"type":"object","title":"Order"}', "schemaType": "JSON"}
    rest.put("/config/s", {"normalize": True})
    id_ = rest.post("/subjects/s/versions", schema)["id"]
    assert rest.ask("PUT", "/mode/s?force=true", {"mode": "IMPORT"}).status == 200
    assert rest.refusal("POST", "/subjects/s?normalize=true", schema) == (404, 40403)
    rest.post("/subjects/s/versions?normalize=true", {**schema, "id": id_ + 1})
    assert rest.get(f"/schemas/ids/{id_ + 1}")["schema"] == schema["schema"]
    assert rest.post("/subjects/s?normalize=true", schema)["id"] == id_ + 1
