"""A disk that is full or broken under a whole broker: clients get errors, nothing is lost, and it goes on later."""

import errno
import functools
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minibroker_protocol.messages.produce import ProduceRequest
from tests.broker.harness import produce_request
from tests.broker.socket_client import SocketClient
from tests.sweeps import one_in
from tests.torture.broker import Broker
from tests.torture.campaign import options_for
from tests.torture.in_process import KAFKA_STORAGE_ERROR, NONE, TINY_TOPICS, Torture, are_explained, is_settled
from tests.torture.ledger import Ledger, new_ledger
from tests.torture.reading import read_log
from tests.torture.workload import Mint, Sent, Topic

ERRORS = [errno.ENOSPC, errno.EIO]


class Faults:
    """Stands before the system calls that change files, and lets some of them fail, or write less than they were given.

    A failing write may have written something before it fails, as a disk does that becomes full. Only the calls of
    the test's own thread are meant: brokers that several tests share write in theirs.
    """

    CHANGING = ("pwrite", "pwritev", "write", "ftruncate", "open", "rename", "replace", "unlink")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rng: random.Random) -> None:
        self._rng = rng
        self._thread = threading.get_ident()
        self._left: int | None = None
        self._failures = 0
        self.error = errno.ENOSPC
        self.failed = 0
        for name in filter(functools.partial(hasattr, os), self.CHANGING):
            monkeypatch.setattr(os, name, self._guarded(name, getattr(os, name)))

    @contextmanager
    def after(self, calls: int, *, failures: int, error: int) -> Iterator[None]:
        """Within the block, let so many calls pass and then so many fail."""
        self._left, self._failures, self.error = calls, failures, error
        try:
            yield
        finally:
            self._left = None

    def _guarded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            creates = name != "open" or arguments[1] & os.O_CREAT
            if threading.get_ident() != self._thread or not creates:
                return real(*arguments, **named)
            fails = self._fails_now()
            if name in {"pwrite", "pwritev"}:
                descriptor, given, position = arguments
                data = bytes(given) if name == "pwrite" else b"".join(map(bytes, given))
                if self._left is not None and len(data) > 1:
                    data = data[: self._rng.randint(1, len(data))]
                if not fails:
                    return os_pwrite(descriptor, data, position)
                os_pwrite(descriptor, data[: len(data) // 2], position)
            if fails:
                self.failed += 1
                raise OSError(self.error, os.strerror(self.error))
            return real(*arguments, **named)

        return call

    def _fails_now(self) -> bool:
        if self._left is None:
            return False
        self._left -= 1
        return -self._failures <= self._left < 0


os_pwrite = os.pwrite


@pytest.mark.parametrize("seed", one_in(6, range(12)))
def test_writes_that_fail_are_told_to_the_client_and_nothing_else_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    torture = Torture(tmp_path, TINY_TOPICS, seed)
    rng = torture.rng
    faults = Faults(monkeypatch, rng)
    refused = 0
    torture.greet()
    for _ in range(60):
        chosen = [rng.choice(torture.ledgers) for _ in range(rng.randint(1, 6))]
        batches = [(ledger, torture.mint_for(ledger)) for ledger in chosen]
        with faults.after(rng.randrange(12), failures=rng.randint(1, 6), error=rng.choice(ERRORS)):
            codes = torture.send(*batches)
            assert are_explained(batches, codes)
            if rng.random() < 0.3:
                torture.do_chores()
            for ledger in torture.ledgers:
                assert torture.view(ledger).end == ledger.acked_end
        failed = [batch for batch, code in zip(batches, codes, strict=True) if code]
        refused += len(failed)
        if rng.random() < 0.15:
            torture.reopen(clean=rng.random() < 0.5)
            torture.verify()
        torture.do_chores()
        failed = [(ledger, sent) for ledger, sent in failed if not is_settled(ledger, sent)]
        assert torture.send(*failed) == [NONE] * len(failed)
    assert refused > 10
    assert faults.failed > refused / 4
    torture.verify(looks=20)
    torture.check_files()
    torture.verify(looks=20)
    torture.close()


def test_a_flush_that_fails_is_told_until_the_log_is_opened_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync the kernel may have dropped what it could not write, and says so only once."""
    torture = Torture(tmp_path, [Topic("flushed", 1, {"flush.messages": "1"})], 1)
    (ledger,) = torture.ledgers
    torture.fill(ledger, 3)
    sent, following = torture.mint_for(ledger), torture.mint_for(ledger)
    failures: list[int] = []

    def broken(fd: int) -> None:
        failures.append(fd)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        assert torture.send((ledger, sent)) == [KAFKA_STORAGE_ERROR]
    assert failures
    assert torture.send((ledger, following)) == [KAFKA_STORAGE_ERROR]
    torture.verify()
    torture.reopen(clean=False)
    assert torture.send((ledger, sent), (ledger, following)) == [NONE, NONE]
    torture.fill(ledger, 2)
    torture.verify()
    torture.reopen(clean=False)
    torture.verify()
    torture.close()


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of another process can be set on Linux only")
@pytest.mark.parametrize("records", [1, 400])
def test_a_file_that_may_not_grow_is_an_error_until_it_may_again(tmp_path: Path, records: int) -> None:
    import resource  # noqa: PLC0415 - not on every system

    topic = Topic("full", 1, {}, most_records=records)
    ledger = new_ledger(topic, 0)
    mint = Mint(random.Random(1), int(time.time() * 1000))
    broker = Broker(tmp_path, options_for([topic]))
    broker.start()
    try:
        with SocketClient(broker.address) as client:
            send(client, ledger, mint, 20)
            hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)[1]
            size = (broker.data_dir / "full-0" / f"{0:020d}.log").stat().st_size
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (size + 1234, hard))
            refused = send(client, ledger, mint, 30 if records > 1 else 100)
            assert refused
            assert read_log(client, ledger).end == ledger.acked_end
            resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (hard, hard))
            for sent in refused:
                assert ask(client, produce_request(sent.data, "full")) == (NONE, ledger.acked_end)
                ledger.acked(sent, ledger.acked_end)
            assert not send(client, ledger, mint, 20)
            ledger.check(read_log(client, ledger))
        broker.end()
        broker.start()
        with SocketClient(broker.address) as client:
            ledger.check(read_log(client, ledger))
    finally:
        broker.end()


def send(client: SocketClient, ledger: Ledger, mint: Mint, count: int) -> Sequence[Sent]:
    """Produce batches until one is refused; returns that one."""
    for _ in range(count):
        sequence = ledger.acked_end
        sent = mint.batch(ledger.topic, producer_id=7, sequence=sequence)
        ledger.sent(sent)
        code, offset = ask(client, produce_request(sent.data, ledger.topic.name))
        if code:
            assert (code, offset) == (KAFKA_STORAGE_ERROR, -1)
            return [sent]
        ledger.acked(sent, offset)
    return []


def ask(client: SocketClient, request: ProduceRequest) -> tuple[int, int]:
    """(error code, base offset) of the one batch of a produce request."""
    (topic,) = client.ask(request, 9).responses
    (outcome,) = topic.partition_responses
    return outcome.error_code, outcome.base_offset
