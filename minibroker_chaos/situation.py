"""What a misbehaviour acts on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from minibroker.server.requests.call import Call
    from minibroker.server.requests.declarations import Target
    from minibroker.server.services import Services
    from minibroker_chaos.points import Occasion, Points
    from minibroker_chaos.steps import Step


class Held(Protocol):
    """What a misbehaviour holds until `end` is called."""

    def end(self) -> None:
        """Release what is held."""
        ...


class Host(Protocol):
    """The part of the engine that misbehaviours use."""

    points: Points

    @property
    def old_view(self) -> object | None:
        """The broker whose metadata is frozen, or None."""
        ...

    def hold(self, held: Held, at: Situation, target: Target, limit_s: float = ...) -> None:
        """Hold something until a target has had the step's number of `requests`, or for `limit_s` seconds at most."""
        ...


class Situation(NamedTuple):
    """What a row acts on: an occasion, with the request at hand.

    Attributes:
        chaos: What runs the misbehaviours.
        occasion: The point and its target.
        request: The request.
        call: Its context.
        client_id: The client id, or None.
        step: The step that happens if the row acts.
    """

    chaos: Host
    occasion: Occasion
    request: Any
    call: Call
    client_id: str | None
    step: Step

    @property
    def parameters(self) -> dict[str, int]:
        """The strength of the misbehaviour."""
        return self.step.parameters

    @property
    def target(self) -> Target:
        """The partition, group or transactional id."""
        return self.occasion.target

    @property
    def services(self) -> Services:
        """The services of the broker."""
        return self.call.services

    @property
    def group(self) -> str | None:
        """The group of the request, the one that the client was seen to join, or the only one."""
        return self.chaos.points.group_of(self.target, self.client_id)
