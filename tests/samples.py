"""Samples of sweeps: `make test` takes a part of the cases, the same one each time, and `make torture` takes them all.

A sweep is a test over many cases. Its sample has a fixed seed, so that a failure comes again. The tests of some rooms
are a sweep as they are: they run programs of others, or the codec, and most of them with each client, version, codec
and scenario. Of a file there the sample has each test with some values of its parameters, and each value in some test.
"""

import os
import random
import re
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final, TypeVar
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

SWEEPS: Final = "MINIBROKER_SWEEPS"
"""The environment's name for how much of a sweep is taken: "whole" is all of it, and `FEW` what `make check` takes."""
FEW: Final = "few"
WHOLE: Final = os.environ.get(SWEEPS) == "whole"

_PROGRAMS: Final = (
    "tests/broker/page/",
    "tests/clients/",
    "tests/command_line_tools/",
    "tests/docker/",
    "tests/kafka/",
    "tests/pipeline/",
)
"""The rooms whose tests run programs of others."""
ROOMS: Final = (*_PROGRAMS, "tests/protocol/")
"""The rooms whose tests are sampled file by file."""
COSTLY: Final = (
    *_PROGRAMS,
    "tests/broker/grade/",
    "tests/broker/terminal/",
    "tests/pytest_plugin/",
    "tests/torture/",
)
"""The rooms of whose files `make check` takes no more than `TASTE` tests each."""
TASTE: Final = 2
in_torture: Final = pytest.mark.in_torture
"""Marks a test, or a case of one, that `make torture` alone takes: it costs much, and others have most of it."""
not_in_check: Final = pytest.mark.not_in_check
"""Marks a test that is long for `make check`."""
each_row: Final = pytest.mark.each_row
"""Marks a test in these rooms that is taken with each value of its parameters, whatever others are taken with."""

_USE: Final = re.compile(
    r"^from tests\.samples import .*\b(examples|in_torture|one_of_two|part|some|WHOLE)\b", re.MULTILINE
)
_HYPOTHESIS: Final = re.compile(r"^from hypothesis import ", re.MULTILINE)
_TESTS: Final = Path(__file__).parent
_A = TypeVar("_A")
_B = TypeVar("_B")


def part(whole: int, sample: int) -> int:
    """The number of cases of a sweep with a seed of its own: `whole`, or the first `sample` of them."""
    return whole if WHOLE else sample


def some(cases: Collection[_A], sample: int) -> list[_A]:
    """All cases of a sweep, or `sample` of them, always the same ones, in their order."""
    every = list(cases)
    taken = random.Random(16).sample(range(len(every)), part(len(every), min(sample, len(every))))
    return [every[at] for at in sorted(taken)]


def examples(whole: int, sample: int, *suppressed: HealthCheck) -> settings:
    """A decorator for a test of Hypothesis: `sample` examples, always the same, or `whole` ones of another seed.

    `make check` takes a third of the sample, but three at least: the first ones are the simplest.
    No test fails because the machine is slow; `suppressed` are further health checks that the test does without.
    """
    checks = [HealthCheck.too_slow, *suppressed]
    if os.environ.get(SWEEPS) == FEW:
        sample = min(sample, max(3, sample // 3))
    return settings(
        max_examples=part(whole, sample), derandomize=not WHOLE, deadline=None, suppress_health_check=checks
    )


def one_of_two(first: Sequence[_A], second: Sequence[_B]) -> list[tuple[_A, _B, bool]]:
    """The parameters of a sweep over two lists and a flag: each pair with either flag, or in a sample with one of them.

    The flag alternates from pair to pair, so that each element of both lists is taken with either one.
    """
    return [
        (left, right, flag)
        for row, left in enumerate(first)
        for column, right in enumerate(second)
        for flag in (True, False)
        if WHOLE or flag is ((row + column) % 2 == 0)
    ]


def left_out(tests: Sequence[pytest.Item], *, quick: bool = False) -> list[pytest.Item]:
    """The tests that `make test` leaves to `make torture`, of those that a run has collected.

    If `quick`, those that `make check` leaves to the two: all rooms are sampled, and some of them more strictly.
    """
    left = {test.nodeid for test in tests if test.get_closest_marker(in_torture.name)}
    left |= _beyond_samples([test for test in tests if test.nodeid not in left and test.nodeid.startswith(ROOMS)])
    if quick:  # a sample of that sample
        left |= {test.nodeid for test in tests if test.get_closest_marker(not_in_check.name)}
        left |= _beyond_samples([test for test in tests if test.nodeid not in left], COSTLY)
    return [test for test in tests if test.nodeid in left]


def _beyond_samples(tests: Iterable[pytest.Item], costly: tuple[str, ...] = ()) -> set[str]:
    """The tests that the samples of their files leave out; the samples of `costly` files are a taste."""
    files: dict[str, dict[str, AbstractSet[Hashable]]] = {}
    for test in tests:
        files.setdefault(test.nodeid.partition("::")[0], {})[test.nodeid] = traits(test)
    left: set[str] = set()
    for file, cases in files.items():
        left |= cases.keys() - covering(cases, most=TASTE if costly and file.startswith(costly) else len(cases))
    return left


def traits(test: pytest.Item) -> set[Hashable]:
    """The name of a test without its parameters, and each parameter with its value.

    A value counts for all tests of the file, or for this one alone where the test is marked `each_row`.
    """
    name: str = getattr(test, "originalname", test.name)
    call: Any = getattr(test, "callspec", None)
    values: Mapping[str, object] = call.params if call else {}
    owner = name if test.get_closest_marker(each_row.name) else ""
    return {name} | {(owner, parameter, _comparable(value)) for parameter, value in values.items()}


def _comparable(value: object) -> Hashable:
    try:
        hash(value)
    except (TypeError, ValueError):
        return id(value)  # several tests have it, since pytest combines the lists of values that it is given
    return value


def covering(cases: Mapping[str, AbstractSet[Hashable]], most: int) -> set[str]:
    """The names of few cases that together have the traits of all, or `most` of them; always the same ones."""
    order = sorted(cases, key=lambda name: crc32(name.encode()))
    missing = {trait for case in cases.values() for trait in case}
    taken: set[str] = set()
    while missing and len(taken) < most:
        best = max(order, key=lambda name: len(cases[name] & missing))
        missing -= cases[best]
        taken.add(best)
    return taken


def swept_files() -> list[str]:
    """The files of tests that say what their samples are, from the root of the checkout on."""
    return _files(_USE)


def property_files() -> list[str]:
    """The files of tests of Hypothesis, which takes fewer examples in a sample: 25, where a test says nothing else."""
    return _files(_HYPOTHESIS)


def _files(use: re.Pattern[str]) -> list[str]:
    using = [path for path in _TESTS.rglob("test_*.py") if use.search(path.read_text())]
    return sorted(path.relative_to(_TESTS.parent).as_posix() for path in using)
