"""The jars of Spark's Kafka connector, from a given folder or downloaded once into the user's cache folder.

The copy of Ivy that ships with PySpark resolves the jars one by one, without their dependencies. PySpark already has
nearly all dependencies, and `spark.jars.packages` would download them again. XDG_CACHE_HOME moves the cache folder.
`python -m minibroker_pipeline.jars` prints the paths of the jars.
"""

import fcntl
import functools
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from minibroker_storage.installation_hints import missing

FOLDER_VARIABLE: Final = "MINIBROKER_SPARK_JARS"
"""The environment variable that names a folder of jars, like the argument `jars_dir`."""
CONNECTOR: Final = "spark-sql-kafka-0-10"
_SPARK: Final = "org.apache.spark"
_SCALA: Final = "2.13"
_TOKENS: Final = "spark-token-provider-kafka-0-10"
_ARTIFACTS: Final = {"kafka": CONNECTOR, "avro": "spark-avro"}
# The connector needs these libraries and PySpark lacks them. The connector's Ivy file has their versions.
_LIBRARIES: Final = (("org.apache.kafka", "kafka-clients"), ("org.apache.commons", "commons-pool2"))
# The jars for Avro and for Kafka tokens use few of Spark's classes, so their version 4.0.0 works with every Spark 4.
_FIRST_OF_SPARK_4: Final = "4.0.0"
_TIMEOUT_S: Final = 600


class NoJarsError(Exception):
    """Something that Spark needs to use Kafka is missing. The message names it and suggests a remedy."""


def spark_version() -> str:
    """Return the version of the installed PySpark.

    Raises:
        NoJarsError: PySpark is not installed.
    """
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise NoJarsError(missing("pyspark", "spark")) from None


def find(
    packages: Sequence[str] = ("kafka",), jars_dir: str | None = None, ivy_settings: str | None = None
) -> list[str]:
    """Return the paths of the jars for these packages.

    Args:
        packages: the formats that Spark must support: "kafka", "avro" or both.
        jars_dir: a folder of jars. All jars in it are used, and nothing is downloaded.
        ivy_settings: an Ivy settings file (as for `spark.jars.ivySettings`), to download jars from a mirror.

    Raises:
        ValueError: a package is unknown.
        NoJarsError: the jars are missing and cannot be downloaded.
    """
    for package in packages:
        if package not in _ARTIFACTS:
            raise ValueError(f"packages: there is no {package!r}, only {', '.join(_ARTIFACTS)}")
    if folder := jars_dir or os.environ.get(FOLDER_VARIABLE):
        jars = sorted(str(jar) for jar in Path(folder).glob("*.jar"))
        for package in packages:
            if not any(os.path.basename(jar).startswith(_ARTIFACTS[package]) for jar in jars):
                raise NoJarsError(f"{folder} holds no jar of {_ARTIFACTS[package]}")
        return jars
    return [jar for package in packages for jar in _find_cached_jars(package, ivy_settings)]


def cache_dir() -> Path:
    """Return the folder in which jars are cached."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        base = Path(given)
    else:
        base = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return base / "minibroker"


def _find_cached_jars(package: str, ivy_settings: str | None) -> list[str]:
    folder = cache_dir() / f"spark-{spark_version()}-{package}"
    if not folder.exists():
        with _lock_folder(folder.parent):
            if not folder.exists():
                _download_jars(folder, package, ivy_settings)
    return sorted(str(jar) for jar in folder.glob("*.jar"))


@contextmanager
def _lock_folder(folder: Path) -> Generator[None]:
    """Hold a lock on the folder, so that only one process uses it at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock-spark").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _download_jars(folder: Path, package: str, ivy_settings: str | None) -> None:
    # Fill a temporary folder first: an interrupted download must not leave an incomplete cache.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        ivy = _Ivy(Path(scratch), ivy_settings)
        artifact, versions = f"{_ARTIFACTS[package]}_{_SCALA}", _list_patch_versions(spark_version())
        if package == "avro":
            ivy.download(_SPARK, artifact, [*versions, _FIRST_OF_SPARK_4])
        else:
            version = ivy.download(_SPARK, artifact, versions)
            ivy.download(_SPARK, f"{_TOKENS}_{_SCALA}", [version, _FIRST_OF_SPARK_4])
            for group, name in _LIBRARIES:
                ivy.download(group, name, [ivy.find_required_version(_SPARK, artifact, version, group, name)])
        ivy.libs.rename(folder)


def _list_patch_versions(version: str) -> list[str]:
    """Return a version and the earlier patch versions of the same minor version, newest first.

    All of them are compatible, but some may never have been published.
    """
    line, _, patch = version.rpartition(".")
    return [f"{line}.{number}" for number in range(int(patch), -1, -1)] if patch.isdigit() else [version]


class _Ivy:
    """The Ivy command, with its own cache and home below `scratch`.

    Without its own home, Ivy would also search Maven's local repository, where a module can lack its jar.
    """

    def __init__(self, scratch: Path, settings: str | None) -> None:
        self.libs = scratch / "libs"
        self._cache = scratch / "ivy"
        self._command = [java(), f"-Duser.home={scratch}", "-jar", _ivy_jar(), "-cache", str(self._cache)]
        self._command += ["-settings", settings] if settings else []
        self._command += ["-notransitive", "-confs", "master"]

    def download(self, group: str, name: str, versions: Sequence[str]) -> str:
        """Download a jar into `libs` in the first available version, and return that version.

        Raises:
            NoJarsError: no version is available, or Ivy timed out.
        """
        output = ""
        for version in versions:
            command = [*self._command, "-dependency", group, name, version]
            command += ["-retrieve", f"{self.libs}/[artifact]-[revision].[ext]"]
            try:
                completed = _run(command, _TIMEOUT_S)
            except subprocess.TimeoutExpired:
                raise NoJarsError(f"Ivy did not bring {group}:{name}:{version} within {_TIMEOUT_S} s") from None
            if completed.returncode == 0 and (self.libs / f"{name}-{version}.jar").exists():
                return version
            output = completed.stdout + completed.stderr
        raise NoJarsError(
            f"no jar of {group}:{name} in version {' or '.join(versions)} could be had ({_find_reason(output)}). "
            f"Put the jars into a folder and name it with jars_dir or {FOLDER_VARIABLE}"
        )

    def find_required_version(self, group: str, name: str, version: str, other_group: str, other_name: str) -> str:
        """Return the version of another module that a downloaded module requires.

        Raises:
            NoJarsError: the downloaded module has no such dependency.
        """
        description = ET.parse(self._cache / group / name / f"ivy-{version}.xml")  # noqa: S314 - Ivy has just written it
        for dependency in description.iter("dependency"):
            if (dependency.get("org"), dependency.get("name")) == (other_group, other_name):
                return str(dependency.get("rev"))
        raise NoJarsError(f"{group}:{name}:{version} does not say which {other_name} it needs")


def _run(command: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, timeout=timeout, capture_output=True, text=True, check=False)  # noqa: S603 - no shell


def _find_reason(output: str) -> str:
    """Return the most informative line of Ivy's output."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "not found" in line or "failed" in line.lower() or "exception" in line.lower()]
    return (errors or lines or ["no output"])[0]


@functools.cache
def java() -> str:
    """Return the path of a working `java`.

    Raises:
        NoJarsError: no working Java is installed.
    """
    home = os.environ.get("JAVA_HOME")
    path = os.path.join(home, "bin", "java") if home else shutil.which("java")
    try:
        # Run the command to test it, because a Mac without Java has a stub that prints a message and fails.
        if path and not _run([path, "-version"], 60).returncode:
            return path
    except OSError:
        pass
    raise NoJarsError("there is no java that works, neither in JAVA_HOME nor on the PATH; Spark 4 needs 17 or newer")


def _ivy_jar() -> str:
    home = os.environ.get("SPARK_HOME")
    folder = Path(home) if home else Path(str(importlib.metadata.distribution("pyspark").locate_file("pyspark")))
    jars = sorted((folder / "jars").glob("ivy-*.jar"))
    if not jars:
        raise NoJarsError(f"{folder} has no Ivy among its jars")
    return str(jars[-1])


def main() -> int:
    """Print the paths of the jars, separated by commas as `spark-submit --jars` expects.

    The command-line arguments are the package names to pass to `find()`, by default "kafka".
    """
    try:
        sys.stdout.write(",".join(find(sys.argv[1:] or ("kafka",))) + "\n")
    except (NoJarsError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
