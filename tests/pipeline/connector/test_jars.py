"""The sources of the connector's jars."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minibroker_pipeline import jars, session


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(jars.FOLDER_VARIABLE, raising=False)
    return tmp_path


def a_folder(directory: Path, *names: str) -> list[str]:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return [str(directory / name) for name in names]


def test_a_given_folder_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("kafka-clients-3.9.2.jar", "spark-avro_2.13-4.2.0.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar")
    expected = a_folder(tmp_path / "jars", *names)
    (tmp_path / "jars" / "README").touch()
    assert jars.find(("kafka", "avro"), jars_dir=str(tmp_path / "jars")) == expected
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path / "jars"))
    assert jars.find() == expected


def test_a_given_folder_without_the_connector_is_refused(tmp_path: Path) -> None:
    a_folder(tmp_path / "jars", "kafka-clients-3.9.2.jar")
    with pytest.raises(jars.NoJarsError, match=f"{tmp_path}/jars holds no jar of spark-sql-kafka-0-10"):
        jars.find(jars_dir=str(tmp_path / "jars"))


def test_what_was_brought_once_is_found_without_java_and_without_a_network(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "spark_version", lambda: "4.2.0")
    monkeypatch.setattr(jars, "java", pytest.fail)
    brought = a_folder(empty_cache / "minibroker" / "spark-4.2.0-kafka", "a.jar", "b.jar")
    assert jars.find() == brought


def test_without_java_nothing_is_brought_and_nothing_is_left_behind(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(empty_cache / "none"))
    jars.java.cache_clear()
    with pytest.raises(jars.NoJarsError, match="no java that works"):
        jars.find()
    assert os.listdir(empty_cache / "minibroker") == [".lock-spark"]
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)  # Hide the session of other tests.
    with pytest.raises(jars.NoJarsError, match="no java that works"):
        session.spark_session(master="local[1]", packages=())
    monkeypatch.undo()
    jars.java.cache_clear()


@pytest.mark.torture
def test_an_unpublished_version_is_replaced_by_an_earlier_one_and_a_failure_names_what_is_missing(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fake `java` publishes version 4.2.1 of the connector, 4.0.0 of its dependencies, and no Avro."""
    ivy = empty_cache / "java"
    ivy.write_text(
        """#!/usr/bin/env python3
import os, sys
if sys.argv[1:] == ["-version"]:
    sys.exit()
at = sys.argv.index
_, name, version = sys.argv[at("-dependency") + 1:]  [:3]
published = {"spark-sql-kafka-0-10_2.13": "4.2.1", "spark-token-provider-kafka-0-10_2.13": "4.0.0",
             "kafka-clients": "3.9.2", "commons-pool2": "2.13.1"}
if published.get(name) != version:
    print("\\tmodule not found: " + name)
    sys.exit(1)
file = sys.argv[at("-retrieve") + 1].replace("[artifact]", name).replace("[revision]", version).replace("[ext]", "jar")
os.makedirs(os.path.dirname(file), exist_ok=True)
open(file, "w").close()
folder = os.path.join(sys.argv[at("-cache") + 1], "org.apache.spark", name)
os.makedirs(folder, exist_ok=True)
with open(os.path.join(folder, f"ivy-{version}.xml"), "w") as description:
    description.write('<ivy-module><dependencies><dependency org="org.apache.kafka" name="kafka-clients" rev="3.9.2"/>'
                      '<dependency org="org.apache.commons" name="commons-pool2" rev="2.13.1"/>'
                      "</dependencies></ivy-module>")
"""
    )
    ivy.chmod(0o755)
    monkeypatch.setattr(jars, "spark_version", lambda: "4.2.3")
    monkeypatch.setattr(jars, "java", lambda: str(ivy))
    assert [os.path.basename(jar) for jar in jars.find()] == [
        "commons-pool2-2.13.1.jar",
        "kafka-clients-3.9.2.jar",
        "spark-sql-kafka-0-10_2.13-4.2.1.jar",
        "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    ]
    with pytest.raises(jars.NoJarsError, match=r"spark-avro_2\.13 in version 4\.2\.3 or .* not found.*jars_dir"):
        jars.find(("avro",))


def test_an_unknown_package_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no 'delta', only kafka, avro"):
        jars.find(("delta",))


def test_the_list_for_spark_submit_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    result = a_folder(tmp_path / "jars", "spark-avro_2.13-4.0.0.jar", "spark-sql-kafka-0-10_2.13-4.2.0.jar")
    monkeypatch.setenv(jars.FOLDER_VARIABLE, str(tmp_path / "jars"))
    monkeypatch.setattr("sys.argv", ["jars", "kafka", "avro"])
    assert jars.main() == 0
    assert capsys.readouterr().out == ",".join(result) + "\n"
    monkeypatch.setattr("sys.argv", ["jars", "rabbit"])
    assert jars.main() == 2
    assert "there is no 'rabbit'" in capsys.readouterr().err
