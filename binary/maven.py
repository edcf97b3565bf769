"""Fills a file repository of Maven: the client for Java, and a jar for each platform that holds the program.

    python -m binary.maven DIST

DIST has the archives of `make binary`, and gets the folder `maven`. It needs Maven and a JDK.
"""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from minibroker.config.version import __version__

ROOT: Final = Path(__file__).parents[1]
_JAVA: Final = ROOT / "clients/java"
_PACKAGE: Final = "minibroker/control"
"""The folder of the class that looks for the archive and for SHA256SUMS."""
_SYSTEMS: Final = {"linux": "<name>Linux</name>", "darwin": "<family>mac</family>", "win32": "<family>windows</family>"}
_MACHINES: Final = {"linux-x64": "amd64", "darwin-x64": "x86_64", "win32-x64": "amd64"}
"""The names that Java has for them. Elsewhere it is aarch64."""
_BINARY: Final = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>minibroker</groupId>
  <artifactId>minibroker-binary</artifactId>
  <version>{version}</version>
  <packaging>pom</packaging>
  <description>The program minibroker, in a jar with a classifier for each platform</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
    </license>
  </licenses>
</project>
"""
_PROFILE: Final = """    <profile>
      <id>{platform}</id>
      <activation>
        <os>
          {system}
          <arch>{machine}</arch>
        </os>
      </activation>
      <dependencies>
        <dependency>
          <groupId>minibroker</groupId>
          <artifactId>minibroker-binary</artifactId>
          <version>{version}</version>
          <classifier>{platform}</classifier>
        </dependency>
      </dependencies>
    </profile>
"""


def main(dist: str) -> int:
    """Fill the repository from the archives in a folder, and return the exit status."""
    fill(sorted(Path(dist).glob(f"minibroker-{__version__}-*-*.tar.gz")), Path(dist))
    return 0


def fill(archives: Sequence[Path], dist: Path) -> None:
    """Write the artifacts of this version. Maven takes the jar of its platform without being told, by a profile."""
    platforms = {
        path.name.removeprefix(f"minibroker-{__version__}-").removesuffix(".tar.gz"): path for path in archives
    }
    group = dist / "maven/minibroker"
    license_file = {"META-INF/LICENSE": ROOT / "LICENSE"}
    for platform, archive in platforms.items():
        jar = _artifact(group, "minibroker-binary", f"-{platform}.jar")
        _write_jar(jar, {**license_file, f"{_PACKAGE}/{archive.name}": archive})
    _artifact(group, "minibroker-binary", ".pom").write_text(_BINARY.format(version=__version__))

    subprocess.run(["mvn", "--quiet", "--batch-mode", "compile"], cwd=_JAVA, check=True)
    files = _list_files(_JAVA / "target/classes")
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in archives)
    _write_jar(
        _artifact(group, "minibroker-junit5", ".jar"), {**license_file, **files}, {f"{_PACKAGE}/SHA256SUMS": sums}
    )
    sources = _list_files(_JAVA / "src/main/java")
    _write_jar(_artifact(group, "minibroker-junit5", "-sources.jar"), {**license_file, **sources})
    profiles = "".join(
        _PROFILE.format(
            platform=platform,
            system=_SYSTEMS[platform.partition("-")[0]],
            machine=_MACHINES.get(platform, "aarch64"),
            version=__version__,
        )
        for platform in platforms
        if not platform.endswith("-musl")  # which Maven cannot see
    )
    pom = (_JAVA / "pom.xml").read_text()
    pom = pom.replace("</project>", f"  <profiles>\n{profiles}  </profiles>\n</project>")
    _artifact(group, "minibroker-junit5", ".pom").write_text(pom)
    for path in sorted(group.rglob("*.*")):
        if path.suffix in {".jar", ".pom"}:
            path.with_name(f"{path.name}.sha1").write_text(hashlib.sha1(path.read_bytes()).hexdigest())


def _list_files(folder: Path) -> dict[str, Path]:
    """Return the files below a folder, keyed by their names in a jar."""
    return {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}


def _artifact(group: Path, name: str, suffix: str) -> Path:
    path = group / name / __version__ / f"{name}-{__version__}{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_jar(jar: Path, files: Mapping[str, Path], texts: Mapping[str, str] | None = None) -> None:
    """Write a jar whose bytes depend on nothing but names and contents: the entries have ZIP's first date."""
    with zipfile.ZipFile(jar, "w") as file:
        for name, path in files.items():
            method = zipfile.ZIP_STORED if path.suffix == ".gz" else zipfile.ZIP_DEFLATED
            file.writestr(zipfile.ZipInfo(name), path.read_bytes(), method)
        for name, text in (texts or {}).items():
            file.writestr(zipfile.ZipInfo(name), text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
