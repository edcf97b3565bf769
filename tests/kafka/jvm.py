"""Starts of Java that cost little: sources are compiled once, and classes are kept as they were once loaded.

Both lie in the user's cache folder, under names that change with the JDK, the jars and the sources.
"""

import functools
import hashlib
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.kafka import jars

OPTIONS: Final = (
    *jars.SHORT_LIVED,
    "-Xlog:disable",  # a JVM writes its warnings to stdout, among the answers of an oracle
)
_ARCHIVE: Final = "classes.jsa"


def command(libs: Path, *options: str, heap: str = "512m", program: Path | None = None) -> list[str]:
    """The words that start a class of these jars, or of `program`, a Java source; the class and its arguments follow.

    NoJarsError where Java is missing, or its compiler for a source.
    """
    class_path = class_path_of(libs)
    started = [jars.java(), *options, f"-Xmx{heap}", *OPTIONS]
    archive = archive_of(libs) / _ARCHIVE
    if archive.exists():
        started.append(f"-XX:SharedArchiveFile={archive}")
    if program is not None:  # behind the jars, since an archive serves class paths that begin with its own
        class_path = [*class_path, str(_compiled(program, libs) / f"{program.stem}.jar")]
    return [*started, "-cp", os.pathsep.join(class_path)]


def oracle_command(source: Path, libs: Path, *, heap: str) -> list[str]:
    """The words that start the class of a Java source."""
    return [*command(libs, heap=heap, program=source), source.stem]


def class_path_of(libs: Path) -> list[str]:
    """The jars of a folder, in an order that does not change."""
    return sorted(str(jar) for jar in libs.glob("*.jar"))


def archive_of(libs: Path) -> Path:
    """The folder for the archive of these jars' classes; `tests.kafka.real_kafka` fills it."""
    return cached("kafka-classes", libs)


def archiving(made: Path) -> str:
    """The option with which a JVM leaves an archive in a folder when it ends."""
    return f"-XX:ArchiveClassesAtExit={made / _ARCHIVE}"


@functools.cache
def _compiled(source: Path, libs: Path) -> Path:
    return toolchains.build(cached(source.stem.lower(), libs, source), lambda made: _compile(source, libs, made))


def _compile(source: Path, libs: Path, made: Path) -> None:
    toolchains.compile_java([source], class_path_of(libs), made / "classes")
    with zipfile.ZipFile(made / f"{source.stem}.jar", "w") as jar:
        for each in sorted((made / "classes").glob("*.class")):
            jar.write(each, each.name)


@functools.cache
def cached(name: str, libs: Path, *sources: Path) -> Path:
    """Return a folder of the user's cache that belongs to this JDK, these jars and these sources."""
    return jars.cache_dir().parent / f"{name}-{_digest(_facts(libs, sources))}"


def _facts(libs: Path, sources: Sequence[Path]) -> Iterable[bytes]:
    """A JVM refuses an archive whose jars have been touched, and so each place names what it looks at."""
    yield jars.java().encode()
    yield jars.java_modules().encode()
    for jar in class_path_of(libs):
        status = Path(jar).stat()
        yield f"{jar} {status.st_size} {status.st_mtime_ns}".encode()
    for source in sources:
        yield source.read_bytes()


def _digest(facts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for fact in facts:
        digest.update(len(fact).to_bytes(4, "big") + fact)
    return digest.hexdigest()[:16]
