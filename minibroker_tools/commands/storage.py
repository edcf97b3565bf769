"""kafka-storage: formats the data directories of a broker (`kafka.tools.StorageTool`)."""

import base64
import binascii
import os
import re
from collections.abc import Mapping, Sequence
from typing import Final

from minibroker_protocol.lazy_imports import lazy
from minibroker_protocol.primitives import new_uuid, uuid_text
from minibroker_tools.client.settings import load_properties
from minibroker_tools.failures import ToolError, UsageError
from minibroker_tools.options import Options, Values
from minibroker_tools.output import plural_suffix, write_line

with lazy:
    from minibroker.cluster import cluster_metadata, data_dir
    from minibroker.security import store
    from minibroker.security.sasl import scram

_METADATA_VERSION: Final = "3.9-IV0"
_META_PROPERTIES: Final = "meta.properties"
_SCRAM_PATTERN: Final = re.compile(r"(SCRAM-SHA-(?:256|512))=\[(.*)\]", re.DOTALL)
_DEFAULT_DIRECTORY: Final = "/tmp/kafka-logs"  # noqa: S108 - Kafka's own default


def declare_options(tool: str) -> Options:
    """Declare the options of kafka-storage."""
    options = Options(tool, "The Kafka storage tool: info, format or random-uuid.")
    options.value("config", "c", help="the broker's configuration", metavar="FILE")
    options.value("cluster-id", "t", help="the id of the cluster", metavar="ID")
    options.value("add-scram", "S", help="SCRAM-SHA-256=[name=alice,password=secret]", metavar="CREDENTIAL")
    options.flag("ignore-formatted", "g", help="skip directories that are already formatted")
    options.value("release-version", "r", help="accepted", metavar="VERSION")
    options.value("feature", "f", help="accepted", metavar="FEATURE=LEVEL")
    options.flag("standalone", "s", help="accepted")
    options.flag("no-initial-controllers", "N", help="accepted")
    options.value("initial-controllers", "I", help="accepted")
    return options


def run(options: Options, arguments: Sequence[str]) -> int:
    """Run the command given on the command line."""
    values = options.parse(arguments)
    command = values.words[0] if values.words else ""
    if command == "random-uuid":
        write_line(uuid_text(new_uuid()))
        return 0
    if command not in {"info", "format"}:
        raise UsageError("one of the commands info, format and random-uuid is required")
    if not values.has("config"):
        raise UsageError("argument --config/-c is required")
    properties = load_properties(values.text("config"))
    if command == "info":
        return _print_info(properties)
    if not values.has("cluster-id"):
        raise UsageError("argument --cluster-id/-t is required")
    _format_directories(values, properties)
    return 0


def _log_directories(properties: Mapping[str, str]) -> list[str]:
    text = properties.get("log.dirs") or properties.get("log.dir") or _DEFAULT_DIRECTORY
    directories = {part.strip() for part in text.split(",") if part.strip()}
    return sorted(directories | {properties["metadata.log.dir"]} if properties.get("metadata.log.dir") else directories)


def _format_directories(values: Values, properties: Mapping[str, str]) -> None:
    if not properties.get("process.roles"):
        raise ToolError(
            "The kafka configuration file appears to be for a legacy cluster. Formatting is only supported for "
            "clusters in KRaft mode."
        )
    node = properties.get("node.id", properties.get("broker.id", ""))
    if not node.isdecimal():
        raise ToolError("You must specify a valid non-negative node ID.")
    users = [_parse_credential(text) for text in values.all("add-scram")]
    directories = _log_directories(properties)
    formatted = [path for path in directories if os.path.exists(os.path.join(path, _META_PROPERTIES))]
    if formatted and not values.has("ignore-formatted"):
        raise ToolError(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    if len(formatted) == len(directories):
        write_line("All of the log directories are already formatted.")
    for path in sorted({*directories} - {*formatted}):
        write_line(f"Formatting metadata directory {path} with metadata.version {_METADATA_VERSION}.")
        _format_directory(path, int(node), values.text("cluster-id") or "", users)


def _format_directory(
    path: str, node_id: int, cluster_id: str, users: Sequence[tuple[str, str, dict[str, str]]]
) -> None:
    try:
        directory = data_dir.DataDir(path, node_id, cluster_id)
        try:
            credentials = store.ScramCredentials(cluster_metadata.ClusterMetadata(path))
            for mechanism, name, fields in users:
                iterations = int(fields.get("iterations", scram.MIN_ITERATIONS))
                salt = base64.b64decode(fields["salt"]) if "salt" in fields else None
                if "saltedpassword" in fields:
                    salted = base64.b64decode(fields["saltedpassword"])
                    credential = scram.derive_salted_credential(mechanism, salted, salt or b"", iterations)
                else:
                    password = fields["password"]
                    credential = scram.derive_credential(mechanism, password, iterations=iterations, salt=salt)
                credentials.alter({(mechanism, name): credential})
        finally:
            directory.release()
    except (OSError, ValueError) as error:
        raise ToolError(f"Error while writing meta.properties file {path}: {error}") from None


def _parse_credential(text: str) -> tuple[str, str, dict[str, str]]:
    """Parse an --add-scram value into the mechanism, the user and the settings.

    Raises:
        ToolError: The value is invalid. The message explains why.
    """
    match = _SCRAM_PATTERN.fullmatch(text)
    if match is None:
        raise ToolError(f"Failed to parse {text}: it is not SCRAM-SHA-256=[name=...,password=...]")
    fields = {
        key.strip(): value.strip().strip('"') for key, _, value in (p.partition("=") for p in match[2].split(","))
    }
    if not fields.get("name"):
        raise ToolError("You must supply 'name' to add-scram")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise ToolError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if "saltedpassword" in fields and "salt" not in fields:
        raise ToolError("You must supply 'salt' with 'saltedpassword' to add-scram")
    iterations = fields.get("iterations", str(scram.MIN_ITERATIONS))
    if not iterations.isdecimal() or int(iterations) < scram.MIN_ITERATIONS:
        raise ToolError(f"The 'iterations' value must be >= {scram.MIN_ITERATIONS} for add-scram using {match[1]}")
    for name in ("salt", "saltedpassword"):
        try:
            base64.b64decode(fields.get(name, ""), validate=True)
        except binascii.Error:
            raise ToolError(f"Failed to decode given {name}: {fields[name]}") from None
    return match[1], fields["name"], fields


def _print_info(properties: Mapping[str, str]) -> int:
    directories = _log_directories(properties)
    existing = [path for path in directories if os.path.isdir(path)]
    problems = [f"{path} is not a directory" for path in directories if path not in existing]
    metadata: dict[str, str] = {}
    for path in existing:
        if os.path.exists(os.path.join(path, _META_PROPERTIES)):
            metadata = load_properties(os.path.join(path, _META_PROPERTIES))
        else:
            problems.append(f"{path} is not formatted.")
    if existing:
        _print_section("Found log directory:" if len(existing) == 1 else "Found log directories:", existing)
    if metadata:
        _print_section(f"Found metadata: {{{', '.join(f'{key}={metadata[key]}' for key in sorted(metadata))}}}")
    if problems:
        _print_section(f"Found problem{plural_suffix(problems)}:", problems)
    return int(bool(problems))


def _print_section(title: str, lines: Sequence[str] = ()) -> None:
    write_line("\n".join([title, *(f"  {line}" for line in lines), ""]))
