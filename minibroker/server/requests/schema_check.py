"""The check that the records of producers have registered schemas (Confluent Server's schema ID validation)."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Final, TypeVar

from minibroker.cluster.topics import Topic
from minibroker.server.services import Services
from minibroker_protocol.errors import RecordError
from minibroker_protocol.records.record import Record
from minibroker_protocol.steps import Steps
from minibroker_registry import subjects
from minibroker_registry.schema import Parsed
from minibroker_registry.state import State
from minibroker_registry.values import SchemaId

_SETTINGS: Final = {
    "key": ("confluent.key.schema.validation", "confluent.key.subject.name.strategy"),
    "value": ("confluent.value.schema.validation", "confluent.value.subject.name.strategy"),
}
_BY_TOPIC: Final = "TopicNameStrategy"
_BY_RECORD: Final = "RecordNameStrategy"
_PREFIX_BYTES: Final = 5
_MAX_BYTES_ON_LOOP: Final = 16_384
"""A larger payload is decoded on a thread, since that can take over 2 microseconds per byte."""
_T = TypeVar("_T")
_PAUSE_S: Final = 0.001


class SchemaCheck:
    """Checks that keys and values have the ids of schemas under the right subjects. Null passes, as in Confluent's."""

    def __init__(self, topic: Topic, services: Services) -> None:
        config = topic.config
        self._topic = topic.name
        self._schemas = services.schemas
        self._background = services.core.background
        self._parsed: dict[SchemaId, Parsed] = {}
        self._decodes = config.broker.text("minibroker.schema.validation") == "full"
        self._strategies = {
            part: config.text(strategy).rpartition(".")[2]
            for part, (validation, strategy) in _SETTINGS.items()
            if config.boolean(validation)
        }

    def check(self, records: Sequence[Record], first: int) -> Steps[list[RecordError]]:
        """Return the errors of some records of a batch, where the first of them has the index `first`."""
        yield from self._schemas.update()
        errors: list[RecordError] = []
        for part, strategy in self._strategies.items():
            is_key = part == "key"
            valid: set[bytes] = set()
            for number, record in enumerate(records, first):
                data = record.key if is_key else record.value
                if data is None or (data[:_PREFIX_BYTES] in valid and not record.headers):
                    continue
                reason = yield from self._find_reason(record, data, strategy, is_key=is_key)
                if reason:
                    errors.append(RecordError(number, f"{part} of record {number}: {reason}"))
                elif strategy == _BY_TOPIC and not self._decodes:
                    valid.add(data[:_PREFIX_BYTES])
                yield
        return errors

    def _find_reason(self, record: Record, data: bytes, strategy: str, *, is_key: bool) -> Steps[str | None]:
        """Return why a key or value is refused, or None."""
        state = self._schemas.source.state
        subject = f"{self._topic}-{'key' if is_key else 'value'}" if strategy == _BY_TOPIC else None
        try:
            id_, payload = self._schemas.values.locate(data, record.headers, is_key=is_key)
            find = partial(self._schemas.values.find, data, record.headers, is_key=is_key)
            if subject is None:
                name = (yield from self._parse(id_, find)).record_name(payload)
                subject = f"{name}" if strategy == _BY_RECORD else f"{self._topic}-{name}"
            registered = _subjects_of(state, id_)
            if state.target_of(subject) not in registered:
                others = f"{', '.join(registered)} has it" if registered else "nor has any other"
                return f"the subject {subject} has no schema with the id {id_}; {others}"
            if self._decodes:
                decode = partial((yield from self._parse(id_, find)).decode, payload)
                if len(payload) <= _MAX_BYTES_ON_LOOP:
                    decode()
                else:
                    yield from self._run_on_thread(decode)
        except (ValueError, ModuleNotFoundError) as error:
            return f"{error} (the subject is {subject or f'chosen by {strategy}'})"
        return None

    def _parse(self, id_: SchemaId, find: Callable[[], tuple[SchemaId, Parsed, bytes]]) -> Steps[Parsed]:
        """Return the schema that `find` finds. Each schema is parsed once for all records of the request."""
        if id_ not in self._parsed:
            self._parsed[id_] = (yield from self._run_on_thread(find))[1]
        return self._parsed[id_]

    def _run_on_thread(self, work: Callable[[], _T]) -> Steps[_T]:
        """Call `work` on a thread, and return its result or raise its error."""
        future = Future[_T]()

        def run() -> None:
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - raised below
                future.set_exception(error)

        self._background(run)
        while not future.done():
            wait([future], _PAUSE_S)
            yield
        return future.result()


def _subjects_of(state: State, id_: SchemaId) -> list[str]:
    """Return the subjects that have a schema with this id or guid, in the default context."""
    number = id_ if isinstance(id_, int) else state.id_of(subjects.DEFAULT_CONTEXT, str(id_))
    versions = [] if number is None else state.versions_of_id(subjects.DEFAULT_CONTEXT, number)
    return [version.subject for version in versions if not version.is_deleted]
