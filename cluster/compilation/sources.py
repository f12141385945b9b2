"""Finds the files that determine what the compiled modules become. Pure.

mypyc reads more than the modules that it compiles: it copies constants (`Final`) of modules that
these import into their code, and checks at run time the types that it has read there. So a build
depends on every module of the project that is imported, directly or not.
"""

import ast
import hashlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from cluster.compilation.manifest import LIST_FILE

_PACKAGE: Final = "cluster"
OTHER_SOURCES: Final = (
    "setup.py",
    "cluster/compilation/compiler.py",
    "etc/requirements/compile.txt",
    "cluster/records/_walk.c",
)
"""What builds the modules, with which compiler of Python; and what setup.py compiles beside."""

Reader = Callable[[str], bytes | None]
"""The content of the file at a path below the checkout; None if there is no such file."""


def compiled_modules(pyproject: bytes) -> list[str]:
    """The list in pyproject.toml, such as `records/batch`. Raises ValueError if it has none."""
    try:
        modules = tomllib.loads(pyproject.decode())["tool"]["milena"]["compiled_modules"]
    except KeyError as missing:
        raise ValueError(f"{LIST_FILE} has no {missing}") from None
    return [str(module) for module in modules]


def digest(path: str, content: bytes) -> str:
    """The digest of a source for the manifest. Raises ValueError if it cannot be read."""
    if path == LIST_FILE:
        content = "\n".join(compiled_modules(content)).encode()
    return hashlib.sha256(content).hexdigest()


def sources(read: Reader) -> Mapping[str, bytes]:
    """All files that the compiled modules depend on, with their content.

    Raises ValueError if a file is missing or no Python.
    """
    pyproject = _existing(read, LIST_FILE)
    found = {LIST_FILE: pyproject, **{path: _existing(read, path) for path in OTHER_SOURCES}}
    waiting = [f"{_PACKAGE}/{module}.py" for module in compiled_modules(pyproject)]
    for path in waiting:
        found[path] = _existing(read, path)
    seen = set(found)
    while waiting:
        path = waiting.pop()
        for name in _imported(path, found[path]):
            for candidate in _files_of(name):
                if candidate in seen:
                    continue
                seen.add(candidate)
                content = read(candidate)
                if content is not None:
                    found[candidate] = content
                    waiting.append(candidate)
    return dict(sorted(found.items()))


def _existing(read: Reader, path: str) -> bytes:
    content = read(path)
    if content is None:
        raise ValueError(f"there is no {path}")
    return content


def _imported(path: str, content: bytes) -> Iterator[str]:
    """The module at `path` and what it imports, also names that may be modules or not."""
    try:
        tree = ast.parse(content, path)
    except SyntaxError as problem:
        raise ValueError(f"{path}, line {problem.lineno}: {problem.msg}") from None
    yield path.rpartition(".")[0].replace("/", ".").removesuffix(".__init__")
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (each.name for each in names)
            case ast.ImportFrom(str(module), names):
                yield module
                yield from (f"{module}.{each.name}" for each in names)


def _files_of(name: str) -> Iterator[str]:
    """The files that a module of the project and the packages above it may have."""
    parts = name.split(".")
    if parts[0] != _PACKAGE:
        return
    for count in range(1, len(parts) + 1):
        stem = "/".join(parts[:count])
        yield from (f"{stem}/__init__.py", f"{stem}.py", f"{stem}.pyi")
