"""The text of every generated module: classes, functions, imports, formatted."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from kio.schema.errors import ErrorCode as KioErrorCode

from cluster.protocol.api import FIRST_FLEXIBLE, ApiKey
from cluster.protocol.codegen.apis import APIS, CALLED, ENCODED_AHEAD
from cluster.protocol.codegen.definitions import WireField, WireStruct, wire_struct
from cluster.protocol.codegen.functions import (
    DOCSTRINGS,
    FunctionWriter,
    ModuleNames,
    encodings,
    reachable,
    structs,
)
from cluster.protocol.codegen.readers import add_readers
from cluster.protocol.codegen.source_text import SourceText, condition, snake_case
from cluster.protocol.codegen.writers import add_writers

ROOT: Final = Path(__file__).parents[3]
MESSAGES: Final = "cluster/protocol/messages"
ERROR_CODES: Final = "cluster/model/error_codes.py"
COMMAND: Final = "python -m cluster.protocol.codegen"

_IMPORTS: Final = {
    "cluster.model.error_codes": ["ErrorCode"],
    "cluster.model.errors": ["PeerError"],
    "cluster.protocol.reader": [
        *("ELEMENTS_MAX", "too_many"),
        *("NO_TIME", "datetime_of", "read_length", "skip_tags", "tag_spans", "truncated"),
        "uuid_of",
    ],
    "cluster.protocol.writer": [
        "EncodedItems",
        *("EMPTY_ARRAY", "EMPTY_COMPACT", "EMPTY_STRING", "MILLISECOND", "NO_TAGS", "NULL_ARRAY"),
        *("NULL_COMPACT", "NULL_STRING", "NULL_STRUCT", "STRUCT_FOLLOWS", "timestamp_of"),
        *("uuid_bytes", "varint"),
    ],
    "dataclasses": ["dataclass", "field"],
    "datetime": ["datetime", "timedelta"],
    "struct": ["Struct", "pack", "unpack_from"],
    "uuid": ["UUID"],
}


def generate() -> dict[str, str]:
    """The source of every generated module, by its path below the root."""
    modules = {ERROR_CODES: _error_codes()}
    owners: dict[str, str] = {}
    titles: dict[ApiKey, str] = {}
    for key in APIS:
        name = key.name.lower()
        messages = {way: wire_struct(key, way, *APIS[key]) for way in ("request", "response")}
        titles[key] = messages["request"].name.removesuffix("Request")
        classes = {each.name: each for message in messages.values() for each in structs(message)}
        for class_name in classes:
            if owners.setdefault(class_name, name) != name:
                raise ValueError(
                    f"{name} and {owners[class_name]} both have {class_name}: add it to RENAMED"
                )
        modules[f"{MESSAGES}/{name}.py"] = message_module(
            key, messages["request"], messages["response"]
        )
    modules[f"{MESSAGES}/__init__.py"] = _index(owners, titles)
    return {path: _formatted(path, text) for path, text in modules.items()}


def message_module(key: ApiKey, request: WireStruct, response: WireStruct) -> str:
    """The source of one API's classes and functions, not yet formatted."""
    first, last = APIS[key]
    defined: dict[str, WireStruct] = {}
    for struct in (*structs(request), *structs(response)):
        if defined.setdefault(struct.name, struct) != struct:
            raise ValueError(f"{key.name} has two different {struct.name}: add it to RENAMED")
    names = ModuleNames()
    is_called = key in CALLED
    functions = [
        functions_source(
            kind, way, message, range(first, last + 1), FIRST_FLEXIBLE.get(key, 0), names
        )
        for kind, way, message, is_needed in (
            ("read", "request", request, True),
            ("write", "response", response, True),
            ("write", "request", request, is_called),
            ("read", "response", response, is_called),
        )
        if is_needed
    ]
    functions += [
        _item_writer(response, defined[name], range(first, last + 1), FIRST_FLEXIBLE.get(key, 0))
        for api, name in sorted(ENCODED_AHEAD)
        if api == key
    ]
    title = "".join(part.capitalize() for part in key.name.split("_"))
    constants = "\n".join(f"{name} = {names.packers[name]}" for name in sorted(names.packers))
    text = "\n".join([*map(class_source, defined.values()), *functions])
    return "\n".join(
        [
            f'"""{title} messages, versions {first} to {last}.',
            "",
            f"Written by `{COMMAND}`.",
            '"""',
            "",
            *_imports(f"{text}\n{constants}"),
            "",
            constants,
            text,
            "",
        ]
    )


def functions_source(
    kind: str,
    way: str,
    message: WireStruct,
    versions: range,
    first_flexible: int,
    names: ModuleNames,
) -> str:
    """The source of `read_request` and the like with everything they call; adds to `names`."""
    add = add_readers if kind == "read" else add_writers
    name = f"{kind}_{way}"
    parts = []
    kinds = encodings(versions, first_flexible)
    for encoding in kinds:
        writer = FunctionWriter(encoding, reachable(message, encoding.versions), names)
        add(writer, message, name if len(kinds) == 1 else f"_{name}{encoding.suffix or '_legacy'}")
        parts.append(str(writer.text))
    if len(kinds) > 1:
        question = condition(kinds[1].versions, versions)
        text = SourceText()
        text.add("", "")
        if kind == "read":
            head = f"def {name}(buffer: bytes, position: int, end: int, version: int)"
            head += f" -> tuple[{message.name}, int]:"
            call, prefix = "(buffer, position, end, version)", "return "
        else:
            head = f"def {name}(out: bytearray, message: {message.name}, version: int) -> None:"
            call, prefix = "(out, message, version)", ""
        with text.block(head):
            text.add(DOCSTRINGS[kind])
            with text.block(f"if {question}:"):
                text.add(f"{prefix}_{name}_flexible{call}")
            if kind == "read":
                text.add(f"{prefix}_{name}_legacy{call}")
            else:
                with text.block("else:"):
                    text.add(f"_{name}_legacy{call}")
        parts.append(str(text))
    return "\n".join(parts)


def _item_writer(
    message: WireStruct, item: WireStruct, versions: range, first_flexible: int
) -> str:
    """The source of the public function that writes one item of an array, in any version."""
    text = SourceText()
    text.add("", "")
    name = f"write_{snake_case(item.name)}"
    with text.block(f"def {name}(out: bytearray, message: {item.name}, version: int) -> None:"):
        text.add('"""Append one item of `EncodedItems` as this version has it."""')
        kinds = encodings(versions, first_flexible)
        for encoding in reversed(kinds):
            head = ""
            if len(kinds) > 1:
                question = condition(encoding.versions, versions)
                head = f"if {question}:" if encoding.is_flexible else "else:"
            writer = FunctionWriter(encoding, reachable(message, encoding.versions), ModuleNames())
            with text.block(head):
                function = writer.function("write", item)
                text.add(f"{function}(out, message{writer.version_argument(item)})")
    return str(text)


def class_source(struct: WireStruct) -> str:
    """The dataclass of a message or a part of one."""
    body = SourceText()
    body.add("", "", "@dataclass(slots=True, kw_only=True)")
    with body.block(f"class {struct.name}:"):
        body.add(f'"""{struct.title}"""', "")
        for each in struct.fields:
            body.add(f"{each.name}: {each.python_type}{_default_clause(each)}")
    return str(body)


def _default_clause(each: WireField) -> str:
    if each.default is None:
        return ""
    if each.struct is not None and each.default == f"{each.struct.name}()":
        return f" = field(default_factory={each.struct.name})"
    return f" = {each.default}"


def _imports(text: str) -> list[str]:
    lines = []
    code = re.sub(r'""".*?"""', "", text)
    for module, names in _IMPORTS.items():
        used = [name for name in names if re.search(rf"(?<![\w.\"]){name}\b(?!: )", code)]
        if used:
            lines.append(f"from {module} import {', '.join(used)}")
    return lines


def _index(owners: dict[str, str], titles: dict[ApiKey, str]) -> str:
    by_module: dict[str, list[str]] = {}
    for name, module in owners.items():
        by_module.setdefault(module, []).append(name)
    modules = [key.name.lower() for key in APIS]
    tables = [
        ("REQUESTS", "type[Any]", {key: f"{titles[key]}Request" for key in APIS}),
        ("RESPONSES", "type[Any]", {key: f"{titles[key]}Response" for key in APIS}),
        *(
            (f"{kind}_{way}".upper(), kind.capitalize(), functions)
            for kind, way, keys in (
                ("read", "request", APIS),
                ("write", "response", APIS),
                ("write", "request", sorted(CALLED)),
                ("read", "response", sorted(CALLED)),
            )
            for functions in [{key: f"{key.name.lower()}.{kind}_{way}" for key in keys}]
        ),
    ]
    return "\n".join(
        [
            '"""Version-free requests and responses, one class for all versions of a message.',
            "",
            "Field names and meanings are those of the newest version; what only older ones have",
            f"comes with a default. Written by `{COMMAND}`.",
            '"""',
            f"from cluster.protocol.messages import {', '.join(modules)}",
            *(
                f"from cluster.protocol.messages.{module} import {', '.join(names)}"
                for module, names in by_module.items()
            ),
            "from collections.abc import Callable, Mapping",
            "from typing import Any, Final",
            "from cluster.protocol.api import ApiKey",
            f"__all__ = {[*sorted(owners), *(name for name, _, _ in tables), 'Read', 'Write']!r}",
            "Read = Callable[[bytes, int, int, int], tuple[Any, int]]",
            '"""Buffer, position, end, version, to the message and the position after it."""',
            "Write = Callable[[bytearray, Any, int], None]",
            '"""Appends to a frame: the message in a version."""',
            *(
                line
                for name, kind, rows in tables
                for line in (
                    f"{name}: Final[Mapping[int, {kind}]] = {{",
                    *(f"ApiKey.{key.name}: {value}," for key, value in rows.items()),
                    "}",
                )
            ),
            "",
        ]
    )


def _error_codes() -> str:
    members = "\n".join(f"    {each.name} = {int(each)}" for each in KioErrorCode)
    return f'''"""Kafka's error codes by Kafka's names (`Errors`).

Written by `{COMMAND}`.
"""

from enum import IntEnum


class ErrorCode(IntEnum):
    """The error of a request or of one of its items, with the protocol's number."""

{members}
'''


def _formatted(path: str, source: str) -> str:
    """The source, with imports sorted and formatted by ruff."""
    for command in (["check", "--select", "I,RUF022", "--fix", "--quiet"], ["format", "--quiet"]):
        source = subprocess.run(
            [sys.executable, "-P", "-m", "ruff", *command, "--stdin-filename", path, "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return source
