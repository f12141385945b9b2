"""The list of what a build of the compiled modules was made from and consists of, as text. Pure.

Lines of fields separated by tabs. The lines about modules come first and end at an empty line:
a process that imports no compiled module reads no further.

    folder  NAME                             of the built files, beside the manifest
    python  TEXT                             Python and platform, from `python_and_platform`
    module  NAME  PATH                       a compiled module and its file in the folder
    problem TEXT                             only of a build that failed
                                             (empty line)
    source  SIZE  MTIME_NS  SHA256  PATH     below the checkout
    built   SIZE  MTIME_NS  PATH             in the folder
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import EXTENSION_SUFFIXES
from typing import Final, NamedTuple

LIST_FILE: Final = "pyproject.toml"
"""Only its list of compiled modules counts as source."""


class Stamp(NamedTuple):
    """Size and modification time of a file."""

    size: int
    mtime_ns: int


class Source(NamedTuple):
    """A file that the build was made from. `digest` is of its content (see `LIST_FILE`)."""

    stamp: Stamp
    digest: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One build; paths are relative, as the module's docstring says."""

    folder: str
    python: str
    modules: Mapping[str, str]
    sources: Mapping[str, Source]
    built: Mapping[str, Stamp] = field(default_factory=dict)
    problem: str = ""

    def to_text(self) -> str:
        """The content of the manifest's file."""
        head = [("folder", self.folder), ("python", self.python)]
        if self.problem:
            head.append(("problem", self.problem))
        lines = ["\t".join(each) for each in head]
        lines += [f"module\t{name}\t{path}" for name, path in self.modules.items()]
        lines.append("")
        lines += [
            f"source\t{stamp.size}\t{stamp.mtime_ns}\t{digest}\t{path}"
            for path, (stamp, digest) in self.sources.items()
        ]
        lines += [
            f"built\t{stamp.size}\t{stamp.mtime_ns}\t{path}" for path, stamp in self.built.items()
        ]
        return "\n".join([*lines, "end", ""])

    def restamped(self, stamps: Mapping[str, Stamp]) -> "Manifest":
        """The same build, with new stamps of sources whose content has not changed."""
        sources = {
            path: source._replace(stamp=stamps.get(path, source.stamp))
            for path, source in self.sources.items()
        }
        return replace(self, sources=sources)

    def failed(self, problem: str) -> "Manifest":
        """What is remembered of this build if it failed for this reason."""
        return replace(self, folder="", modules={}, built={}, problem=problem)


def head_of(text: str) -> Manifest:
    """The manifest without its sources and built files. Raises ValueError if it is none."""
    return _parse(text.partition("\n\n")[0].splitlines())


def parse(text: str) -> Manifest:
    """The manifest that `to_text` wrote. Raises ValueError for anything else."""
    lines = text.splitlines()
    if not lines or lines.pop() != "end":
        raise ValueError("it is incomplete")
    return _parse(lines)


def _parse(lines: Sequence[str]) -> Manifest:
    texts = {"folder": "", "python": "", "problem": ""}
    modules: dict[str, str] = {}
    sources: dict[str, Source] = {}
    built: dict[str, Stamp] = {}
    for line in lines:
        match line.split("\t"):
            case ["source", size, mtime_ns, digest, path]:
                sources[path] = Source(Stamp(int(size), int(mtime_ns)), digest)
            case ["built", size, mtime_ns, path]:
                built[path] = Stamp(int(size), int(mtime_ns))
            case ["module", name, path]:
                modules[name] = path
            case ["folder" | "python" | "problem" as name, value]:
                texts[name] = value
            case [""]:
                pass
            case _:
                raise ValueError(f"unknown line {line[:80]!r}")
    return Manifest(
        texts["folder"], texts["python"], modules, sources, built, problem=texts["problem"]
    )


def changed_stamps(
    manifest: Manifest,
    stamp_of: Callable[[str], Stamp | None],
    digest_of: Callable[[str], str | None],
) -> Mapping[str, Stamp] | None:
    """Whether the sources are those of the build: None if one has changed.

    Otherwise the stamps of files that have a new one, but the same content. A file is read only
    if its stamp has changed. Both functions return None for a file that does not exist.
    """
    changed: dict[str, Stamp] = {}
    for path, (stamp, digest) in manifest.sources.items():
        present = stamp_of(path)
        if present == stamp:
            continue
        if present is None or (present.size != stamp.size and path != LIST_FILE):
            return None
        if digest_of(path) != digest:
            return None
        changed[path] = present
    return changed


def python_and_platform(machine: str) -> str:
    """What compiled modules depend on besides their source; `machine` is the processor's name."""
    version = " ".join(sys.version.split())
    return f"{version} {EXTENSION_SUFFIXES[0]} {sys.platform} {machine}"
