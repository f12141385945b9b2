"""Makes a build of the compiled modules, and runs as a process of its own to do so.

mypyc gets a copy of the sources, so what is edited meanwhile does no harm: the manifest has the
digests of the copy. mypy and setuptools are installed in an environment of their own beside the
builds: the one that the cluster runs in stays as it was pinned.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from cluster.compilation.build_files import BuildFiles, present_python, stamp_of
from cluster.compilation.finder import SHARED_LIBRARY, VARIABLE
from cluster.compilation.manifest import LIST_FILE, Manifest, Source, Stamp
from cluster.compilation.sources import OTHER_SOURCES, compiled_modules, digest, sources
from cluster.model.printable import one_line

Say = Callable[[str], None]

_REQUIREMENTS: Final = "compile"
"""The set of packages in `etc/requirements`."""
_REASON_MAX_CHARACTERS: Final = 200
_NICENESS: Final = 19
"""A build in the background takes the lowest priority: everything else comes first."""


class BuildFailed(Exception):
    """The build failed; the text is the reason in one line."""


def build(files: BuildFiles, lock: int, say: Say) -> None:
    """Make a build of the present sources. `lock` is the descriptor of the lock of `files`.

    Raises BuildFailed, which is remembered: see `BuildFiles.failed`.
    """
    manifest = None
    try:
        folder = files.new_folder()
        try:
            manifest = _copied_sources(files, folder / "source")
            with files.log.open("w", encoding="utf-8") as log:
                with _phase(say, "Installing mypy and setuptools for the build"):
                    _run(log.fileno(), lock, _installer(files), dict(os.environ), files.root)
                count = len(compiled_modules((folder / "source" / LIST_FILE).read_bytes()))
                with _phase(say, f"Compiling {count} modules, which takes about a minute"):
                    _compile(files, folder, log.fileno(), lock)
            built = folder / "built"
            complete = _with_built(manifest, files.name_of(folder), built)
            files.finish(complete, built)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    except (OSError, ValueError, subprocess.CalledProcessError) as problem:
        reason = one_line(_reason(problem, files.log), _REASON_MAX_CHARACTERS)
        if manifest is not None and files.owns(lock):
            files.fail(manifest.failed(reason))
        raise BuildFailed(reason) from None


def _copied_sources(files: BuildFiles, copy: Path) -> Manifest:
    """Copy the sources. Returns the manifest of a build that has no files yet."""
    stamps: dict[str, Stamp] = {}

    def read(path: str) -> bytes | None:
        stamp = stamp_of(f"{files.root}/{path}")  # before the content, so as to be never newer
        if stamp is None:
            return None
        stamps[path] = stamp
        return (files.root / path).read_bytes()

    found = sources(read)
    for path, content in found.items():
        target = copy / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    marked = {path: Source(stamps[path], digest(path, content)) for path, content in found.items()}
    return Manifest("", present_python(), {}, marked)


def _installer(files: BuildFiles) -> list[str]:
    # pip may be missing in .venv: as at the first use, the Python that made it is asked.
    python = getattr(sys, "_base_executable", sys.executable)
    install = files.root / "bin" / "lib" / "install.py"
    environment = f"--environment={files.environment}"
    return [python, str(install), environment, str(files.root), _REQUIREMENTS]


def _compile(files: BuildFiles, folder: Path, log: int, lock: int) -> None:
    python = str(files.environment / "bin" / "python")
    command = [python, "-P", "setup.py", "--quiet", "build_ext"]
    command += ["--build-lib", str(folder / "built"), "--build-temp", str(folder / "objects")]
    variables = {**os.environ, VARIABLE: "1"}
    variables.pop("PYTHONPATH", None)  # has the checkout, and the copy is what is compiled
    _run(log, lock, command, variables, folder / "source")


def _run(log: int, lock: int, command: list[str], env: Mapping[str, str], folder: Path) -> None:
    """Run a step of the build; it keeps the lock, so that no other build begins if this dies."""
    subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=(lock,),
        check=True,
    )


def _with_built(manifest: Manifest, name: str, built: Path) -> Manifest:
    suffix = EXTENSION_SUFFIXES[0]
    modules, stamps = {}, {}
    own = {path.rpartition(".")[0] for path in OTHER_SOURCES}
    for path in sorted(built.rglob(f"*{suffix}")):
        inside = path.relative_to(built).as_posix()
        module = inside.removesuffix(suffix)
        stamp = stamp_of(str(path))
        if module in own or stamp is None:
            continue
        modules[module.replace("/", ".")] = inside
        stamps[inside] = stamp
    if not any(each.endswith(SHARED_LIBRARY) for each in modules):
        raise ValueError("mypyc has written no module")
    return Manifest(name, manifest.python, modules, manifest.sources, stamps)


def _reason(problem: Exception, log: Path) -> str:
    if not isinstance(problem, subprocess.CalledProcessError):
        return str(problem)
    if problem.returncode < 0:
        return f"ended by signal {-problem.returncode}"
    lines = log.read_text("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), str(problem))


@contextmanager
def _phase(say: Say, title: str) -> Iterator[None]:
    say(f"{title} ... ")
    start = time.monotonic()
    try:
        yield
    except BaseException:
        say("failed\n")
        raise
    say(f"{time.monotonic() - start:.1f} s\n")


def main() -> None:
    """Make a build unless one is being made or is current; started in the background."""
    os.nice(_NICENESS)
    files = BuildFiles()
    try:
        lock = files.hold_lock(waits=False)
    except OSError:
        return  # .venv has been removed, or cannot be written
    if lock is None or files.current() is not None or files.failed() is not None:
        return
    try:
        build(files, lock, lambda _text: None)
    except BuildFailed:
        sys.exit(1)


if __name__ == "__main__":
    main()
