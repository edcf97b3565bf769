"""Samples of sweeps: `make test` takes a part of the cases, the same one each time, and `make torture` takes them all.

A sweep is a test over many generated cases. Its sample has a fixed seed, so that a failure comes again.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

from hypothesis import HealthCheck, settings

SWEEPS: Final = "MINIBROKER_SWEEPS"
"""The environment's name for how much of a sweep is taken; "whole" is all of it."""
WHOLE: Final = os.environ.get(SWEEPS) == "whole"

_USE: Final = re.compile(r"^from tests\.samples import .*\b(examples|one_of_two|part|WHOLE)\b", re.MULTILINE)
_TESTS: Final = Path(__file__).parent
_A = TypeVar("_A")
_B = TypeVar("_B")


def part(whole: int, sample: int) -> int:
    """The number of cases of a sweep with a seed of its own: `whole`, or the first `sample` of them."""
    return whole if WHOLE else sample


def examples(whole: int, sample: int, *suppressed: HealthCheck) -> settings:
    """A decorator for a test of Hypothesis: `sample` examples, always the same, or `whole` ones of another seed.

    No test fails because the machine is slow; `suppressed` are further health checks that the test does without.
    """
    checks = [HealthCheck.too_slow, *suppressed]
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


def swept_files() -> list[str]:
    """The files of tests that take samples, from the root of the checkout on."""
    using = [path for path in _TESTS.rglob("test_*.py") if _USE.search(path.read_text())]
    return sorted(path.relative_to(_TESTS.parent).as_posix() for path in using)
