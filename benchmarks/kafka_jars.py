"""Finds Apache Kafka's jars, or has Maven resolve them once into the user's cache folder."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "3.9.1"
_POM = Path(__file__).with_name("kafka") / "pom.xml"


class NoJarsError(Exception):
    """Apache Kafka cannot run here; the message says what is missing."""


def cache_dir() -> Path:
    if "XDG_CACHE_HOME" in os.environ:
        base = Path(os.environ["XDG_CACHE_HOME"])
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "minibroker-benchmarks" / f"kafka-{VERSION}"


def _holds_kafka(folder: Path) -> bool:
    return any(folder.glob("kafka_2.1*.jar"))


def find(given: str | None) -> Path:
    """The folder of jars: as given, else $KAFKA_LIBS, else the cache, else Maven's work. Raises NoJarsError."""
    if shutil.which("java") is None:
        raise NoJarsError("there is no java on the PATH")
    if named := given or os.environ.get("KAFKA_LIBS"):
        if _holds_kafka(Path(named)):
            return Path(named)
        raise NoJarsError(f"{named} holds no kafka_2.13 jar")
    cached = cache_dir()
    if _holds_kafka(cached):
        return cached
    if shutil.which("mvn") is None:
        raise NoJarsError("set KAFKA_LIBS to a folder of Kafka's jars, or put mvn on the PATH")
    return _resolve(cached)


def _resolve(cached: Path) -> Path:
    cached.parent.mkdir(parents=True, exist_ok=True)
    # Into a neighbour first: a run that is interrupted here must not leave half a cache behind.
    with tempfile.TemporaryDirectory(dir=cached.parent) as scratch:
        libs = Path(scratch) / "libs"
        command = ["mvn", "-q", "-B", "-f", str(_POM), "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={libs}"]
        try:
            subprocess.run(command, check=True, timeout=600, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            raise NoJarsError("mvn did not resolve Kafka's jars within ten minutes") from None
        except subprocess.CalledProcessError as failure:
            output = (failure.stdout or failure.stderr).strip()
            raise NoJarsError(
                f"mvn could not resolve Kafka's jars: {output.splitlines()[0] if output else 'no output'}"
            ) from failure
        libs.rename(cached)
    return cached
