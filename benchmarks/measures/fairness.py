"""The waits of one client while another client sends a hostile or merely large request.

A probe sends ApiVersions on its own connection, 2 ms after each response. Meanwhile, another client sends the requests
of the case. `hold` is the longest turn of minibroker's event loop in CPU time, which other processes on the machine do
not affect. It must stay below 200 ms. Each case has a new broker.
"""

from benchmarks.hostile import CASES
from benchmarks.hostile.case import Case
from benchmarks.model import Bench, Figure, Measure, Numbers
from benchmarks.peers import KafkaPeer, KfakePeer, MockPeer

_NOT_MOCKED = "the mock cluster serves too few APIs"
_NO_SETTINGS = "kfake runs without logins, control plane and several brokers"
_MOST_HOLD_MS = 200.0


def _figures(name: str) -> tuple[Figure, ...]:
    return (
        Figure(f"{name}.hold", "longest hold", "CPU ms", value=_MOST_HOLD_MS),
        Figure(f"{name}.cpu", "CPU", "ms", decimals=0),
        Figure(f"{name}.p50", "wait p50", "ms", decimals=2),
        Figure(f"{name}.p99", "wait p99", "ms", decimals=1),
        Figure(f"{name}.longest", "longest wait", "ms", decimals=1),
        Figure(f"{name}.sent", "sent", "KB", decimals=0),
        Figure(f"{name}.peak", "memory, peak", "MB", decimals=1),
        Figure(f"{name}.left", "memory, left", "MB", decimals=1),
    )


def _measure(case: Case) -> Measure:
    name = f"fairness-{case.name}"

    def run(bench: Bench) -> Numbers:
        peer = bench.peer
        got = bench.client(
            "fairness.attack",
            timeout=400,
            case=case.name,
            size=max(case.size // bench.scale.hostile_share, 1),
            sasl=peer.sasl_address,
            control=peer.control_address,
            hold=str(peer.hold_file) if peer.hold_file.exists() else None,
        )
        bench.busy = 0.0
        return {f"{name}.{key}": value for key, value in got.items()}

    left_out = {MockPeer.name: _NOT_MOCKED, KfakePeer.name: _NO_SETTINGS} | (
        {KafkaPeer.name: case.alone} if case.alone else {}
    )
    return Measure(name, _figures(name), run, "once", case.broker, case.title, left_out)


MEASURES = tuple(map(_measure, CASES))
