"""Writes `cluster/protocol/messages/` from kio's schemas: one class per message for all versions.

Run `python -m tests.wire.message_generator` after a change here. To add an API, add its row to
`APIS`.
"""

import importlib
import subprocess
import sys
import types
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode

from cluster.protocol.api import ApiKey

OUTPUT = Path(__file__).parents[2] / "cluster" / "protocol" / "messages"

APIS: dict[ApiKey, tuple[int, int]] = {
    ApiKey.LIST_OFFSETS: (1, 10),
    ApiKey.METADATA: (0, 13),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.ALTER_CONFIGS: (0, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
}
"""First and last version that the classes describe. Produce and Fetch have codecs of their own."""

RENAMED: dict[tuple[ApiKey, str], str] = {
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "AlterConfigsResource"): "IncrementalAlterConfigsResource",
    (ApiKey.INCREMENTAL_ALTER_CONFIGS, "AlterableConfig"): "IncrementalAlterableConfig",
    (
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        "AlterConfigsResourceResponse",
    ): "IncrementalAlterConfigsResourceResponse",
    (ApiKey.ALTER_CLIENT_QUOTAS, "EntityData"): "AlteredEntity",
    (ApiKey.ALTER_CLIENT_QUOTAS, "request EntryData"): "QuotaAlteration",
    (ApiKey.ALTER_CLIENT_QUOTAS, "response EntryData"): "QuotaAlterationResult",
    (ApiKey.ALTER_CLIENT_QUOTAS, "OpData"): "QuotaOperation",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "EntityData"): "DescribedEntity",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "EntryData"): "DescribedEntry",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "ValueData"): "DescribedQuota",
    (ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "CredentialInfo"): "ScramCredential",
    (ApiKey.DESCRIBE_CLIENT_QUOTAS, "ComponentData"): "QuotaFilterComponent",
}
"""Kafka's names of nested messages, where two APIs, or the request and the response of one (then
the name says of which), use the same one for different things."""

PYTHON_TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "error_code": "ErrorCode",
    "timedelta_i32": "timedelta",
    "timedelta_i64": "timedelta",
    "datetime_i64": "datetime | None",
    "uuid": "UUID | None",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
}
IMPORTS = {
    "ErrorCode": "from cluster.model.errors import ErrorCode",
    "timedelta": "from datetime import timedelta",
    "datetime": "from datetime import datetime",
    "UUID": "from uuid import UUID",
}
NEUTRAL = {
    "bool": "False",
    "error_code": "ErrorCode.none",
    "float64": "0.0",
    "string": '""',
    "bytes": 'b""',
    "records": 'b""',
    "uuid": "None",
    "datetime_i64": "None",
    "timedelta_i32": "timedelta(0)",
    "timedelta_i64": "timedelta(0)",
}


def kio_class(key: ApiKey, version: int, direction: str) -> type[Any]:
    """kio's dataclass of one request or response at one version."""
    name = key.name.lower()
    module = importlib.import_module(f"kio.schema.{name}.v{version}.{direction}")
    kind = "EntityType.request" if direction == "request" else "EntityType.response"
    return next(
        each
        for each in vars(module).values()
        if is_dataclass(each) and str(getattr(each, "__type__", "")) == kind
    )


@dataclass(frozen=True)
class Shape:
    """A kio field's annotation taken apart."""

    is_array: bool
    is_nullable: bool
    element: Any


def shape_of(annotation: Any) -> Shape:
    """An annotation such as `tuple[X, ...] | None` as a Shape."""
    nullable = get_origin(annotation) is types.UnionType
    if nullable:
        annotation = next(each for each in get_args(annotation) if each is not types.NoneType)
    is_array = get_origin(annotation) is tuple
    if is_array:
        annotation = get_args(annotation)[0]
    return Shape(is_array, nullable, annotation)


def merged_order(versions: dict[int, type[Any]]) -> list[str]:
    """Names of all fields of all versions, in an order that every version agrees with."""
    order: list[str] = []
    for version in sorted(versions, reverse=True):
        at = 0
        for name in (each.name for each in fields(versions[version])):
            if name in order:
                at = order.index(name) + 1
            else:
                order.insert(at, name)
                at += 1
    for version, message in versions.items():
        own = [each.name for each in fields(message)]
        if [name for name in order if name in own] != own:
            raise ValueError(
                f"{message} v{version} orders its fields otherwise than its newest version"
            )
    return order


class ModuleWriter:
    """Collects the classes of one API, nested ones first."""

    def __init__(self, key: ApiKey) -> None:
        self.key = key
        self.first, self.last = APIS[key]
        self.title = "".join(part.capitalize() for part in key.name.split("_"))
        self.classes: dict[str, str] = {}
        self.direction = "request"

    def add(self, direction: str) -> None:
        """Generate the request or the response with all that it contains."""
        span = range(self.first, self.last + 1)
        self.direction = direction
        self._add({version: kio_class(self.key, version, direction) for version in span})

    def _add(self, versions: dict[int, type[Any]]) -> str:
        newest = versions[max(versions)]
        name = newest.__name__
        for known_as in (name, f"{self.direction} {name}"):
            name = RENAMED.get((self.key, known_as), name)
        lines = [
            "@dataclass(slots=True, kw_only=True)",
            f"class {name}:",
            f'    """{self._title(newest, name)}"""',
            "",
        ]
        lines += [f"    {self._field(each, versions)}" for each in merged_order(versions)]
        text = "\n".join(lines)
        if self.classes.setdefault(name, text) != text:
            raise ValueError(f"{self.key.name} has two different {name}: add it to RENAMED")
        return name

    def _title(self, newest: type[Any], name: str) -> str:
        what = newest.__type__.name
        api = "".join(part.capitalize() for part in self.key.name.split("_"))
        return (
            f"Part of {api}."
            if what == "nested"
            else f"{api} {what}, versions {self.first}-{self.last}."
        )

    def _field(self, name: str, versions: dict[int, type[Any]]) -> str:
        having = {
            version: each
            for version, message in versions.items()
            for each in fields(message)
            if each.name == name
        }
        newest = having[max(having)]
        shape = shape_of(newest.type)
        kafka_type = newest.metadata.get("kafka_type", "struct")
        if is_dataclass(shape.element):
            python_type = self._add(
                {version: shape_of(each.type).element for version, each in having.items()}
            )
        else:
            python_type = PYTHON_TYPES[kafka_type]
        if shape.is_array:
            python_type = f"tuple[{python_type}, ...]"
        arguments = [f'"{kafka_type}"', *self._range("since", "until", sorted(having))]
        nullable = sorted(v for v, each in having.items() if self._is_nullable(each, kafka_type))
        if nullable:
            python_type = python_type.removesuffix(" | None") + " | None"
            arguments.append(f"nullable_since={nullable[0]}")
            if nullable != [v for v in having if v >= nullable[0]]:
                arguments.append(f"nullable_until={nullable[-1]}")
        tags = {each.metadata.get("tag") for each in having.values()}
        if len(tags) != 1:
            raise ValueError(f"{self.key.name} {name} is tagged in some versions only")
        if (tag := tags.pop()) is not None:
            arguments.append(f"tag={tag}")
        default = self._default(
            newest, shape, kafka_type, python_type, is_old=max(having) < self.last
        )
        return f"{name}: {python_type} = field(metadata=wire({', '.join(arguments)}){default})"

    def _is_nullable(self, each: "Field[Any]", kafka_type: str) -> bool:
        if kafka_type in ("uuid", "datetime_i64") or each.metadata.get("tag") is not None:
            return False
        return shape_of(each.type).is_nullable

    def _range(self, since: str, until: str, versions: list[int]) -> list[str]:
        if versions != list(range(versions[0], versions[-1] + 1)):
            raise ValueError(f"{self.key.name} has a field with a gap in its versions: {versions}")
        arguments = [f"{since}={versions[0]}"] if versions[0] > self.first else []
        return arguments + ([f"{until}={versions[-1]}"] if versions[-1] < self.last else [])

    def _default(
        self, newest: "Field[Any]", shape: Shape, kafka_type: str, python_type: str, *, is_old: bool
    ) -> str:
        """The text of the field's default; fields that the newest version lacks always have one."""
        if newest.default is not MISSING:
            value: Any = newest.default
            if is_dataclass(value):
                return f", default_factory={python_type.removesuffix(' | None')}"
            if isinstance(value, timedelta):
                return f", default=timedelta(milliseconds={value // timedelta(milliseconds=1)})"
            if isinstance(value, ErrorCode):
                return f", default=ErrorCode.{value.name}"
            if isinstance(value, datetime):
                raise TypeError("a date as a default")
            return f", default={value!r}"
        if not is_old:
            return ""
        return ", default=()" if shape.is_array else f", default={NEUTRAL.get(kafka_type, '0')}"

    def text(self) -> str:
        """The module's source."""
        classes = "\n\n\n".join(self.classes.values())
        imports = [
            line
            for word, line in IMPORTS.items()
            if f"{word} " in classes
            or f"{word}." in classes
            or f"{word}(" in classes
            or f"{word}," in classes
        ]
        return "\n".join(
            [
                f'"""{self.title} messages: generated by tests/wire/message_generator.py."""',
                "",
                *sorted(imports),
                "from dataclasses import dataclass, field",
                "from cluster.protocol.layout import wire",
                "",
                classes,
                "",
            ]
        )


def generate() -> dict[str, str]:
    """File name to source of every generated module, formatted."""
    modules: dict[str, str] = {}
    owners: dict[str, str] = {}
    for key in APIS:
        writer = ModuleWriter(key)
        writer.add("request")
        writer.add("response")
        module = key.name.lower()
        for name in writer.classes:
            if owners.setdefault(name, module) != module:
                raise ValueError(f"{module} and {owners[name]} both have {name}: add it to RENAMED")
        modules[f"{module}.py"] = writer.text()
    by_module: dict[str, list[str]] = {}
    titles = {
        key: kio_class(key, APIS[key][1], "request").__name__.removesuffix("Request")
        for key in APIS
    }
    for name, module in owners.items():
        by_module.setdefault(module, []).append(name)
    modules["__init__.py"] = "\n".join(
        [
            '"""Version-free requests and responses, one class for all versions of a message.',
            "",
            "Field names and meanings are those of kio's newest version; what only older ones have",
            "comes with a default. Generated by tests/wire/message_generator.py.",
            '"""',
            *(
                f"from cluster.protocol.messages.{module} import {', '.join(names)}"
                for module, names in by_module.items()
            ),
            "from collections.abc import Mapping",
            "from typing import Any, Final",
            "from cluster.protocol.api import ApiKey",
            f"__all__ = {[*sorted(owners), 'REQUESTS', 'RESPONSES']!r}",
            *(
                line
                for kind in ("Request", "Response")
                for line in (
                    f"{kind.upper()}S: Final[Mapping[int, type[Any]]] = {{",
                    *(f"ApiKey.{key.name}: {title}{kind}," for key, title in titles.items()),
                    "}",
                )
            ),
            "",
        ]
    )
    return {name: formatted(text) for name, text in modules.items()}


def formatted(source: str) -> str:
    """The source after ruff sorted its imports and formatted it."""
    for command in (["check", "--select", "I,RUF022", "--fix", "--quiet"], ["format", "--quiet"]):
        source = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(OUTPUT / "x.py"), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
            cwd=OUTPUT.parents[2],
        ).stdout
    return source


if __name__ == "__main__":
    for file_name, text in generate().items():
        (OUTPUT / file_name).write_text(text)
