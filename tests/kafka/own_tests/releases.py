"""The releases of Kafka whose own tests run here: their jars, and the classes that replace Kafka's brokers."""

import os
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.clients import toolchains
from tests.kafka import jars, jvm
from tests.kafka.jvm import class_path_of
from tests.patience import PATIENCE_S

_HERE: Final = Path(__file__).parent
_JAVA: Final = _HERE / "java"

MODULES: Final = {
    "clients": ("kafka-clients", "kafka-clients-integration-tests"),
    "core": ("kafka_2.13", "kafka-server"),
    "tools": ("kafka-tools",),
    "streams": ("kafka-streams", "kafka-streams-integration-tests"),
    "connect": ("connect-runtime", "connect-mirror", "connect-file"),
}
"""The jars whose tests run, without version, by module."""


@dataclass(frozen=True)
class Release:
    """A release of Kafka with test jars: its version, and the name that `--emulate` has for it."""

    emulated: str
    version: str

    @property
    def libs(self) -> Path:
        """The folder with the jars; Maven fills it once."""
        pom = _HERE / "pom.xml"
        folder = jars.cache_dir().parent / f"kafka-own-tests-{self.version}-{sha256(pom.read_bytes()).hexdigest()[:8]}"
        options = [f"-Dkafka.version={self.version}"]
        if self is RELEASES["4.3"]:
            options.append("-Psince-4.3")
        elif self is RELEASES["4.0"]:
            options.append("-Djunit.minor=10.2")  # newer versions refuse its ClusterTestExtensions
        return toolchains.build(folder, lambda made: jars.from_maven(pom, made, *options))

    def class_path(self, *, on_kafka: bool = False) -> list[str]:
        """Return the class path of the tests; `on_kafka` leaves out the classes that take the place of Kafka's."""
        names = ["runner"] if on_kafka else ["replaced", "runner"]
        # The folders of sources hold files that the classes load, too.
        ours = [str(folder) for name in names for folder in (self._compiled(name), _JAVA / name)]
        return [*ours, *class_path_of(self.libs)]

    def _compiled(self, name: str) -> Path:
        sources = _sources(name)
        folder = jvm.cached(f"kafka-own-tests-{name}", self.libs, *sources)
        return toolchains.build(folder, lambda made: toolchains.compile_java(sources, class_path_of(self.libs), made))

    def classes(self, module: str) -> list[str]:
        """Return the test classes of a module that start brokers; they are looked for once."""
        folder = jvm.cached("kafka-own-tests-classes", self.libs, *_sources("runner"))
        return (toolchains.build(folder, self._find_classes) / module).read_text().split()

    def _find_classes(self, made: Path) -> None:
        command = [jars.java(), *jars.SHORT_LIVED, "-cp", os.pathsep.join(self.class_path()), "TestRun", "list"]
        for module, names in MODULES.items():
            files = [self.libs / f"{name}-{self.version}-test.jar" for name in names]
            with (made / module).open("wb") as listed:
                subprocess.run(
                    [*command, *(str(file) for file in files if file.exists())],
                    stdout=listed,
                    stderr=subprocess.DEVNULL,
                    timeout=PATIENCE_S,
                    check=True,
                )


def _sources(name: str) -> list[Path]:
    return sorted((_JAVA / name).rglob("*.java"))


RELEASES: Final = {
    release.emulated: release
    for release in (Release("4.0", "4.0.2"), Release("4.1", "4.1.2"), Release("4.2", "4.2.0"), Release("4.3", "4.3.1"))
}
"""The releases, by the name for `--emulate`. Maven Central has no test jars of 4.4.0, and of 4.2.1 only some."""
