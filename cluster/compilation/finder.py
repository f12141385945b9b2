"""Makes the import system find the compiled modules of the current build instead of their source.

The launcher asks for it by the environment variable MILENA_COMPILE, which processes inherit:
without it, as in tests, source runs. Everything else is imported from the checkout as usual.
"""

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Final

from cluster.compilation.build_files import BuildFiles

VARIABLE: Final = "MILENA_COMPILE"
OFF: Final = "0"
USE: Final = "use"
"""Use a build, but make none: for processes that a command starts. The launcher's own is `auto`."""
SHARED_LIBRARY: Final = "__mypyc"
"""The end of the name of the module with the code of all others."""


class BuildFinder:
    """A finder for `sys.meta_path`. It compares the sources when the first module is imported.

    All modules of a build are used or none: if the sources have changed, or the shared library
    cannot be loaded here, the source of all of them is.
    """

    def __init__(self, files: BuildFiles, modules: Mapping[str, str]) -> None:
        self._files = files
        self._modules = modules
        self._is_checked = False

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - a finder is called with them
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """The compiled module of this name; None leaves it to the other finders."""
        file = self._modules.get(name)
        if file is None:
            return None
        if not self._is_checked:
            self._is_checked = True
            if not self._is_usable():
                self._modules = {}
                return None
        return spec_from_file_location(name, file, loader=ExtensionFileLoader(name, file))

    def _is_usable(self) -> bool:
        manifest = self._files.current()
        if manifest is None or self._files.hold(manifest) is None:
            return False
        self._modules = {
            name: str(self._files.folder / manifest.folder / path)
            for name, path in manifest.modules.items()
        }
        try:
            for name in self._modules:
                if name.endswith(SHARED_LIBRARY):
                    importlib.import_module(name)
        except ImportError as problem:
            # Such as one built on a machine that shares the checkout, but not the C library.
            self._files.fail(manifest.failed(f"cannot load {name}: {problem}"))
            return False
        return True


_first_process: int | None = None


def use_build() -> None:
    """Import compiled modules from now on if the launcher has asked for it and there is a build."""
    global _first_process
    wish = os.environ.get(VARIABLE, OFF)
    if wish == OFF:
        return
    if wish != USE:
        _first_process = os.getpid()
        os.environ[VARIABLE] = USE
    files = BuildFiles()
    modules = files.modules()
    if modules:
        sys.meta_path.insert(0, BuildFinder(files, modules))


def is_first_process() -> bool:
    """Whether the launcher has become this process, which may therefore begin a build."""
    return _first_process == os.getpid()
