"""The Java clients: the programs of tests/clients/java, compiled once against the jars of a version of Kafka.

Where there is no JDK or no Maven, the test that asks for a program is skipped and says so; under CI that is a failure.
"""

import functools
import os
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.kafka import jars
from tests.kafka.fixtures import or_skip

VERSIONS: Final = ("3.9.1", "4.4.0")
"""Of kafka-clients: the last of the line that still knows brokers of 2013, and the newest one."""

_CLIENTS: Final = Path(__file__).with_name("java")
_STREAMS: Final = _CLIENTS / "streams"
_SHARES: Final = _CLIENTS / "shares"
_JVM: Final = (
    "-Xmx256m",
    *jars.SHORT_LIVED,
    "-Xlog:disable",  # the JVM has its warnings on stdout, among the events
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
)
_ARCHIVE: Final = "classes.jsa"


def client_command(program: str, version: str) -> Sequence[str]:
    """The command for a class of tests/clients/java with this version of kafka-clients; its arguments follow."""
    return _command(_CLIENTS, version, program)


def streams_command(program: str, version: str = jars.VERSION) -> Sequence[str]:
    """The command that starts a class of tests/clients/java/streams; its arguments follow."""
    return _command(_STREAMS, version, program)


def share_command(program: str) -> Sequence[str]:
    """The command that starts a class of tests/clients/java/shares, with the newest clients; its arguments follow."""
    return _command(_SHARES, VERSIONS[-1], program)


def _command(folder: Path, version: str, program: str) -> Sequence[str]:
    return (or_skip(jars.java), *_JVM, *or_skip(functools.partial(_class_options, folder, version)), program)


@functools.cache
def _class_options(folder: Path, version: str) -> Sequence[str]:
    """The class path, of our jar and the ones it needs, and perhaps an archive of its classes. NoJarsError."""
    kind = f"java-{'streams' if folder == _STREAMS else 'clients'}-{version}"
    pom = (_CLIENTS if folder == _SHARES else folder) / "pom.xml"
    sources = [*_CLIENTS.glob("Json.java"), *folder.glob("*.java")]
    libs = sorted(str(jar) for jar in _libs(kind, pom, version).glob("*.jar"))
    programs = toolchains.build(
        toolchains.place(f"{kind}-{folder.name}-programs", [pom, *sources]), lambda made: _compile(sources, libs, made)
    )
    options = ["-cp", os.pathsep.join([str(programs / "programs.jar"), *libs])]
    if folder != _CLIENTS:  # few long starts, which an archive would not pay for
        return options
    archive = toolchains.build(
        toolchains.place(f"{kind}-archive", [pom, *sources]), lambda made: _archive(options, made / _ARCHIVE)
    )
    return [f"-XX:SharedArchiveFile={archive / _ARCHIVE}", *options]


def documented_command(sources: Iterable[Path], program: str) -> Sequence[str]:
    """The command that starts a class of these sources, compiled all at once, with the newest clients."""
    command = client_command(program, VERSIONS[-1])
    libs = [str(jar) for jar in client_libs(VERSIONS[-1]).glob("*.jar")]
    compiled = toolchains.build(
        toolchains.place("java-documented-programs", sources), lambda made: _compile(sources, libs, made)
    )
    # Behind all others: an archive is of use where the class path begins as its own.
    return [
        f"{each}{os.pathsep}{compiled / 'programs.jar'}" if before == "-cp" else each
        for before, each in zip(["", *command], command, strict=False)
    ]


def client_libs(version: str) -> Path:
    """The folder of kafka-clients of a version, and of the jars that it needs. NoJarsError."""
    return _libs(f"java-clients-{version}", _CLIENTS / "pom.xml", version)


def _libs(kind: str, pom: Path, version: str) -> Path:
    return toolchains.build(
        toolchains.place(kind, [pom]), lambda made: jars.from_maven(pom, made, f"-Dkafka.version={version}")
    )


def _compile(sources: Iterable[Path], libs: Iterable[str], made: Path) -> None:
    toolchains.compile_java(sources, libs, made / "classes", "-Xlint:all", "-Werror")
    with zipfile.ZipFile(made / "programs.jar", "w") as jar:
        for each in (made / "classes").glob("*.class"):
            jar.write(each, each.name)


def _archive(class_path: Sequence[str], made: Path) -> None:
    """Keep the classes of a start as they are in memory, which halves the time of the next ones.

    A JVM without that, or of another version, takes no notice of the archive.
    """
    toolchains.run([jars.java(), *_JVM, f"-XX:ArchiveClassesAtExit={made}", *class_path, "WarmUp"], made.parent)
