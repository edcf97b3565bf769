"""The measured figures and their summary: medians of each round's figures and of each round's ratios."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final, NamedTuple

from minibroker_pipeline.jobs.text_table import text_table

CONNECTOR: Final = "kafka"
SOURCE: Final = "minibroker"
OTHER: Final = "kafka (other broker)"
NOOP: Final = "noop"
AGGREGATE: Final = "aggregate"
QUERIES: Final = (NOOP, AGGREGATE)
JOBS: Final = ("verify", "stats")
_READERS: Final = (CONNECTOR, OTHER, SOURCE, *JOBS)


class Case(NamedTuple):
    """A topic: the size of its values in bytes, its codec, its records, and the bytes of its log."""

    size: int
    codec: str
    records: int
    log_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One run of a query or of a job over all records of a topic."""

    case: Case
    round: int
    #: A format of Spark's, `OTHER`, or a job's name.
    reader: str
    #: "noop", "aggregate"; of jobs their name.
    query: str
    seconds: float
    #: Of driver, JVM, Python workers and broker together; None where that is unknown.
    cpu_seconds: float | None
    #: Of these the broker's.
    broker_cpu_seconds: float | None

    @property
    def rows_per_second(self) -> float:
        """Rows by the clock on the wall."""
        return self.case.records / self.seconds


class Figures(NamedTuple):
    """Medians over the rounds; ratios are formed within each round, against the connector on the same topic."""

    case: Case
    reader: str
    query: str
    rows_per_second: float
    #: Per million rows.
    cpu_seconds: float | None
    speed_ratio: float | None
    cpu_ratio: float | None


@dataclass(slots=True)
class BenchReport:
    """The figures that `bench` has measured."""

    settings: dict[str, Any]
    samples: list[Sample] = field(default_factory=list[Sample])

    def figures(self) -> list[Figures]:
        """A line for each topic, query and reader, in the order in which they were measured."""
        keys = {(sample.case, sample.query, sample.reader) for sample in self.samples}
        cases = list(dict.fromkeys(sample.case for sample in self.samples))
        order = (*QUERIES, *JOBS)
        return [
            self._figures(*key)
            for key in sorted(keys, key=lambda key: (cases.index(key[0]), order.index(key[1]), _READERS.index(key[2])))
        ]

    def _figures(self, case: Case, query: str, reader: str) -> Figures:
        own = self._rounds(case, query, reader)
        base = self._rounds(case, query if query in QUERIES else NOOP, CONNECTOR)
        pairs = [(own[number], base[number]) for number in own if number in base and reader != CONNECTOR]
        return Figures(
            case,
            reader,
            query,
            median(sample.rows_per_second for sample in own.values()),
            _median(_per_million(sample) for sample in own.values()),
            _median(mine.rows_per_second / theirs.rows_per_second for mine, theirs in pairs),
            _median(_ratio(mine.cpu_seconds, theirs.cpu_seconds) for mine, theirs in pairs),
        )

    def _rounds(self, case: Case, query: str, reader: str) -> dict[int, Sample]:
        return {
            sample.round: sample
            for sample in self.samples
            if (sample.case, sample.query, sample.reader) == (case, query, reader)
        }

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "settings": self.settings,
            "figures": [figures._asdict() | {"case": figures.case._asdict()} for figures in self.figures()],
            "samples": [asdict(sample) | {"case": sample.case._asdict()} for sample in self.samples],
        }

    def as_text(self) -> str:
        """A table."""
        titles = ("bytes", "codec", "query", "reader", "rows/s", "MB/s", "CPU s/M rows", "speed", "CPU")
        rows: list[Sequence[str]] = []
        for figures in self.figures():
            case = figures.case
            megabytes = figures.rows_per_second * case.log_bytes / case.records / 1e6
            rows.append(
                (
                    f"{case.size:,}",
                    case.codec,
                    figures.query,
                    figures.reader,
                    f"{figures.rows_per_second:,.0f}",
                    f"{megabytes:,.0f}",
                    _text(figures.cpu_seconds, "{:.2f}".format),
                    _text(figures.speed_ratio, "{:.2f}x".format),
                    _text(figures.cpu_ratio, "{:.2f}x".format),
                )
            )
        return (
            text_table(titles, rows, left=(1, 2, 3))
            + f"\nMedians of {self.settings['rounds']} rounds on {self.settings['master']}. MB/s are bytes of the log."
            f" Speed and CPU are ratios to {CONNECTOR} in the same\nround, those of jobs to its query {NOOP}."
            " CPU is that of driver, JVM, Python workers and broker together.\n"
        )


def _per_million(sample: Sample) -> float | None:
    return None if sample.cpu_seconds is None else sample.cpu_seconds / sample.case.records * 1e6


def _ratio(mine: float | None, theirs: float | None) -> float | None:
    return mine / theirs if mine is not None and theirs else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _text(value: float | None, write: Callable[[float], str]) -> str:
    return "" if value is None else write(value)
