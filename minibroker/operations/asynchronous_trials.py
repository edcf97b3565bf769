"""The objects of an `AsyncBroker` that try an application: chaos, and checks of what the application did."""

from typing import TYPE_CHECKING, Any, NoReturn, Self, Unpack

from minibroker.cluster.errors import NotFoundError, is_the_callers
from minibroker.operations.asynchronous_handles import Handle
from minibroker_protocol.lazy_imports import lazy

with lazy:
    from minibroker.operations import checking
    from minibroker_chaos import engine
    from minibroker_chaos import steps as chaos_steps
    from minibroker_chaos.check import results as check_results

if TYPE_CHECKING:
    # Imported for type checking only, to keep start-up fast.
    from collections.abc import Mapping, Sequence

    from minibroker.operations.asynchronous import AsyncOperations
    from minibroker.operations.checking import Topics
    from minibroker_chaos.check.pipeline import Matching
    from minibroker_chaos.check.results import CheckResult
    from minibroker_chaos.engine import Chaos
    from minibroker_chaos.steps import Step

__tracebackhide__ = is_the_callers


class AsyncChaos(Handle):
    """Chaos on an `AsyncBroker`, for a `with` block or for as long as the broker runs (docs/chaos.md)."""

    def __init__(
        self,
        broker: "AsyncOperations",
        seed: int | None,
        *,
        steps: "Sequence[Step] | Mapping[str, Any] | None",
        **choices: Any,
    ) -> None:
        super().__init__(broker)
        self._seed = seed
        self._given = None if steps is None else chaos_steps.from_json(steps)
        self._choices = choices
        self._engine: Chaos | None = None

    @property
    def _chaos(self) -> "Chaos":
        chaos: Chaos | None = self._engine or self._services.chaos
        if chaos is None:
            raise NotFoundError(
                "there is no chaos: `with broker.chaos(seed=8):` begins one, and so does Broker(chaos=8)"
            )
        return chaos

    @property
    def steps(self) -> "list[Step]":
        """The misbehaviours so far. Under stored steps they are those that happened."""
        return list(self._chaos.steps)

    @property
    def is_felt(self) -> bool:
        """Whether a client has reacted to a misbehaviour. Otherwise the run has shown nothing."""
        return self._chaos.is_felt

    @property
    def met(self) -> tuple[int, int, int]:
        """The numbers of stored steps that happened exactly, at a later attempt, and not at all."""
        return self._chaos.met

    def report(self) -> list[str]:
        """Return the run in lines of text: the seed, the misbehaviours, and what clients did next."""
        return self._chaos.report()

    def to_json(self) -> dict[str, Any]:
        """Return a document of the steps that `broker.chaos(steps=...)` repeats."""
        chaos = self._chaos
        return chaos_steps.to_json(chaos.steps, chaos.seed, chaos.profile)

    async def settle(self) -> None:
        """Begin the quiet phase: nothing new goes wrong, and all that is held or late is applied."""
        self._chaos.settle()
        await self._services.core.cluster.wait_until_settled()

    async def start(self, *, replace: bool = False) -> None:
        """Begin to misbehave, as a `with` block does. With `replace`, end the chaos that is running first.

        Raises:
            ChaosError: The arguments are invalid.
        """
        chaos = engine.Chaos(self._services, self._seed, steps=self._given, **self._choices)
        if replace and self._services.chaos is not None:
            self._services.chaos.stop()
        chaos.start()
        self._engine = chaos

    async def stop(self) -> None:
        """Settle, and end the chaos. The steps stay readable."""
        chaos = self._engine = self._chaos
        chaos.stop()
        await self._services.core.cluster.wait_until_settled()

    async def __aenter__(self) -> Self:
        """Begin to misbehave."""
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        """End the chaos."""
        await self.stop()

    def __enter__(self) -> NoReturn:
        """Raise TypeError, because chaos of an `AsyncBroker` needs `async with`."""
        raise TypeError("chaos of an AsyncBroker takes `async with broker.chaos(...):`")

    def __exit__(self, *exception: object) -> None:
        """Do nothing. Python looks this method up before it calls `__enter__`, but never calls it."""


class AsyncCheck(Handle):
    """Checks of an application, by what an `AsyncBroker` saw of it (docs/checks.md).

    Each compares topics that the application reads (`inputs`) with those that it writes (`outputs`). A record of an
    input has an id, and its output has the same one: `key` is a function of a record that returns it, or one of "key",
    "value", "header:NAME" and "json:FIELD". `output_key` is for outputs, if it differs there. `expected` says which ids
    the outputs of an input have, if it is not one output with its own id: a function of the input, or a dict by its id.
    `group` is the group that reads the inputs. Without it, all groups that read them count. `instances` has the
    client id of the producer for that of each consumer, unless both differ in the words consumer and producer only.

    A check returns its result, or raises CheckFailedError if it finds something or cannot decide.
    """

    async def no_loss(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that each input has its outputs."""
        return await self.run("no_loss", inputs, outputs, **about)

    async def no_duplicates(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that no output is visible twice, which at-least-once applications cannot promise."""
        return await self.run("no_duplicates", inputs, outputs, **about)

    async def order_by_key(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that outputs with a key are first visible in the order of their inputs."""
        return await self.run("order_by_key", inputs, outputs, **about)

    async def exactly_once(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that exactly the inputs below the committed offsets have outputs, each once, for read_committed."""
        return await self.run("exactly_once", inputs, outputs, **about)

    async def no_commit_ahead(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that no offset was committed before the outputs of the inputs below it were in the log."""
        return await self.run("no_commit_ahead", inputs, outputs, **about)

    async def no_zombie_writes(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check that no instance wrote outputs after another had taken over their partition."""
        return await self.run("no_zombie_writes", inputs, outputs, **about)

    async def all(self, inputs: "Topics", outputs: "Topics", **about: "Unpack[Matching]") -> "CheckResult":
        """Check what every application has to keep, in one result.

        That is no_loss, no_commit_ahead and commits_do_not_go_back, and exactly_once if all outputs are transactional.
        """
        return await self.run("all", inputs, outputs, **about)

    async def commits_do_not_go_back(self, inputs: "Topics", *, group: str | None = None) -> "CheckResult":
        """Check that no member commits a lower offset after a higher one."""
        return await self.run("commits_do_not_go_back", inputs, group=group)

    async def caught_up(
        self,
        group: str,
        topic: str | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the API
    ) -> "CheckResult":
        """Check that a group reads and commits everything within the timeout, in seconds."""
        patience = self._broker.patience if timeout is None else timeout
        return _raise_unless_passed(await checking.check_caught_up(self._services, group, topic, patience))

    async def run(
        self, check: str, inputs: "Topics" = (), outputs: "Topics" = (), **about: "Unpack[Matching]"
    ) -> "CheckResult":
        """Run the check with this name, such as "no_loss".

        Raises:
            CheckFailedError: the check has found something, or could not decide.
            OperationError: there is no such check, topic or key.
        """
        return _raise_unless_passed(await checking.run_check(self._services, check, inputs, outputs, about))


def _raise_unless_passed(result: "CheckResult") -> "CheckResult":
    if result.outcome != "passed":
        raise check_results.CheckFailedError(result)
    return result
