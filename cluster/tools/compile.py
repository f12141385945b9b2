"""`compile`: compiles the request path of a checkout now; `start` does it in the background."""

import argparse
import sys
from typing import TYPE_CHECKING

from cluster.compilation.finder import is_first_process
from cluster.model.errors import UserError
from cluster.runtime.compiled import build_name, is_compiled
from cluster.runtime.installation import launcher
from cluster.tools.arguments import add_command

if TYPE_CHECKING:
    from cluster.compilation.build_files import BuildFiles
    from cluster.tools.arguments import Subparsers


def add_parser(subparsers: "Subparsers") -> None:
    """Add the command `compile` and its options to `subparsers`."""
    add_command(subparsers, "compile", "compile")


def run(_args: argparse.Namespace) -> int:
    """Make a build unless one is current. Raises UserError if that fails."""
    from cluster.compilation.build_files import BuildFiles, is_checkout
    from cluster.compilation.build_process import BuildFailed, build
    from cluster.compilation.compiler import missing_compiler

    files = BuildFiles()
    if not is_checkout():
        raise UserError("this is an installed package: `pip install` compiles it where it can")
    if _is_done(files):
        return 0
    missing = missing_compiler()
    if missing is not None:
        raise UserError(f"cannot compile: {missing}")
    try:
        lock = files.hold_lock(waits=False)
        if lock is None:
            _say("Waiting for the build in the background.\n")
            lock = files.hold_lock(waits=True)
    except OSError as problem:
        raise UserError(f"cannot write {files.folder}: {problem.strerror}") from None
    assert lock is not None
    if _is_done(files):
        return 0
    try:
        build(files, lock, _say)
    except BuildFailed as failed:
        raise UserError(f"compiling failed: {failed}; see {files.log}") from None
    if not _is_done(files):
        raise UserError("a source file was changed while it was compiled: compile again")
    return 0


def _is_done(files: "BuildFiles") -> bool:
    """Whether there is a build of the present sources; says so."""
    manifest = files.current()
    if manifest is None or files.failed() is not None:
        return False
    count = len(manifest.modules) - 1  # without the shared library
    print(f"{count} modules are compiled; clusters use them from their next start on.")
    return True


def compile_later() -> None:
    """Begin a build in the background if the launcher's own process may, and say so."""
    if not is_first_process():
        return
    from cluster.compilation.background_process import begin_build
    from cluster.compilation.build_files import BuildFiles

    if begin_build(BuildFiles()):
        _say(
            "The request path is being compiled in the background; the next start uses it"
            " (MILENA_COMPILE=0: never).\n"
        )


def variant() -> str:
    """Which variant of the modules runs in this process, and why."""
    from cluster.compilation.build_files import BuildFiles
    from cluster.compilation.variant import why_plain

    name = build_name()
    reason = "" if is_compiled() else why_plain(BuildFiles(), launcher())
    return f"{name}: {reason}" if reason else name


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
