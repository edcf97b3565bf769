"""The broker as Python programs use it: in this process, for as long as a `with` block lasts."""

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from minibroker.broker.asynchronous import AsyncBroker
from minibroker.cluster.cluster import ClusterError
from minibroker.cluster.errors import (
    ASKED_FROM,
    BLOCKED_LOOP,
    NOT_RUNNING,
    MinibrokerWarning,
    NotRunningError,
    OperationError,
    UnexpectedRecordError,
    WaitTimeoutError,
    callers_line,
    is_ours,
    is_the_callers,
    loop_runs_here,
    warn_if_loop_waits,
)
from minibroker.operations.blocking import BlockingOperations
from minibroker.operations.options import BrokerOptions, by_name

if TYPE_CHECKING:
    # Most brokers have no logins.
    from minibroker.security.setup import Security

T = TypeVar("T")

__tracebackhide__ = is_the_callers

_LOOK_AGAIN: Final = 1.0
"""Seconds after which a waiting thread checks whether the broker's thread is still there."""


class Broker(BlockingOperations):
    """A broker that real clients connect to.

        with Broker() as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    It runs on its own thread, from `with` or `start` on. `async with` runs it on your event loop and returns the
    `AsyncBroker`, which has the same methods as coroutines.

    Its options, all by name, are those of `BrokerOptions`; TypeError, ValueError or ConfigError names an invalid one.
    """

    @by_name
    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        self._asynchronous = AsyncBroker(**options)
        for remark in self._asynchronous.remarks():
            warnings.warn_explicit(remark, MinibrokerWarning, *callers_line())
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration, with commas between those of several brokers."""
        return self._asynchronous.bootstrap_servers

    def bootstrap_servers_of(self, listener: str) -> str:
        """The addresses of another listener than the first. ValueError for an unknown one."""
        return self._asynchronous.bootstrap_servers_of(listener)

    @property
    def security(self) -> "Security":
        """The `security` argument, which configures clients. RuntimeError if none was given."""
        return self._asynchronous.security

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) that the broker listens on. RuntimeError unless it runs."""
        return self._asynchronous.address

    @property
    def control_url(self) -> str:
        """The address of the HTTP control plane. RuntimeError unless there is one, and the broker runs."""
        return self._asynchronous.control_url

    @property
    def page_url(self) -> str:
        """The address of the lab's web page. RuntimeError unless there is one, and the broker runs."""
        return self._asynchronous.page_url

    @property
    def data_dir(self) -> str:
        """The directory of the logs. RuntimeError before the broker has run with a temporary directory."""
        return self._asynchronous.data_dir

    @property
    def is_running(self) -> bool:
        """Whether the broker runs."""
        return self._thread is not None or self._asynchronous.is_running

    @property
    def asynchronous(self) -> AsyncBroker:
        """The broker on its own loop."""
        return self._asynchronous

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread, and wait for it. RuntimeError unless it runs there.

        MinibrokerWarning when that takes over a second in a thread whose event loop has to wait along.
        """
        thread = self._thread
        if thread is None or self._loop is None or thread is threading.current_thread():
            work.close()
            raise self._unable_to_wait()
        asked_from = ASKED_FROM.set(callers_line())
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # the loop is closed: another thread has stopped it just now
            work.close()
            raise NotRunningError("the broker was stopped") from None
        finally:
            ASKED_FROM.reset(asked_from)
        try:
            return _result(future, thread)
        except CancelledError:
            raise NotRunningError("the broker was stopped") from None
        except WaitTimeoutError as error:
            hint = f"\n{BLOCKED_LOOP}" if loop_runs_here() else ""
            raise WaitTimeoutError(f"{error}{hint}") from error.__cause__
        except (OperationError, UnexpectedRecordError, NotRunningError, ClusterError) as error:
            # Its own frames do not help, and would hide the caller's line.
            raise error.with_traceback(None) from error.__cause__
        except BaseException:  # such as KeyboardInterrupt, which ends the wait
            future.cancel()
            raise

    def _unable_to_wait(self) -> NotRunningError:
        """Why nothing can be asked of it, or not from this thread."""
        if self._thread is not None:
            return NotRunningError("this is the broker's own thread, which cannot wait for itself")
        if self._asynchronous.is_running:
            return NotRunningError(
                "`async with` runs the broker on your event loop and gives an AsyncBroker, whose methods are awaited: "
                "`async with broker as kafka: await kafka.produce(...)`"
            )
        return NotRunningError(NOT_RUNNING)

    def start(self) -> None:
        """Start. When it returns, clients can connect, and the topics of the options exist. RuntimeError if it runs."""
        if self.is_running:
            raise RuntimeError("the broker is running")
        started: threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(started, failure)), name="minibroker", daemon=True
        )
        self._thread.start()
        try:
            started.wait()
        except BaseException:  # such as KeyboardInterrupt: no `__exit__` follows a failed `__enter__`
            started.wait()
            if not failure:
                self.stop()
            raise
        if failure:
            self._thread.join()
            self._thread = None
            (error,) = failure
            if isinstance(error, OSError) or is_ours(type(error).__module__):
                error = error.with_traceback(None)  # the message says all, and the thread's lines would hide it
            raise error

    def stop(self) -> None:
        """Stop: close connections and logs, and remove a temporary directory. A stopped broker stays so."""
        thread = self._thread
        if thread is None:
            return
        assert self._loop is not None
        assert self._stop is not None
        with contextlib.suppress(RuntimeError):  # the loop is closed: another thread has stopped it just now
            self._loop.call_soon_threadsafe(self._stop.set)
        thread.join()
        self._thread = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> AsyncBroker:
        if self._thread is not None:
            raise RuntimeError("the broker is running")
        return await self._asynchronous.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._asynchronous.__aexit__(exc_type, exc, trace)

    async def _run(self, started: threading.Event, failure: list[BaseException]) -> None:
        """The life of the thread: start, wait for the end, stop."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._asynchronous.owns_loop = True
        try:
            await self._asynchronous.start()
        except BaseException as error:  # noqa: BLE001 - handed to the thread that asked
            failure.append(error)
            await self._asynchronous.stop()
            return
        finally:
            self._asynchronous.owns_loop = False  # the next one may be the caller's
            started.set()
        await self._stop.wait()
        await self._asynchronous.stop()


def _result(future: "Future[T]", thread: threading.Thread) -> T:
    """The result of a call on another thread. RuntimeError when the thread ends before."""
    is_warned = False
    while True:
        try:
            return future.result(_LOOK_AGAIN)
        except TimeoutError:
            if future.done():  # it may be the work's own, or be done by now
                return future.result()
            if not thread.is_alive():  # its loop has ended with this in its queue
                raise NotRunningError("the broker was stopped") from None
            if not is_warned:
                warn_if_loop_waits()
                is_warned = True
