"""One round of `make torture ARGS=fuzz` for each configuration with fixed seeds."""

from pathlib import Path

import pytest

from tests.sweeps import one_in
from tests.torture.fuzz.broker import CONFIGURATIONS
from tests.torture.fuzz.campaign import run

_SEED = 24
_REQUESTS = 140
"""Two of each API."""


@pytest.mark.parametrize("number", one_in(4, range(len(CONFIGURATIONS))), ids=[each.name for each in CONFIGURATIONS])
def test_hostile_requests_leave_no_error_and_a_broker_that_serves(tmp_path: Path, number: int) -> None:
    findings = run(tmp_path, _SEED + number, rounds=1, requests=_REQUESTS)
    assert not findings.faults, "\n".join(findings.faults.values())
    assert findings.counts["requests"] > _REQUESTS
    assert findings.counts["answered" if number != 2 else "closed"] > 0
