"""Write the response types of the four clients from the control plane's OpenAPI document: `make clients`.

OpenAPI Generator renders one template per language. It is run through Maven and needs Java. gofmt and rustfmt then
format the Go and Rust files. The types of requests, errors and payloads are written by hand.

The first line of each file has a digest of the file's sources. A file whose digest is current is left unchanged.
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from minibroker_control.plane import make_app

FOLDER: Final = Path(__file__).parent
VERSION: Final = "7.10.0"
"""The version of OpenAPI Generator."""
_REFERENCE: Final = "#/components/schemas/"
BY_HAND: Final = frozenset({"Fault", "Fields", "Payload", "Quota"})
"""Types that requests also use, and those that JSON Schema leaves unspecified."""


@dataclass(frozen=True, slots=True)
class Language:
    """The generator settings for the client library of one language."""

    generator: str
    """OpenAPI Generator's name for the language."""

    file: str
    """The path of the generated file, relative to this folder."""

    types: Mapping[str, str]
    """The language's types by type and format of JSON Schema."""

    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """The client's names of objects that have another name in the document."""

    by_hand: frozenset[str] = frozenset()
    """Objects that are not generated."""

    spellings: Mapping[str, str | Callable[[re.Match[str]], str]] = field(default_factory=dict)
    """Replacements in the generator's output, by regular expression, applied in this order."""

    formatter: tuple[str, ...] = ()


def _with_older_constructor(record: re.Match[str]) -> str:
    """Add the constructor that a Java record had before its last component was introduced."""
    begin, name, components, end = record.groups()
    names = re.findall(r"(\w+)(?:,$|\Z)", components, re.MULTILINE)
    parameters = " ".join(components.split())
    return f"""{begin}{components}{end}{{
        public {name}({parameters}) {{
            this({", ".join(names)}, null);
        }}
    }}"""


LANGUAGES: Final = {
    "go": Language(
        "go",
        "go/answers.go",
        {
            "integer": "int",
            "integer+int16": "int",
            "integer+uint32": "int",
            "integer+uint64": "int",
            "number": "float64",
        },
        {"GroupIds": "GroupIDs"},
        frozenset({"FaultHits"}),  # FaultHits is written by hand, because it embeds InstalledFault.
        {r"Id ": "ID ", r"Api ": "API ", r"Url ": "URL ", r"\*Fields": "map[string]any"},
        ("gofmt", "-w"),
    ),
    "java": Language(
        "java",
        "java/src/main/java/minibroker/control/Answers.java",
        {"integer+int16": "Integer", "integer+uint32": "Integer", "integer+uint64": "Long", "number": "Double"},
        {"Record": "ConsumedRecord"},
        spellings={
            # The template puts `~` before types that are never null, which become primitive types.
            "~Integer": "int",
            "~?ModelLong": "long",
            "~(Long|Double|Boolean)": lambda match: match[1].lower(),
            "~": "",
            r"\bFault ": "Map<String, Object> ",
            r"\b(Fields|Payload) ": "Object ",
            r"(record (\w+)\(\n)([^)]*)(,\s+(?:String rack|List<String> warnings)\) )\{\}": _with_older_constructor,
        },
    ),
    "node": Language(
        "typescript-fetch",
        "node/answers.d.ts",
        {f"integer+{name}": "number" for name in ("int16", "uint32", "uint64")},
        {"Record": "ConsumedRecord"},
        # These two are written by hand: FaultHits extends InstalledFault, and Record has a type parameter.
        frozenset({"FaultHits", "Record"}),
        {r"Array<(\w+)>": r"\1[]", r"\b(Fields( . null)?|Payload);": lambda match: "any;" if match[2] else "unknown;"},
    ),
    "rust": Language(
        "rust",
        "rust/src/answers.rs",
        {"integer+int16": "i16", "integer+uint32": "u32", "integer+uint64": "u64"},
        spellings={
            "models::": "",
            "std::collections::HashMap": "BTreeMap",
            r"\bFields\b": "Map<String, Value>",
            r"\bPayload\b": "Shown",
        },
        formatter=("rustfmt",),
    ),
}


def answers() -> dict[str, Any]:
    """Return the OpenAPI document reduced to the responses that clients read, with named types for untyped values.

    Optional fields come after the required ones.
    """
    document = make_app(None).openapi()
    schemas: dict[str, Any] = document["components"]["schemas"]
    names = set(_response_schemas(document))
    response_schemas = {
        name: schema
        for name, schema in schemas.items()
        if name in names - BY_HAND and (name == "Status" or len(schema.get("properties", {})) > 1)
    } | {name: {"type": "object", "properties": {}} for name in BY_HAND}
    for schema in response_schemas.values():
        # A field with a default is present in each response, so it counts as required.
        required = [
            *schema.get("required", []),
            *(name for name, field_schema in schema["properties"].items() if field_schema.get("default")),
        ]
        schema["required"] = required
        schema["properties"] = {
            name: _named(name, field_schema)
            for name, field_schema in sorted(schema["properties"].items(), key=lambda item: item[0] not in required)
        }
    return {
        **document,
        "paths": {
            f"/{name}": {"get": {"responses": {"200": {"description": "", "content": {"application/json": {
                "schema": {"$ref": _REFERENCE + name}}}}}}}
            for name in response_schemas
        },
        "components": {"schemas": response_schemas},
    }  # fmt: skip


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    if name == "fault":
        kind = "Fault"
    elif "type" in schema or "anyOf" in schema or "$ref" in schema:
        return schema
    else:
        kind = "Fields" if name in {"request", "response"} else "Payload"
    reference: dict[str, Any] = {"$ref": _REFERENCE + kind}
    is_null = name in {"request", "response"} or (name == "fault" and "type" not in schema)
    named = {"anyOf": [reference, {"type": "null"}]} if is_null else {"allOf": [reference]}
    return {**named, "description": schema.get("description", "")}


def _response_schemas(document: Mapping[str, Any]) -> Iterator[str]:
    schemas = document["components"]["schemas"]
    visited: set[str] = set()
    parts: list[Any] = [
        response
        for item in document["paths"].values()
        for operation in item.values()
        for status, response in operation["responses"].items()
        if status[0] not in "45"
    ]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            name = part.get("$ref", "").removeprefix(_REFERENCE)
            if name and name not in visited:
                visited.add(name)
                yield name
                parts.append(schemas[name])
            parts += part.values()
        elif isinstance(part, list):
            parts += part


def digest(language: str) -> str:
    """Return the digest of a language's sources that the first line of its generated file contains."""
    template = (FOLDER / f"templates/{language}.mustache").read_bytes()
    sources = [json.dumps(answers()["components"], sort_keys=True).encode(), template, Path(__file__).read_bytes()]
    return hashlib.sha256(b"\n".join(sources)).hexdigest()[:16]


def is_current(language: str) -> bool:
    """Return whether a client's file was generated from the current sources."""
    with (FOLDER / LANGUAGES[language].file).open() as file:
        return digest(language) in file.readline()


def _generate(name: str, jar: Path) -> None:
    language = LANGUAGES[name]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "document.json").write_text(json.dumps(answers()))
        settings = {
            "generatorName": language.generator,
            "inputSpec": str(folder / "document.json"),
            "outputDir": str(folder),
            "templateDir": str(FOLDER / "templates"),
            "files": {f"{name}.mustache": {"templateType": "SupportingFiles", "destinationFilename": "answers"}},
            "typeMappings": dict(language.types),
            "schemaMappings": {
                type_name: language.names.get(type_name, type_name) for type_name in BY_HAND | language.by_hand
            },
            "modelNameMappings": dict(language.names),
            "globalProperties": {
                "models": "",
                "supportingFiles": "answers",
                "modelDocs": "false",
                "modelTests": "false",
            },
            "additionalProperties": {"made": f"Made by `make clients`, from the OpenAPI document ({digest(name)})"},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        command = ["java", "-jar", str(jar), "generate", "--config", str(folder / "settings.json")]
        generator = subprocess.run(command, capture_output=True, text=True, check=False)
        if generator.returncode:
            sys.exit(generator.stdout + generator.stderr)
        text = (folder / "answers").read_text()
    for before, after in language.spellings.items():
        text = re.sub(before, after, text)
    path = FOLDER / language.file
    path.write_text(text)
    if language.formatter:
        subprocess.run([*language.formatter, str(path)], check=True)


def main() -> None:
    """Generate the files that are out of date."""
    outdated = [name for name in LANGUAGES if not is_current(name)]
    with tempfile.TemporaryDirectory() as folder:
        if outdated:
            command = [f"-Dartifact=org.openapitools:openapi-generator-cli:{VERSION}", f"-DoutputDirectory={folder}"]
            subprocess.run(["mvn", "-q", "dependency:copy", *command], check=True)
        for name in outdated:
            _generate(name, Path(folder) / f"openapi-generator-cli-{VERSION}.jar")
            print(f"clients/{LANGUAGES[name].file}: made again")


if __name__ == "__main__":
    main()
