"""The broker for Python programs. It runs in the program's own process, for the duration of a `with` block."""

import asyncio
import contextlib
import threading
import warnings
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from minibroker.broker.asynchronous import AsyncBroker
from minibroker.cluster import errors
from minibroker.cluster.cluster import ClusterError
from minibroker.config.event_loops import LOOP_FACTORY
from minibroker.operations.blocking import BlockingOperations
from minibroker.operations.options import BrokerOptions, accept_options_by_name

if TYPE_CHECKING:
    # Imported for type checking only, because most brokers have no logins.
    from minibroker.security.setup import Security

T = TypeVar("T")

__tracebackhide__ = errors.is_the_callers

_CHECK_INTERVAL_S: Final = 1.0
"""Seconds between the checks by which a waiting thread notices that the broker's thread has ended."""


class Broker(BlockingOperations):
    """A broker for real clients.

        with Broker() as broker:
            producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    The broker runs on its own thread, from `with` or `start` on. `async with` runs it on your event loop and
    returns the `AsyncBroker`, which has the same methods as coroutines.

    The options are the keyword arguments of `BrokerOptions`. An invalid option raises TypeError, ValueError or
    ConfigError. The message names the option.
    """

    @accept_options_by_name
    def __init__(self, **options: Unpack[BrokerOptions]) -> None:
        self._asynchronous = AsyncBroker(**options)
        for remark in self._asynchronous.remarks():
            warnings.warn_explicit(remark, errors.MinibrokerWarning, *errors.callers_line())
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    @property
    def bootstrap_servers(self) -> str:
        """HOST:PORT for a client's configuration. The addresses of several brokers are separated by commas."""
        return self._asynchronous.bootstrap_servers

    def bootstrap_servers_of(self, listener: str) -> str:
        """Return the HOST:PORT of each broker on an additional listener, separated by commas.

        Args:
            listener: The name of the listener, from the `listeners` option.

        Raises:
            ValueError: there is no such listener.
        """
        return self._asynchronous.bootstrap_servers_of(listener)

    @property
    def security(self) -> "Security":
        """The `security` argument, for the configuration of clients. Raises RuntimeError if none was given."""
        return self._asynchronous.security

    @property
    def address(self) -> tuple[str, int]:
        """The (host, port) on which the broker listens. Raises RuntimeError if the broker is not running."""
        return self._asynchronous.address

    @property
    def control_url(self) -> str:
        """The address of the HTTP control plane. Raises RuntimeError if there is none or the broker is not running."""
        return self._asynchronous.control_url

    @property
    def page_url(self) -> str:
        """The address of the lab's web page. Raises RuntimeError if there is none or the broker is not running."""
        return self._asynchronous.page_url

    @property
    def registry_url(self) -> str:
        """The address of the schema registry. Raises RuntimeError if there is none or the broker is not running."""
        return self._asynchronous.registry_url

    @property
    def data_dir(self) -> str:
        """The log directory. Raises RuntimeError if it is temporary and does not exist at the moment."""
        return self._asynchronous.data_dir

    @property
    def is_running(self) -> bool:
        """Whether the broker is running."""
        return self._thread is not None or self._asynchronous.is_running

    @property
    def asynchronous(self) -> AsyncBroker:
        """The wrapped `AsyncBroker` on its own event loop."""
        return self._asynchronous

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the broker's thread and return its result.

        Issue a MinibrokerWarning if the call takes over a second and blocks an event loop that runs in the calling
        thread.

        Raises:
            RuntimeError: the broker is not running on its own thread, or the caller is on that thread.
            TypeError: `work` is not a coroutine.
        """
        if not asyncio.iscoroutine(work):
            raise TypeError(f"wait runs a coroutine, and {work!r} is none; `wait_for(topic)` waits for records")
        thread = self._thread
        if thread is None or self._loop is None or thread is threading.current_thread():
            work.close()
            raise self._wait_refusal()
        asked_from = errors.ASKED_FROM.set(errors.callers_line())
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:  # Another thread has just stopped the broker and closed the loop.
            work.close()
            raise errors.NotRunningError("the broker was stopped") from None
        finally:
            errors.ASKED_FROM.reset(asked_from)
        try:
            return _wait_for_result(future, thread)
        except CancelledError:
            raise errors.NotRunningError("the broker was stopped") from None
        except errors.WaitTimeoutError as error:
            hint = f"\n{errors.BLOCKED_LOOP}" if errors.loop_runs_here() else ""
            raise errors.WaitTimeoutError(f"{error}{hint}") from error.__cause__
        except (errors.OperationError, errors.FailedExpectationError, errors.NotRunningError, ClusterError) as error:
            # Clear the traceback, because internal frames would hide the caller's line.
            raise error.with_traceback(None) from error.__cause__
        except BaseException:  # After an exception such as KeyboardInterrupt, nobody waits for the result.
            future.cancel()
            raise

    def _wait_refusal(self) -> errors.NotRunningError:
        """Return the reason why this thread cannot wait for the broker."""
        if self._thread is not None:
            return errors.NotRunningError("this is the broker's own thread, which cannot wait for itself")
        if self._asynchronous.is_running:
            return errors.NotRunningError(
                "`async with` runs the broker on your event loop and gives an AsyncBroker, whose methods are awaited: "
                "`async with broker as kafka: await kafka.produce(...)`"
            )
        return errors.NotRunningError(errors.NOT_RUNNING)

    def start(self) -> None:
        """Start the broker. On return, clients can connect, and the topics given as options exist.

        Raises:
            RuntimeError: the broker is already running.
        """
        if self.is_running:
            raise RuntimeError("the broker is running already")
        started: threading.Event = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run_loop, args=(started, failure), name="minibroker", daemon=True)
        self._thread.start()
        try:
            started.wait()
        # Stop the broker here, because Python does not call `__exit__` after a failed `__enter__`.
        except BaseException:
            started.wait()
            if not failure:
                self.stop()
            raise
        if failure:
            self._thread.join()
            self._thread = None
            (error,) = failure
            if isinstance(error, OSError) or errors.is_ours(type(error).__module__):
                # The error's message suffices, and a traceback of the broker's thread would hide it.
                error = error.with_traceback(None)
            raise error

    def stop(self) -> None:
        """Stop the broker: close connections and logs, and remove a temporary directory.

        Does nothing if the broker is not running.
        """
        thread = self._thread
        if thread is None:
            return
        assert self._loop is not None
        assert self._stop is not None
        with contextlib.suppress(RuntimeError):  # The call fails if another thread has already closed the loop.
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
            raise RuntimeError("the broker is running already")
        return await self._asynchronous.__aenter__()

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._asynchronous.__aexit__(exc_type, exc, trace)

    def _run_loop(self, started: threading.Event, failure: list[BaseException]) -> None:
        with asyncio.Runner(loop_factory=LOOP_FACTORY) as runner:
            runner.run(self._run(started, failure))

    async def _run(self, started: threading.Event, failure: list[BaseException]) -> None:
        """Run the broker on this thread until `stop` is called."""
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
            self._asynchronous.owns_loop = False  # Reset the flag, because the next start may use the caller's loop.
            started.set()
        await self._stop.wait()
        await self._asynchronous.stop()


def _wait_for_result(future: "Future[T]", thread: threading.Thread) -> T:
    """Wait for the result of a call on another thread.

    Raises:
        NotRunningError: the thread ended first.
    """
    is_warned = False
    while True:
        try:
            return future.result(_CHECK_INTERVAL_S)
        except TimeoutError:
            if future.done():  # The work has just ended, or it raised this TimeoutError itself.
                return future.result()
            if not thread.is_alive():  # The broker's loop ended before it ran the call.
                raise errors.NotRunningError("the broker was stopped") from None
            if not is_warned:
                errors.warn_if_loop_waits()
                is_warned = True
