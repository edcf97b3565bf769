"""An attacking client, and another client whose waits are measured."""

import contextlib
import gc
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from benchmarks.clients.raw import Address, percentile
from benchmarks.hostile import BY_NAME
from benchmarks.hostile.case import TIMEOUT_S, Ask, Attack, Target
from benchmarks.loop_meter import Hold
from benchmarks.meter import Meter
from benchmarks.wire import Connection, WireError
from minibroker_protocol.error_codes import ErrorCode
from tests.broker.harness import frame_of, response_of

_PAUSE_S = 0.002
_SETTLE_S = 0.05
_WITHOUT_ANSWER_S = 0.5
_PROBE = struct.pack(">ihhih", 10, 18, 0, 1, -1)


class _Probe:
    """Requests ApiVersions v0 on its own connection. `times` has each request's moment and the seconds it took."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._buffer = bytearray(65_536)
        self.times: list[tuple[float, float]] = []

    def ask_until(self, done: threading.Event, settle: float) -> None:
        """Send requests until `done` is set, and then for another `settle` seconds."""
        while not done.is_set():
            self._ask()
            time.sleep(_PAUSE_S)
        self.ask_for(settle)

    def ask_for(self, seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self._ask()
            time.sleep(_PAUSE_S)

    def _ask(self) -> None:
        begin = time.perf_counter()
        self._socket.sendall(_PROBE)
        got = self._receive(0)
        size = struct.unpack_from(">i", self._buffer)[0] + 4
        while got < size:
            got += self._receive(got)
        self.times.append((begin, time.perf_counter() - begin))

    def _receive(self, got: int) -> int:
        count = self._socket.recv_into(memoryview(self._buffer)[got:])
        if not count:
            raise WireError("the probe's connection was closed")
        return count


class _Attacker(threading.Thread):
    """Sends the attack. The probe can use this process's interpreter while the attack is in system calls."""

    def __init__(self, attack: Attack, frames: list[bytes], address: Address) -> None:
        super().__init__(daemon=True)
        self._attack = attack
        self._frames = frames
        self._sockets = [socket.create_connection(address, timeout=TIMEOUT_S) for _ in range(attack.connections)]
        self.responses: list[bytes] = []
        self.end = ""
        self.done = threading.Event()

    def run(self) -> None:
        try:
            if self._attack.is_answered:
                self._send_and_receive()
            else:
                self._send_what_is_taken()
        except TimeoutError:
            self.end = "no answer in time"
        except OSError:
            self.end = "closed"
        finally:
            self.done.set()

    def _send_and_receive(self) -> None:
        for each in self._sockets:
            reader = threading.Thread(target=self._receive, args=(each,))
            reader.start()
            try:
                for frame in self._frames:
                    each.sendall(frame)
            finally:
                reader.join()

    def _receive(self, source: socket.socket) -> None:
        try:
            if self._attack.at == "control":
                self.responses.append(b"".join(iter(lambda: source.recv(1 << 20), b"")))
                return
            for _ in self._frames:
                self.responses.append(_receive_response(source))
        except TimeoutError:
            self.end = "no answer in time"
        except OSError:
            self.end = "closed"

    def _send_what_is_taken(self) -> None:
        data = memoryview(b"".join(self._frames))
        for each in self._sockets:
            each.setblocking(False)
            sent, deadline = 0, time.monotonic() + 0.02
            while sent < len(data) and time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    sent += each.send(data[sent : sent + (1 << 20)])
        self.done.wait(_WITHOUT_ANSWER_S)


def _receive_response(source: socket.socket) -> bytes:
    """Return one complete response, including its length prefix."""
    data = bytearray()
    size = 4
    while len(data) < size:
        piece = source.recv(min(max(size - len(data), 4), 1 << 20))
        if not piece:
            raise ConnectionError("closed")
        data += piece
        if size == 4 and len(data) >= 4:  # the length itself
            size = 4 + int(struct.unpack_from(">i", data)[0])
    return bytes(data)


def attack(
    address: Address, pid: int, case: str, *, size: int, sasl: list[Any], control: list[Any], hold: str | None
) -> dict[str, Any]:
    """Return the probe's waits in ms while a case's requests are served, and the broker's costs.

    `cpu` is in ms, and `sent` in KB. `peak` and `left` are increases of memory in MB. `hold` is the longest turn of the
    event loop in CPU ms, if known. `outcome` summarizes the responses in one or two words.
    """
    chosen = BY_NAME[case]
    probe = _Probe(address)
    with Target(address, case[:24], tuple(control)) as target:
        made = chosen.make(target, size)
        with Connection(address) as connection:  # The broker may be configured to serve more.
            served = connection.api_keys()
        frames = list(made.frames) or [_framed(ask) for ask in made.asks]
        if unserved := {struct.unpack_from(">h", frame, 4)[0] for frame in frames if made.asks} - served:
            return {"outcome": f"not asked, it does not serve API key {', '.join(map(str, unserved))}"}
        gc.collect()
        gc.freeze()
        gc.disable()
        where = {"": address, "sasl": tuple(sasl), "control": tuple(control)}[made.at]
        attacker = _Attacker(made, frames, where)
        meter = Meter(pid)
        watched = Hold(Path(hold)) if hold else None
        probe.ask_for(_SETTLE_S)
        probe.times.clear()
        _forget_peak(pid)
        if watched:
            watched.reset()
        before, begun = meter.rss(), meter.cpu()
        attacker.start()
        probe.ask_until(attacker.done, _SETTLE_S)
        attacker.join()
        spent, left, peak = meter.cpu() - begun, meter.rss(), _peak(pid)
    waits = sorted(seconds * 1000 for _, seconds in probe.times)
    return {
        "p50": percentile(waits, 0.5),
        "p99": percentile(waits, 0.99),
        "longest": waits[-1],
        "cpu": spent * 1000,
        "sent": sum(map(len, frames)) * made.connections / 1000,
        "left": (left - before) / 1e6,
        **({"peak": (peak - before) / 1e6} if peak else {}),
        **({"hold": watched.longest * 1000} if watched else {}),
        "outcome": _outcome(made, attacker),
    }


def _framed(ask: Ask) -> bytes:
    frame = frame_of(ask.request, ask.version)
    return struct.pack(">i", len(frame)) + frame


def _forget_peak(pid: int) -> None:
    """Reset the peak of a process's memory that Linux records."""
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")


def _peak(pid: int) -> int:
    """Return the largest resident set in bytes since `_forget_peak`, or 0 if the system does not report it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _outcome(made: Attack, attacker: _Attacker) -> str:
    """Return the two most frequent error codes of the responses, or the way the attack ended if there were none."""
    if not made.is_answered:
        return "waits"
    if made.at == "control":
        return attacker.responses[0][:12].decode(errors="replace") if attacker.responses else attacker.end
    codes: Counter[str] = Counter()
    for ask, data in zip(made.asks, attacker.responses, strict=False):
        codes.update(_names(response_of(ask.request, ask.version, data)))
    if not made.asks and attacker.responses:
        codes["answered"] = len(attacker.responses)
    words = [f"{name} x{count:,}" if count > 1 else name for name, count in codes.most_common(2)]
    return ", ".join([*words, *([attacker.end] if attacker.end else [])]) or "answered"


def _names(response: Any) -> Iterator[str]:
    """Return the names of all error codes in a response."""
    for field in fields(response):
        value = getattr(response, field.name)
        if field.name.endswith("error_code"):
            yield ErrorCode(value).name
        elif isinstance(value, list):
            for each in value:
                if is_dataclass(each):
                    yield from _names(each)
