"""Finds the settings that the code reads by analysing the source, without running it.

A setting is read where its handle stands in a subscript or another expression (`settings[keys.X]`)
in a module outside `cluster/config/`. A value that only fills a field of a dataclass or named tuple
(`LogOptions(segment_ms=own[topic.SEGMENT_MS])`) is read when some module also reads an attribute of
the field's name; of arguments of functions and of local names, ruff's rules ARG and F841 demand a
use. What this cannot see: an attribute of the same name of another class, and a value that is read
but changes nothing.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

CONFIG: Final = "cluster.config"
TABLES: Final = frozenset(
    f"{CONFIG}.{name}" for name in ("broker", "topic", "group", "client_metrics")
)


class Handle(NamedTuple):
    """`broker.LOG_DIRS`: the module of a table, and the name of the handle in it."""

    table: str
    name: str


class Read(NamedTuple):
    """One place at which a handle stands."""

    handle: Handle
    field: str | None
    """The field of a record into which the value goes, and nowhere else."""


Fields = Mapping[str, Sequence[str]]
"""The fields of each dataclass and named tuple, in order, by the class's name."""


def handles_read(sources: Iterable[str]) -> set[Handle]:
    """The handles that the modules with these sources read."""
    trees: list[ast.Module] = []  # of the few modules that import a table; all take much memory
    records: dict[str, list[str]] = {}
    attributes: set[str] = set()
    for source in sources:
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                if isinstance(node.ctx, ast.Load):
                    attributes.add(node.attr)
            elif isinstance(node, ast.ClassDef) and _is_record(node):
                records[node.name] = _fields(node)
        if CONFIG in source:
            trees.append(tree)
    reads = {read for tree in trees for read in _reads(tree, records)}
    return {read.handle for read in reads if read.field is None or read.field in attributes}


def _reads(tree: ast.Module, records: Fields) -> Iterator[Read]:
    """Every place in one module where a handle stands, but for its import."""
    tables, names = _imported(tree)
    if not tables and not names:
        return  # most modules; the rest takes ten times as long
    fields = _filled(tree, records)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=module), attr=name) if module in tables:
                yield Read(Handle(tables[module], name), fields.get(id(node)))
            case ast.Name(id=name, ctx=ast.Load()) if name in names:
                yield Read(names[name], fields.get(id(node)))


def _imported(tree: ast.Module) -> tuple[Mapping[str, str], Mapping[str, Handle]]:
    """The tables and handles that the module imports, by their local names."""
    tables: dict[str, str] = {}
    names: dict[str, Handle] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        for alias in node.names:
            local = alias.asname or alias.name
            if f"{node.module}.{alias.name}" in TABLES:
                tables[local] = alias.name
            elif node.module in TABLES:
                names[local] = Handle(node.module.rpartition(".")[2], alias.name)
    return tables, names


def _filled(tree: ast.Module, records: Fields) -> dict[int, str]:
    """The fields filled by arguments of a record, by the `id` of the argument's node."""
    found: dict[int, str] = {}
    for call in ast.walk(tree):  # outer calls come first, so inner ones overwrite them
        if not isinstance(call, ast.Call):
            continue
        called = call.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in records:
            arguments = [*zip(records[name], call.args, strict=False)]
            arguments += [(each.arg, each.value) for each in call.keywords if each.arg]
            for field, value in arguments:
                found |= dict.fromkeys(map(id, ast.walk(value)), field)
        else:
            for value in (*call.args, *(each.value for each in call.keywords)):
                for node in ast.walk(value):
                    found.pop(id(node), None)
    return found


def _is_record(node: ast.ClassDef) -> bool:
    bases = {getattr(base, "id", "") for base in node.bases}
    return "NamedTuple" in bases or any("dataclass" in ast.unparse(d) for d in node.decorator_list)


def _fields(node: ast.ClassDef) -> list[str]:
    return [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
    ]
