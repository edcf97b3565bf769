"""Steps: the misbehaviours of one run, in words and in JSON. A run can be repeated from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple, cast

from minibroker.cluster.errors import OperationError

VERSION: Final = 1
"""The version of the points and the decisions. Steps and seeds of another version mean something else."""

DEFAULT_PROFILE: Final = "default"
NOT_FELT: Final = "nothing"
NOT_EXERCISED: Final = "not exercised: "


class ChaosError(OperationError):
    """An invalid argument of chaos, or steps that cannot be read."""


class Point(NamedTuple):
    """A moment of a run at which a misbehaviour can happen.

    Attributes:
        name: What the client does, in words that are the same in each run of the same program.
        attempt: The number of times that the name was met before.
    """

    name: str
    attempt: int


@dataclass
class Step:
    """A misbehaviour that happened, or that is to happen again.

    Attributes:
        row: The name of the misbehaviour.
        point: The name of the point.
        attempt: The attempt at this point, from 0 on.
        parameters: The strength of the misbehaviour, such as `delay_ms`.
        number: The number of the request, or 0 for a step that has not happened.
        felt: What the client did next, or "nothing".
    """

    row: str
    point: str
    attempt: int = 0
    parameters: dict[str, int] = field(default_factory=dict[str, int])
    number: int = 0
    felt: str = NOT_FELT

    @property
    def is_felt(self) -> bool:
        """Whether the client reacted."""
        return self.felt != NOT_FELT

    @property
    def key(self) -> tuple[str, str, int, tuple[tuple[str, int], ...]]:
        """What makes the step the same in another run."""
        return self.row, self.point, self.attempt, tuple(sorted(self.parameters.items()))

    def __str__(self) -> str:
        strength = "".join(f", {name.replace('_', ' ')} {value}" for name, value in self.parameters.items())
        attempt = f", attempt {self.attempt + 1}" if self.attempt else ""
        felt = f"; the client {self.felt}" if self.is_felt else ""
        at = f"request {self.number}: " if self.number else ""
        return f"{at}{self.row}{strength} at {self.point}{attempt}{felt}"

    def pending(self) -> Step:
        """Return the step without what happened."""
        return replace(self, parameters=dict(self.parameters), number=0, felt=NOT_FELT)


def to_json(steps: Iterable[Step], seed: int | None = None, profile: str | None = None) -> dict[str, Any]:
    """Return a document that `from_json` reads."""
    return {"chaos": VERSION, "seed": seed, "profile": profile, "steps": [asdict(step) for step in steps]}


def from_json(document: object) -> list[Step]:
    """Return the steps of a document, or of a list.

    Raises:
        ChaosError: The document has another version or an invalid field.
    """
    if isinstance(document, Sequence):
        return [step if isinstance(step, Step) else _read_step(step) for step in cast("Sequence[object]", document)]
    if not isinstance(document, Mapping) or "steps" not in document:
        raise ChaosError("steps: this is no document with the steps of a run under chaos")
    fields = cast("Mapping[str, Any]", document)
    version = fields.get("chaos")
    if version != VERSION:
        raise ChaosError(
            f"chaos: these steps are of version {version!r}, and this minibroker has version {VERSION}. "
            "Its points have other names, so run the seeds again and store new steps"
        )
    if not isinstance(fields["steps"], list):
        raise ChaosError("steps: this is no list")
    return from_json(cast("list[object]", fields["steps"]))


_BLANK: Final = Step("", "")


def _read_step(data: object) -> Step:
    fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
    try:
        step = Step(**fields)
    except TypeError:
        raise ChaosError(f"steps: {data!r} has not the fields of a step") from None
    for name, value in cast("dict[str, object]", fields).items():
        numbers = cast("dict[str, Any]", value).values() if isinstance(value, dict) else ()
        if not isinstance(value, getattr(_BLANK, name).__class__) or any(type(number) is not int for number in numbers):
            raise ChaosError(f"steps: {name}: {value!r} is not valid")
    return step


def parse_seed(text: int | str | None) -> tuple[int, str] | None:
    """Return the seed and the profile of "SEED" or "SEED:PROFILE", or None.

    Raises:
        ChaosError: This is no seed.
    """
    if text is None:
        return None
    number, _, profile = str(text).partition(":")
    try:
        return int(number), profile or DEFAULT_PROFILE
    except ValueError:
        raise ChaosError(f"chaos: {text!r} is not a seed such as 7, or 7:failovers") from None


def describe_no_effect(seed: int | None) -> str:
    """Return the line of a report on a run that no client felt, with the seed if it chose nothing."""
    if seed is None:
        return f"{NOT_EXERCISED}no client reacted to a misbehaviour"
    return f"{NOT_EXERCISED}seed {seed} drew nothing for the requests that came; take another seed, or send more"
