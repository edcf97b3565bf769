"""Apache Kafka's jars: where they are, or how they are brought once into the user's cache folder.

The folder that KAFKA_LIBS names wins (the `libs` of a Kafka distribution). Without it the jars are resolved with what
is at hand: Maven, or the Ivy that an installed PySpark carries. `make clean` leaves the cache alone; XDG_CACHE_HOME
moves it.
"""

import fcntl
import functools
import glob
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.patience import PATIENCE_S

VERSION = "3.9.1"
"""The last minor version of Kafka that writes and converts every message format."""
NEWEST = "4.4.0"
"""The newest one. As all of Kafka 4 it speaks no version of an API that came before Kafka 2.1."""

_POM = Path(__file__).with_name("pom.xml")
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
"""Options for a JVM that ends soon: an optimizing compiler does not pay for itself, and takes a third of the CPU."""
_MAVEN_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"


class NoJarsError(Exception):
    """Apache Kafka cannot run here; the message says what is missing."""


@functools.cache
def java() -> str:
    """A java that works. NoJarsError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    try:
        # The java of a macOS without any is a program that says so and fails.
        if (
            found
            and not subprocess.run([found, "-version"], capture_output=True, timeout=PATIENCE_S, check=False).returncode
        ):
            return found
    except OSError:
        pass
    raise NoJarsError("there is no java that works, neither in JAVA_HOME nor on the PATH")


@functools.cache
def java_modules() -> str:
    """The list of modules of that java."""
    return subprocess.run(
        [java(), "--list-modules"], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    ).stdout


def cache_dir(version: str = VERSION) -> Path:
    """Where the jars of this version are kept."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        base = Path(given)
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "minibroker" / f"kafka-{version}"


@functools.cache
def find(given: str | None = None, version: str = VERSION) -> Path:
    """The folder of Kafka's jars: as given, else KAFKA_LIBS, else the cache, which is filled first. NoJarsError.

    KAFKA_LIBS is asked for `VERSION` only.
    """
    if named := given or (os.environ.get("KAFKA_LIBS") if version == VERSION else None):
        if not _holds_kafka(Path(named)):
            raise NoJarsError(f"{named} holds no kafka_2.13 jar")
        return Path(named)
    cached = cache_dir(version)
    if _is_complete(cached, version):
        return cached
    java()
    with _locked(cached):
        if not _is_complete(cached, version):
            _fill(cached, version)
    return cached


def _holds_kafka(folder: Path) -> bool:
    return any(folder.glob("kafka_2.1*.jar"))


def _is_complete(folder: Path, version: str) -> bool:
    """An older checkout may have filled the cache with less."""
    return all((folder / name).exists() for name in (f"kafka_2.13-{version}.jar", f"kafka-tools-{version}.jar"))


def from_maven(pom: Path, folder: Path, *options: str) -> None:
    """Put the jars that a pom asks for into a folder; options may set its properties. NoJarsError."""
    if (maven := shutil.which("mvn")) is None:
        raise NoJarsError("there is no mvn on the PATH")
    goal = [_MAVEN_GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={folder}", *options]
    maven_options = " ".join([os.environ.get("MAVEN_OPTS", ""), *SHORT_LIVED]).strip()
    _run([maven, "-q", "-B", "-f", str(pom), *goal], {"MAVEN_OPTS": maven_options})


@contextmanager
def _locked(cached: Path) -> Generator[None]:
    """One process at a time: tests may run in several."""
    cached.parent.mkdir(parents=True, exist_ok=True)
    with (cached.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(cached: Path, version: str) -> None:
    # Into a neighbour first: a run that is interrupted here must not leave half a cache behind.
    with tempfile.TemporaryDirectory(dir=cached.parent) as scratch:
        libs = Path(scratch) / "libs"
        if shutil.which("mvn"):
            from_maven(_POM, libs, f"-Dkafka.version={version}")
        elif ivy := _ivy_of_pyspark():
            # A home of its own: Ivy also looks into Maven's local repository, where a pom may lack its jar.
            command = [java(), f"-Duser.home={scratch}", "-jar", ivy, "-cache", f"{scratch}/ivy", "-confs", "default"]
            for module in _ivy_modules(version):
                _run([*command, "-dependency", *module, "-retrieve", f"{libs}/[artifact]-[revision].[ext]"])
        else:
            raise NoJarsError("no KAFKA_LIBS, no mvn on the PATH and no PySpark: nothing brings Kafka's jars")
        if not _is_complete(libs, version):
            raise NoJarsError("Kafka's jars were resolved, but kafka_2.13 or kafka-tools is not among them")
        if cached.exists():
            cached.rename(Path(scratch) / "old")
        libs.rename(cached)


def _ivy_modules(version: str) -> tuple[tuple[str, ...], ...]:
    return (
        ("org.apache.kafka", "kafka_2.13", version),
        (
            "org.apache.kafka",
            "kafka-tools",
            version,
            "-notransitive",
        ),  # what it needs is there; the rest is Kafka Connect
        ("org.slf4j", "slf4j-reload4j", "1.7.36"),
    )


def _ivy_of_pyspark() -> str | None:
    spec = importlib.util.find_spec("pyspark")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if home := os.environ.get("SPARK_HOME"):
        folders.append(home)
    return next((jar for folder in folders for jar in glob.glob(os.path.join(folder, "jars", "ivy-*.jar"))), None)


def _run(command: list[str], variables: Mapping[str, str] | None = None) -> None:
    environment = {**os.environ, **(variables or {})}
    try:
        subprocess.run(command, check=True, timeout=PATIENCE_S, capture_output=True, text=True, env=environment)
    except subprocess.TimeoutExpired:
        raise NoJarsError(f"{command[0]} did not resolve Kafka's jars within {PATIENCE_S} s") from None
    except subprocess.CalledProcessError as failure:
        output = (failure.stdout or failure.stderr).strip()
        reason = output.splitlines()[0] if output else "no output"
        raise NoJarsError(f"{command[0]} could not resolve Kafka's jars: {reason}") from failure
