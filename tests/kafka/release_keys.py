"""Writes `minibroker/config/release_keys.tsv`: the configuration keys of each release, from its own jars.

`python -m tests.kafka.release_keys` brings the jars of all releases with Maven, a gigabyte, and writes the file.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from minibroker.config.releases import RELEASES, release_name
from tests.kafka import jars, jvm
from tests.programs import run_to_success

FILE: Final = Path(__file__).parents[2] / "minibroker/config/release_keys.tsv"
_PROGRAM: Final = Path(__file__).with_name("ConfigKeys.java")
_RELEASES_POM: Final = Path(__file__).with_name("releases.xml")
_RANGE: Final = re.compile(r"Range: \[(-?\d+),\.\.\.(?:,(-?[\d.]+))?\]")
_WORDS: Final = re.compile(r"(?:ValidString|ValidList): \[(.*?)\]")
_FIRST: Final = RELEASES.index("0.11")
_LAST_OF_SCALA_2_12: Final = RELEASES.index("2.3")
_POM: Final = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>minibroker</groupId><artifactId>keys</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies><dependency>
    <groupId>org.apache.kafka</groupId><artifactId>kafka_{scala}</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""


def lines_of(folders: Iterable[Path]) -> list[list[str]]:
    """Return what the program says of the releases whose jars are in these folders, named by their versions."""
    done = run_to_success([*jvm.oracle_command(_PROGRAM, jars.find(), heap="512m"), *map(str, folders)])
    return [line.split("\t") for line in done.stdout.splitlines()]


def allowed(validator: str) -> str:
    """Return a validator in the form of the file."""
    if (limits := _RANGE.fullmatch(validator)) is not None:
        return f"{limits[1]}..{limits[2] or ''}"
    words = _WORDS.match(validator)
    listed = words[1].replace(", ", "|") if words else ""
    if validator.startswith("ValidList") and ("Allowed" in validator or words is None):
        return f"{listed} distinct{' nonempty' if 'isEmptyAllowed=false' in validator else ''}"
    return "=" if validator and words is None else listed


def rows_of(lines: Iterable[list[str]]) -> list[str]:
    """Return the rows of the file: one for each run of releases in which a key has the same facts."""
    facts: dict[tuple[str, str], dict[int, str]] = {}
    for version, kind, key, type_, default, validator, internal, dynamic in lines:
        at = RELEASES.index(release_name(version.removeprefix("kafka-")) or "")
        facts.setdefault((kind, key), {})[at] = "\t".join((type_, default, allowed(validator), internal + dynamic))
    return [row for (kind, key), by_release in sorted(facts.items()) for row in _rows(kind, key, by_release)]


def _rows(kind: str, key: str, by_release: Mapping[int, str]) -> list[str]:
    rows: list[str] = []
    first = last = -1
    for at in sorted(by_release):
        if last != at - 1 or by_release[last] != by_release[at]:
            first = at
            rows.append("")
        last = at
        rows[-1] = "\t".join((kind, key, RELEASES[first], RELEASES[last], by_release[at])).rstrip("\t")
    return rows


def main() -> None:
    """Write the file."""
    versions = re.findall(r"<artifactId>kafka-clients</artifactId><version>([\d.]+)<", _RELEASES_POM.read_text())
    lines: list[list[str]] = []
    for version in versions:
        at = RELEASES.index(release_name(version) or "")
        if at < _FIRST:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            pom, folder = Path(scratch, "pom.xml"), Path(scratch, version)
            scala = "2.12" if at <= _LAST_OF_SCALA_2_12 else "2.13"
            pom.write_text(_POM.format(scala=scala, version=version))
            jars.from_maven(pom, folder)
            lines += lines_of([folder])
    FILE.write_text("\n".join(rows_of(lines)) + "\n")
    sys.stdout.write(f"{FILE}: {len(versions)} releases\n")


if __name__ == "__main__":
    main()
