"""Samples of sweeps: `make test` takes a part of the cases, the same one each time, and `make torture` takes them all.

A sweep is a test over many generated cases. Its sample has a fixed seed, so that a failure comes again.
"""

import os
import re
from pathlib import Path
from typing import Final

from hypothesis import settings

SWEEPS: Final = "MINIBROKER_SWEEPS"
"""The environment's name for how much of a sweep is taken; "whole" is all of it."""
WHOLE: Final = os.environ.get(SWEEPS) == "whole"

_USE: Final = re.compile(r"^from tests\.samples import .*\b(examples|part|WHOLE)\b", re.MULTILINE)
_TESTS: Final = Path(__file__).parent


def part(whole: int, sample: int) -> int:
    """How many cases a sweep with a seed of its own takes: `whole`, or the first `sample` of them."""
    return whole if WHOLE else sample


def examples(whole: int, sample: int) -> settings:
    """A decorator for a test of Hypothesis: `sample` examples, always the same, or `whole` ones of another seed."""
    return settings(max_examples=part(whole, sample), derandomize=not WHOLE, deadline=None)


def swept_files() -> list[str]:
    """The files of tests that take samples, from the root of the checkout on."""
    using = [path for path in _TESTS.rglob("test_*.py") if _USE.search(path.read_text())]
    return sorted(path.relative_to(_TESTS.parent).as_posix() for path in using)
