"""Common parts of readers and writers: one function per struct and kind of encoding.

Versions before and after an API became flexible (KIP-482) have only the order of fields in common,
so each gets its own functions; these check the version only where it matters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster.protocol.codegen.definitions import WireField, WireStruct
from cluster.protocol.codegen.source_text import SourceText, condition, snake_case

_FORMAT_NAMES: Final = {"?": "o", "16s": "s"}
"""Formats that cannot be part of a name."""
DOCSTRINGS: Final = {
    "read": '"""The message at `position`, and where it ends. Raises PeerError and `MALFORMED`."""',
    "write": '"""Append the message as this version has it."""',
}
"""The docstrings of a module's public functions."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """The versions of one API that are flexible, or those that are not."""

    versions: frozenset[int]
    is_flexible: bool
    suffix: str
    """The end of the functions' names, if an API has both kinds."""


def encodings(versions: Sequence[int], first_flexible: int) -> list[Encoding]:
    """One or two encodings, the flexible one last."""
    legacy = frozenset(each for each in versions if each < first_flexible)
    flexible = frozenset(versions) - legacy
    if not legacy or not flexible:
        return [Encoding(legacy or flexible, not legacy, "")]
    return [Encoding(legacy, False, ""), Encoding(flexible, True, "_flexible")]


def reachable(struct: WireStruct, versions: frozenset[int]) -> dict[str, frozenset[int]]:
    """The names of the struct and all structs inside, with the versions in which they occur."""
    found = {struct.name: versions}
    for each in struct.fields:
        if each.struct is not None and (carried := each.versions & versions):
            for name, part in reachable(each.struct, carried).items():
                found[name] = found.get(name, frozenset()) | part
    return found


def structs(struct: WireStruct) -> Iterator[WireStruct]:
    """The struct and all structs inside, inner ones first."""
    for each in struct.fields:
        if each.struct is not None:
            yield from structs(each.struct)
    yield struct


def depends_on_version(struct: WireStruct, versions: frozenset[int]) -> bool:
    """Whether some field is missing or null only in some of these versions."""
    for each in struct.fields:
        carried = each.versions & versions
        if carried and carried != versions:
            return True
        if carried and each.nullable & carried not in (carried, frozenset()):
            return True
        if each.struct is not None and carried and depends_on_version(each.struct, carried):
            return True
    return False


def pieces(struct: WireStruct, versions: frozenset[int]) -> Iterator[list[WireField]]:
    """Untagged fields in order: runs of fixed width together, every other field by itself."""
    run: list[WireField] = []
    for each in struct.fields:
        if each.tag is not None or not each.versions & versions:
            continue
        if each.is_fixed:
            run.append(each)
            continue
        if run:
            yield run
            run = []
        yield [each]
    if run:
        yield run


def tagged(struct: WireStruct, versions: frozenset[int]) -> list[WireField]:
    """Tagged fields in the order of their tags."""
    found = [each for each in struct.fields if each.tag is not None and each.versions & versions]
    return sorted(found, key=lambda each: each.tag or 0)


def variants(
    run: Sequence[WireField], versions: frozenset[int]
) -> Iterator[tuple[str, list[WireField]]]:
    """Heads of `if`, `elif` and `else`, newest versions first, and the fields of these versions.

    One empty head if all versions have the same fields.
    """
    groups: list[tuple[set[int], list[WireField]]] = []
    for version in sorted(versions, reverse=True):
        having = [each for each in run if version in each.versions]
        if groups and groups[-1][1] == having:
            groups[-1][0].add(version)
        else:
            groups.append(({version}, having))
    left = set(versions)
    is_first = True
    for group, having in groups:
        if having:
            question = condition(group, left)
            head = f"{'if' if is_first else 'elif'} {question}:" if question else "else:"
            yield "" if is_first and not question else head, having
            left -= group
            is_first = False


@dataclass(slots=True)
class ModuleNames:
    """Names shared by the functions of one module.

    They are bound `pack` and `unpack_from` methods by name, with the expressions that make them,
    and functions with their versions.
    """

    packers: dict[str, str] = field(default_factory=dict)
    functions: dict[str, frozenset[int]] = field(default_factory=dict)


@dataclass(slots=True)
class FunctionWriter:
    """Collects the functions that read or write one message in one encoding."""

    encoding: Encoding
    reached: dict[str, frozenset[int]]
    module: "ModuleNames"
    text: SourceText = field(default_factory=SourceText)

    def unwritten(self, message: WireStruct, kind: str) -> Iterator[WireStruct]:
        """The message and its parts, inner ones first, whose functions do not exist yet.

        The request and the response may share a part.
        """
        for struct in structs(message):
            versions = self.reached.get(struct.name)
            name = self.function(kind, struct)
            if versions is None:
                continue
            if name not in self.module.functions:
                self.module.functions[name] = versions
                yield struct
            elif self.module.functions[name] != versions:
                raise ValueError(f"{name} is needed for other versions too: rename one of the two")

    def packer(self, kind: str, run: Sequence[WireField]) -> str:
        """The name of `Struct(...).pack` (`kind` pack) or `.unpack_from` (unpack)."""
        formats = [each.wire_type.format for each in run]
        name = f"_{kind}_{''.join(_FORMAT_NAMES.get(each, each) for each in formats)}"
        method = "pack" if kind == "pack" else "unpack_from"
        self.module.packers[name] = f'Struct(">{"".join(formats)}").{method}'
        return name

    def function(self, kind: str, struct: WireStruct) -> str:
        """The name of the function that reads or writes a nested struct."""
        return f"_{kind}_{snake_case(struct.name)}{self.encoding.suffix}"

    def version_argument(self, struct: WireStruct) -> str:
        """The version argument of a nested struct's function, if it has one."""
        return ", version" if depends_on_version(struct, self.reached[struct.name]) else ""
