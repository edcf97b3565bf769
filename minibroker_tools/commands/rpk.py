"""rpk: those commands of Redpanda's tool that Compose files and Testcontainers use. They work with any broker."""

import argparse
import json
import re
import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn
from urllib.parse import quote

from minibroker_tools.client.groups import DEAD, delete_group, describe_group, list_groups
from minibroker_tools.client.offsets import LATEST, fetch_committed_offsets, list_offsets
from minibroker_tools.commands.rpk_topics import (
    PROFILES,
    add_command,
    add_topic_commands,
    cluster_of,
    parse_settings,
    print_columns,
    print_section,
    read_profiles,
    request_admin_api,
)
from minibroker_tools.failures import ApiError, ToolError, UsageError
from minibroker_tools.options import KAFKA_VERSION
from minibroker_tools.output import flush, write_error_line, write_line

_USERS: Final = "/v1/security/users"
_CONFIG: Final = "/v1/cluster_config"
_OFFSET_OPTIONS: Final = ("-o", "--offset")
_BOOLEAN_FLAG: Final = re.compile(r"(--?[a-z-]+)=(true|false)")
_PAUSE_S: Final = 1.0


class _Parser(argparse.ArgumentParser):
    """An argparse parser that raises an exception instead of exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError instead of exiting with status 2."""
        raise UsageError(f"{self.prog}: {message}")


class Rpk:
    """The command line of rpk. It has the methods of `Options` that `dispatch` needs."""

    tool = "rpk"

    def __init__(self) -> None:
        self._parser = _Parser(prog="rpk", description="rpk's commands for clusters and topics, for any broker.")
        commands = self._parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
        cluster = commands.add_parser("cluster", help="health, info, config, license set").add_subparsers(
            dest="action", required=True
        )
        for name in ("info", "metadata", "status"):
            add_command(cluster, name, _print_info)
        health = add_command(cluster, "health", _watch_health)
        health.add_argument("-e", "--exit-when-healthy", action="store_true", help="exit once the cluster is healthy")
        health.add_argument("-w", "--watch", action="store_true", help="print the health whenever it changes")
        config = cluster.add_parser("config").add_subparsers(required=True, metavar="ACTION")
        for name, work in (("get", _get_property), ("set", _set_property)):
            add_command(config, name, work).add_argument("words", nargs="+", metavar="KEY [VALUE]")
        license_set = add_command(cluster.add_parser("license").add_subparsers(required=True), "set", _refuse_license)
        license_set.add_argument("--path", metavar="FILE")
        license_set.add_argument("words", nargs="*", metavar="LICENSE")
        profiles = commands.add_parser("profile", help="create, set, use, delete").add_subparsers(required=True)
        for action in ("create", "set", "use", "delete"):
            profile = profiles.add_parser(action)
            profile.set_defaults(work=_change_profile, action=action)
            profile.add_argument("words", nargs="+", metavar="KEY=VALUE" if action == "set" else "NAME")
            profile.add_argument("-s", "--set", action="append", dest="settings", default=[], metavar="KEY=VALUE")
        self._commands = commands.choices
        topic = commands.add_parser("topic", help="create, list, describe, delete, produce, consume")
        add_topic_commands(topic.add_subparsers(dest="action", required=True))
        group = commands.add_parser("group", help="list, describe, delete")
        groups = group.add_subparsers(dest="action", required=True, metavar="ACTION")
        for name in ("list", "ls"):
            add_command(groups, name, _list_groups)
        for name, work in (("describe", _describe_groups), ("delete", _delete_groups)):
            add_command(groups, name, work).add_argument("groups", nargs="+", metavar="GROUP")
        for name in ("acl", "security"):
            words = commands.add_parser(name, help="user create, list, delete").add_subparsers(required=True)
            users = words.add_parser("user").add_subparsers(dest="action", required=True)
            for action, work in (("create", _create_user), ("list", _list_users), ("delete", _delete_user)):
                parser = add_command(users, action, work, has_login=False)
                if action != "list":
                    parser.add_argument("user", metavar="USER")
                if action == "create":
                    parser.add_argument("-p", "--password", "--new-password", required=True)
                    parser.add_argument("-m", "--mechanism", default="SCRAM-SHA-256")
        commands.add_parser("version", help="the version").set_defaults(work=_print_version)

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a command line. Flags common to all commands may come before the command.

        Raises:
            UsageError: The command line is invalid.
        """
        words: list[str] = []
        command_index = next((index for index, word in enumerate(arguments) if word in self._commands), 0)
        for word in (*arguments[command_index:], *arguments[:command_index]):
            # Go programs also accept boolean flags with a value, such as --flag=true.
            if (switch := _BOOLEAN_FLAG.fullmatch(word)) is not None:
                words += [switch[1]] if switch[2] == "true" else []
            elif words and words[-1] in _OFFSET_OPTIONS and re.match(r"-\d", word):
                # Join the option and its value because argparse would treat -1 as another option.
                words[-1] += f"={word}" if words[-1].startswith("--") else word
            else:
                words.append(word)
        return self._parser.parse_args(words)

    def print_usage(self) -> None:
        """Print the commands to standard error."""
        write_error_line(self._parser.format_help())


def declare_options(_tool: str) -> Rpk:
    """Return the command line of rpk."""
    return Rpk()


def run(options: Rpk, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    if list(arguments[:2]) == ["redpanda", "start"]:
        raise ToolError(
            "rpk redpanda start starts a broker in minibroker's container image; here it is minibroker serve"
        )
    try:
        parsed = options.parse(arguments)
    except SystemExit:  # argparse has printed the help for --help.
        return 0
    status: int = parsed.work(parsed)
    return status


def _print_version(_arguments: argparse.Namespace) -> int:
    write_line(f"Version:     minibroker-tools, for brokers up to Kafka {KAFKA_VERSION}")
    return 0


def _print_info(arguments: argparse.Namespace) -> int:
    """Print the cluster, its brokers and its topics. An asterisk marks the controller."""
    with cluster_of(arguments) as cluster:
        topics = sorted(cluster.metadata().topics, key=lambda topic: topic.name or "")
        print_section("CLUSTER")
        write_line(f"{cluster.cluster_id}\n")
        print_section("BROKERS")
        controller_id = cluster.controller_id
        brokers = [
            (f"{broker.node_id}{'*' * (broker.node_id == controller_id)}", broker.host, broker.port)
            for broker in cluster.brokers()
        ]
        print_columns([("ID", "HOST", "PORT"), *brokers])
        if topics:
            write_line()
            print_section("TOPICS")
            counts = [(topic.name, len(topic.partitions), len(topic.partitions[0].replica_nodes)) for topic in topics]
            print_columns([("NAME", "PARTITIONS", "REPLICAS"), *counts])
    return 0


def _watch_health(arguments: argparse.Namespace) -> int:
    """Print the cluster's health as reported by the admin API.

    As in rpk, the exit status is 1 if the API cannot be reached, but 0 for an unhealthy cluster.
    """
    last_shown = None
    while True:
        try:
            health: dict[str, Any] = request_admin_api(arguments, "/v1/cluster/health_overview")
        except ToolError:
            if not arguments.exit_when_healthy:
                raise
            time.sleep(_PAUSE_S)
            continue
        if health != last_shown:
            _print_health(health)
            flush()
        last_shown = health
        if health["is_healthy"] if arguments.exit_when_healthy else not arguments.watch:
            return 0
        time.sleep(_PAUSE_S)


def _print_health(health: dict[str, Any]) -> None:
    def words(key: str) -> str:
        return f"[{' '.join(map(str, health[key]))}]"

    lines = {
        "Healthy": str(health["is_healthy"]).lower(),
        "Unhealthy reasons": words("unhealthy_reasons"),
        "Controller ID": health["controller_id"],
        "All nodes": words("all_nodes"),
        "Nodes down": words("nodes_down"),
        f"Leaderless partitions ({health['leaderless_count']})": words("leaderless_partitions"),
        f"Under-replicated partitions ({health['under_replicated_count']})": words("under_replicated_partitions"),
    }
    print_section("CLUSTER HEALTH OVERVIEW")
    for name, value in lines.items():
        write_line(f"{name + ':':34}{value}")


def _create_user(arguments: argparse.Namespace) -> int:
    content = {"username": arguments.user, "password": arguments.password, "algorithm": arguments.mechanism.upper()}
    request_admin_api(arguments, _USERS, "POST", content)
    write_line(f'Created user "{arguments.user}".')
    return 0


def _list_users(arguments: argparse.Namespace) -> int:
    print_columns([("USERNAME",), *((user,) for user in request_admin_api(arguments, _USERS))])
    return 0


def _delete_user(arguments: argparse.Namespace) -> int:
    request_admin_api(arguments, f"{_USERS}/{quote(arguments.user, safe='')}", "DELETE")
    write_line(f'Deleted user "{arguments.user}".')
    return 0


def _get_property(arguments: argparse.Namespace) -> int:
    values: dict[str, object] = request_admin_api(arguments, _CONFIG)
    for name in arguments.words:
        if name not in values:
            raise ToolError(f"rpk cluster config get {name}: not found; minibroker has {', '.join(values)}")
        write_line(json.dumps(values[name]).strip('"'))
    return 0


def _set_property(arguments: argparse.Namespace) -> int:
    name, equals, value = "=".join(arguments.words).partition("=")
    if not equals:
        raise ToolError(f"rpk cluster config set {name}: a value is missing; give KEY VALUE")
    change = {"upsert": {name: None if value == "null" else value}} if value else {"remove": [name]}
    answer: dict[str, Any] = request_admin_api(arguments, _CONFIG, "PUT", change)
    for ignored in answer.get("ignored", ()):
        write_error_line(f"no effect: {ignored}={value}; minibroker does not have this property of Redpanda")
    write_line(f"Successfully updated configuration. New configuration version is {answer['config_version']}.")
    return 0


def _refuse_license(_arguments: argparse.Namespace) -> int:
    write_error_line("no effect: minibroker has no feature that takes a license")
    return 0


def _change_profile(arguments: argparse.Namespace) -> int:
    """Create, change, select or delete a profile, which keeps settings of -X for later commands."""
    action, content = arguments.action, read_profiles()
    profiles: dict[str, dict[str, str]] = content["profiles"]
    name = content["current"] if action == "set" else arguments.words.pop(0)
    if (name in profiles) == (action == "create"):
        raise ToolError(
            f"rpk profile {action}: the profile {name!r} " + ("exists" if name in profiles else "is missing")
        )
    arguments.settings += arguments.words
    profiles[name] = {**profiles.get(name, {}), **parse_settings(arguments)}
    if action == "delete":
        del profiles[name]
    content["current"] = name if name in profiles else ""
    PROFILES.parent.mkdir(parents=True, exist_ok=True)
    PROFILES.write_text(json.dumps(content), encoding="utf-8")
    write_line(f"Profile {name!r}: {action} succeeded.")
    return 0


def _list_groups(arguments: argparse.Namespace) -> int:
    with cluster_of(arguments) as cluster:
        coordinators = [
            (cluster.coordinator_node(listing.group_id).node_id, listing.group_id, listing.group_state)
            for listing in list_groups(cluster)
        ]
        print_columns([("BROKER", "GROUP", "STATE"), *sorted(coordinators)])
    return 0


def _describe_groups(arguments: argparse.Namespace) -> int:
    failed = False
    with cluster_of(arguments) as cluster:
        for group in arguments.groups:
            description = describe_group(cluster, group)
            failed |= description.state == DEAD
            committed = fetch_committed_offsets(cluster, group)
            readers = {partition: member for member in description.members for partition in member.partitions}
            partitions = sorted({*committed, *readers})
            results = list_offsets(cluster, dict.fromkeys(partitions, LATEST))
            ends = {partition: end if isinstance(end, int) else -1 for partition, end in results.items()}
            lags = {partition: max(0, ends[partition] - offset) for partition, offset in committed.items()}
            head = {
                "GROUP": group,
                "COORDINATOR": cluster.coordinator_node(group).node_id,
                "STATE": description.state,
                "BALANCER": description.strategy,
                "MEMBERS": len(description.members),
                "TOTAL-LAG": sum(lags.values()),
            }
            for name, value in head.items():
                write_line(f"{name:<13}{value}".rstrip())
            write_line()
            rows = [
                (
                    *partition,
                    committed.get(partition, "-"),
                    ends[partition],
                    lags.get(partition, "-"),
                    readers[partition].member_id if partition in readers else "",
                )
                for partition in partitions
            ]
            if rows:
                columns = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "MEMBER-ID")
                print_columns([columns, *rows])
    return int(failed)


def _delete_groups(arguments: argparse.Namespace) -> int:
    rows: list[tuple[str, str]] = []
    with cluster_of(arguments) as cluster:
        for group in arguments.groups:
            try:
                delete_group(cluster, group)
            except ApiError as error:
                rows.append((group, f"{error.code.name}: {error.message}"))
            else:
                rows.append((group, "OK"))
    print_columns([("GROUP", "STATUS"), *rows])
    return int(any(status != "OK" for _, status in rows))
