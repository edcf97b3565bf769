"""Crashes of the machine: what was acknowledged of topics, configurations, quotas, rights and users is there later.

A broker in this process is loaded with changes of metadata, whose fsyncs run late and in rounds. At some system call it
dies with its machine: under load, while it starts or while it stops. `CrashDisk` tells what that leaves on disk. Then
the next broker has to start on it, with everything as it was acknowledged or as a later request wanted it.
"""

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from minibroker.cluster import data_dir as data_dir_module
from minibroker_protocol.messages.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from minibroker_protocol.messages.client_quotas import (
    AlterClientQuotasRequest,
    AlterEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from minibroker_protocol.messages.configs import (
    IncrementalAlterConfigsRequest,
    IncrementallyAlteredConfig,
    IncrementallyAlteredResource,
)
from minibroker_protocol.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from minibroker_protocol.messages.topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicState,
)
from minibroker_protocol.messages.transactions import InitProducerIdRequest
from minibroker_storage.data_directory import lock as directory_lock
from tests.broker.harness import Harness, Pending, batch
from tests.torture.crash_disk import CrashDisk
from tests.torture.ledger import TortureError
from tests.torture.steps import Killed

KEPT: Final = "kept"
"""A topic that is never deleted: its records have to stay, too."""
_NAMES: Final = ("a", "b", "c")
_USERS: Final = ("alice", "bob")
_CONFIG: Final = {
    "log.segment.bytes": "2000",
    "log.retention.ms": "-1",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
_TURNS: Final = 60
_LONG_MS: Final = 400_000
_TOPIC: Final = 2
_EXACTLY: Final = 0
_NEW: Final = ""
"""In the place of an unknown topic id."""
_QUOTA: Final = "producer_byte_rate"
_SHA_256: Final = 1
_SHA_256_BYTES: Final = 32
_GROUP, _LITERAL, _READ, _ALLOW, _ANY = 3, 3, 3, 3, 1
"""Numbers of ACLs, as in Kafka's `ResourceType`, `PatternType`, `AclOperation` and `AclPermissionType`."""
State = tuple[str, int, str] | float | None
"""A topic's id, number of partitions and largest batch; a quota; a credential's iterations; 1 for a rule.

None: there is none.
"""


class Promises:
    """The possible values of each key: the acknowledged state, and the states that were requested since."""

    def __init__(self) -> None:
        self._possible: dict[str, list[State]] = {}
        self._dropped: Counter[str] = Counter()
        self._ids: set[str] = set()

    def ask(self, key: str, state: State) -> Callable[[], None]:
        """A change was asked for; returns what notes that it was acknowledged."""
        states = self._possible.setdefault(key, [None])
        states.append(state)
        number = self._dropped[key] + len(states) - 1

        def acknowledged() -> None:
            gone = number - self._dropped[key]
            if gone > 0:
                del states[:gone]
                self._dropped[key] += gone

        return acknowledged

    def name(self, key: str, state: State) -> None:
        """The topic that was asked for last is there now, with an id."""
        self._possible[key][-1] = state
        self._note_id(state)

    def latest(self, key: str) -> State:
        """The state of the broker."""
        return self._possible.get(key, [None])[-1]

    def check(self, key: str, found: State) -> None:
        """Hold what was found against what may be; it is acknowledged from now on. `TortureError`."""
        states = self._possible.get(key, [None])
        self._dropped[key] = 0
        if _is_promised(found, states):
            self._possible[key] = [found]
        elif self._is_adopted(found, states[1:]):  # which is not on disk yet
            self._possible[key] = [*states, found]
        else:
            raise TortureError(f"{key}: {found} was found, but one of {states} was promised")
        self._note_id(found)

    def _is_adopted(self, found: State, asked: list[State]) -> bool:
        """Whether directories alone can tell of a topic that was not acknowledged: some of its partitions.

        Its configuration is lost then, and so may be its id.
        """
        return isinstance(found, tuple) and any(
            isinstance(each, tuple)
            and (each[0] in {found[0], _NEW} or found[0] not in self._ids)
            and found[1] <= each[1]
            and not found[2]
            for each in asked
        )

    def _note_id(self, state: State) -> None:
        if isinstance(state, tuple):
            self._ids.add(state[0])


def _is_promised(found: State, states: list[State]) -> bool:
    """Whether a state is among those that may be. Of a topic that was never seen the id is not known."""
    unnamed = (_NEW, *found[1:]) if isinstance(found, tuple) else found
    return found in states or unnamed in states


class MachineCrashes:
    """Crashes on one data directory. All that is random comes from `seed`. `TortureError`."""

    def __init__(self, directory: Path, seed: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.data_dir = directory / "data"
        self.counts: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._disk = CrashDisk(self.data_dir, directory / "graveyard", self._rng)
        self._promises = Promises()
        self._rounds: list[tuple[Callable[[], None], Callable[[], None] | None]] = []
        self._producer_ids: set[int] = set()
        self._records = 0
        self._harness: Harness | None = None

    def run(self, crashes: int) -> Counter[str]:
        """So many crashes, and a last look; returns what was done and found."""
        try:
            while self.counts["crashes"] < crashes:
                self._live(self._rng.choice([30, 100, 400, 400, 400]))
            self._live(None)
        except Exception as error:
            error.add_note(f"after {self.counts['crashes']} crashes, in {self.data_dir}")
            raise
        finally:
            self._release()
        self.counts.update(self._disk.damage)
        return self.counts

    def _live(self, most_calls: int | None) -> None:
        """One life of the machine, which ends within so many calls, or with a clean stop."""
        at = None if most_calls is None else self._rng.randrange(most_calls)
        boot = f"boot-{self.counts['crashes']}"
        with patch.object(data_dir_module, "boot_id", lambda: boot):
            try:
                with self._disk.watched(at):
                    self._serve()
            except Killed:
                self.counts["crashes"] += 1
                self._release()
                self._disk.crash()
            else:
                self.counts["clean stops"] += 1

    def _serve(self) -> None:
        self._rounds.clear()

        def later(_: Harness, work: Callable[[], None], then: Callable[[], None] | None = None) -> None:
            self._rounds.append((work, then))

        with patch.object(Harness, "_background", later):
            harness = self._harness = Harness(str(self.data_dir), _CONFIG)
        harness.run_soon()
        self._check(harness)
        for _ in range(_TURNS):
            self._turn(harness)
        while self._rounds:
            self._sync(harness)
        harness.close()

    def _turn(self, harness: Harness) -> None:
        rng = self._rng
        if self._promises.latest(f"topic {KEPT}") is None:
            self._create(harness, KEPT)
        else:
            actions, weights = zip(*self._actions(), strict=True)
            rng.choices(actions, weights)[0](harness)
        if self._rounds and rng.random() < 0.4:
            self._sync(harness)

    def _actions(self) -> list[tuple[Callable[[Harness], None], int]]:
        """The steps of a turn, each with its share of a hundred."""
        rng = self._rng
        name, user = rng.choice(_NAMES), rng.choice(_USERS)
        return [
            (lambda harness: self._create(harness, name), 17),
            (lambda harness: self._grow(harness, name), 8),
            (lambda harness: self._delete(harness, name), 7),
            (lambda harness: self._alter(harness, rng.choice((*_NAMES, KEPT))), 10),
            (lambda harness: self._limit(harness, user), 8),
            (lambda harness: self._permit(harness, user), 7),
            (lambda harness: self._credit(harness, user), 7),
            (self._take_producer_id, 8),
            (self._append, 10),
            (self._wait, 5),
            (lambda _: None, 13),
        ]

    def _append(self, harness: Harness) -> None:
        if harness.core.topics.get(KEPT):
            assert harness.produce(batch(b"v" * 100), KEPT).error_code == 0
            self._records += 1

    def _wait(self, harness: Harness) -> None:
        harness.clock.advance(_LONG_MS)
        harness.run_soon()

    def _sync(self, harness: Harness) -> None:
        work, then = self._rounds.pop(0)
        work()
        if then is not None:
            then()
        harness.run_soon()

    # Requests

    def _ask(self, harness: Harness, request: Any, version: int, acked: Callable[[], None]) -> None:
        answer = harness.send(request, version)
        if not isinstance(answer, Pending):
            acked()
            return
        deliver = answer._delayed.deliver
        self.counts["answers held"] += 1

        def delivered(response: Any) -> None:
            deliver(response)
            acked()

        answer._delayed.deliver = delivered

    def _create(self, harness: Harness, name: str) -> None:
        if harness.core.topics.get(name) is not None:
            return
        partitions, size = self._rng.randint(1, 3), str(self._rng.randint(1, 9) * 1_000_000)
        config = CreatableTopicConfig(name="max.message.bytes", value=size)
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=[config])
        acked = self._promises.ask(f"topic {name}", (_NEW, partitions, size))
        self._ask(harness, CreateTopicsRequest(topics=[topic]), 7, acked)
        made = _topic(harness, name)
        assert made is not None
        self._promises.name(f"topic {name}", made)

    def _delete(self, harness: Harness, name: str) -> None:
        if harness.core.topics.get(name) is not None:
            acked = self._promises.ask(f"topic {name}", None)
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1000)
            self._ask(harness, request, 6, acked)

    def _alter(self, harness: Harness, name: str) -> None:
        before = _topic(harness, name)
        if before is None:
            return
        size = str(self._rng.randint(1, 9) * 1_000_000)
        resource = IncrementallyAlteredResource(
            resource_type=_TOPIC,
            resource_name=name,
            configs=[IncrementallyAlteredConfig(name="max.message.bytes", config_operation=0, value=size)],
        )
        acked = self._promises.ask(f"topic {name}", (*before[:2], size))
        self._ask(harness, IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1, acked)

    def _limit(self, harness: Harness, user: str) -> None:
        value = self._rng.choice([None, float(self._rng.randint(1, 9) * 1_000_000)])
        operation = OpData(key=_QUOTA, value=value or 0, remove=value is None)
        entity = EntityData(entity_type="user", entity_name=user)
        request = AlterClientQuotasRequest(
            entries=[AlterEntryData(entity=[entity], ops=[operation])], validate_only=False
        )
        self._ask(harness, request, 1, self._promises.ask(f"user {user}", value))

    def _grow(self, harness: Harness, name: str) -> None:
        before = _topic(harness, name)
        if before is None:
            return
        count = before[1] + self._rng.randint(1, 2)
        topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
        acked = self._promises.ask(f"topic {name}", (before[0], count, before[2]))
        self._ask(harness, CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 2, acked)

    def _permit(self, harness: Harness, user: str) -> None:
        """A rule comes, or goes if it is there."""
        key = f"rule {user}"
        if self._promises.latest(key) is None:
            rule = AclCreation(
                resource_type=_GROUP,
                resource_name="g",
                resource_pattern_type=_LITERAL,
                principal=f"User:{user}",
                host="*",
                operation=_READ,
                permission_type=_ALLOW,
            )
            self._ask(harness, CreateAclsRequest(creations=[rule]), 3, self._promises.ask(key, 1.0))
        else:
            filters = [
                DeleteAclsFilter(
                    resource_type_filter=_GROUP,
                    resource_name_filter="g",
                    pattern_type_filter=_LITERAL,
                    principal_filter=f"User:{user}",
                    host_filter=None,
                    operation=_ANY,
                    permission_type=_ANY,
                )
            ]
            self._ask(harness, DeleteAclsRequest(filters=filters), 3, self._promises.ask(key, None))

    def _credit(self, harness: Harness, user: str) -> None:
        """A credential comes, changes or goes."""
        key = f"credential {user}"
        iterations = self._rng.choice([None, self._rng.randint(4096, 16_384)])
        if iterations is None and self._promises.latest(key) is None:
            return
        gone = [ScramCredentialDeletion(name=user, mechanism=_SHA_256)] if iterations is None else []
        come = (
            []
            if iterations is None
            else [
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=_SHA_256,
                    iterations=iterations,
                    salt=b"salt" * 4,
                    salted_password=bytes(_SHA_256_BYTES),
                )
            ]
        )
        state = None if iterations is None else float(iterations)
        request = AlterUserScramCredentialsRequest(deletions=gone, upsertions=come)
        self._ask(harness, request, 0, self._promises.ask(key, state))

    def _take_producer_id(self, harness: Harness) -> None:
        for _ in range(self._rng.choice([*[1] * 15, 1100])):  # more than a block of them now and then
            given = harness.send(
                InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4
            ).producer_id
            if given in self._producer_ids:
                raise TortureError(f"producer id {given} was given out twice")
            self._producer_ids.add(given)

    # What has to be there

    def _check(self, harness: Harness) -> None:
        for name in (KEPT, *_NAMES):
            self._promises.check(f"topic {name}", _topic(harness, name))
        for user in _USERS:
            self._promises.check(f"user {user}", _quota(harness, user))
            self._promises.check(f"rule {user}", _rule(harness, user))
            self._promises.check(f"credential {user}", _credential(harness, user))
        if harness.core.topics.get(KEPT) is not None:
            answer = harness.fetch_one(0, KEPT, partition_max_bytes=1)
            assert answer.error_code == 0, answer
            found = answer.high_watermark
            if found != self._records:
                raise TortureError(f"{KEPT} has {found} records, but {self._records} were acknowledged")
        self.counts["starts"] += 1

    def _release(self) -> None:
        """Let go of what the kernel takes from a process that is gone."""
        for descriptor in list(directory_lock._held_locks):
            lock = directory_lock.DirectoryLock.__new__(directory_lock.DirectoryLock)
            lock.fd = descriptor
            lock.release()
        if self._harness is not None:
            for handle in tuple(self._harness.core.files._open):
                handle.close()
            self._harness = None


def _topic(harness: Harness, name: str) -> tuple[str, int, str] | None:
    topic = harness.core.topics.get(name)
    if topic is None:
        return None
    return topic.id.hex(), len(topic.partitions), topic.config.overrides.get("max.message.bytes", "")


def _quota(harness: Harness, user: str) -> float | None:
    component = ComponentData(entity_type="user", match_type=_EXACTLY, match=user)
    answer = harness.ask(DescribeClientQuotasRequest(components=[component], strict=True), 1)
    return next((value.value for entry in answer.entries or () for value in entry.values), None)


def _rule(harness: Harness, user: str) -> float | None:
    """1 if the user has the rule."""
    request = DescribeAclsRequest(
        resource_type_filter=_GROUP,
        resource_name_filter="g",
        pattern_type_filter=_LITERAL,
        principal_filter=f"User:{user}",
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    found = [rule for resource in harness.ask(request, 3).resources for rule in resource.acls]
    if found and [(rule.operation, rule.permission_type) for rule in found] != [(_READ, _ALLOW)]:
        raise TortureError(f"rule {user}: {found}")
    return 1.0 if found else None


def _credential(harness: Harness, user: str) -> float | None:
    """The iterations of the user's credential."""
    answer = harness.ask(DescribeUserScramCredentialsRequest(users=[UserName(name=user)]), 0)
    return next((float(each.iterations) for result in answer.results for each in result.credential_infos), None)
