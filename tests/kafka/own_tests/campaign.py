"""A campaign: Kafka's own tests of some modules of one release, and their results in a folder."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from tests.documented import ROOT
from tests.kafka.own_tests import applicability, records
from tests.kafka.own_tests.releases import RELEASES
from tests.kafka.own_tests.runs import Result, read_results, results_file, run_classes

NEWEST: Final = "4.3"
DIRECTORY: Final = ROOT / "build" / "own-tests"


class Campaign:
    """The tests of some modules of one release. The results of each class are kept, so that a run can continue.

    Args:
        emulated: the release, as `--emulate` has it.
        directory: has a folder for each release.
        on_kafka: whether the tests run on Kafka's own brokers.
    """

    def __init__(self, emulated: str, modules: Sequence[str], directory: Path, *, on_kafka: bool = False) -> None:
        self.release = RELEASES[emulated]
        self._on_kafka = on_kafka
        self._methods: dict[str, list[str]] = {}
        self._folder = directory / (f"{emulated}-on-kafka" if on_kafka else emulated)
        self._classes = {module: self.release.classes(module) for module in modules}
        self._listed = applicability.read_lists(emulated)

    def keep(self, names: Sequence[str]) -> None:
        """Leave out the classes that have none of these names, with or without a package."""
        for module, classes in self._classes.items():
            self._classes[module] = [name for name in classes if {name, name.rpartition(".")[2]} & set(names)]

    def keep_methods_to_confirm(self) -> None:
        """Leave out all but the methods whose reason in not-applicable.txt a run on Kafka has to confirm."""
        methods = applicability.methods_to_confirm(self._listed)
        self._listed = {}
        self.keep(list(methods))
        self._methods = {name: methods[name.rpartition(".")[2]] for name in self._all()}

    def forget_failures(self) -> None:
        """Delete the results of the classes in which tests failed that are not listed."""
        for name in self._all():
            if self._faults([name]):
                results_file(self._folder, name).unlink()

    def run(self, lanes: int, say: Callable[[str], None]) -> None:
        """Run the classes that have no results yet, in several JVMs at the same time."""
        run_classes(
            self.release,
            self._all(),
            self._folder,
            lanes=lanes,
            methods=self._methods,
            on_kafka=self._on_kafka,
            say=say,
        )

    def report(self, say: Callable[[str], None]) -> int:
        """Print the number of tests by module, and what is wrong; return the exit status."""
        tallies = self.tallies()
        for line in records.table({module: records.total(tallies[module]) for module in tallies}):
            say(line)
        faults = self._faults(self._all())
        for fault in faults:
            say(fault)
        return int(bool(faults))

    def tallies(self) -> records.Tallies:
        """Count the tests by module and class."""
        return {
            module: {
                name: records.tally(results, self._listed) for name in classes if (results := self._results([name]))
            }
            for module, classes in self._classes.items()
        }

    def _all(self) -> list[str]:
        return [name for classes in self._classes.values() for name in classes]

    def _faults(self, names: Sequence[str]) -> list[str]:
        is_newest = self.release is RELEASES[NEWEST] and not self._on_kafka
        return applicability.faults(self._results(names), self._listed, is_newest=is_newest)

    def _results(self, names: Sequence[str]) -> list[Result]:
        return read_results(self._folder, names)


def say(line: str) -> None:
    """Print a line of a report."""
    print(line, flush=True)  # noqa: T201 - it is a program
