"""The files of the builds of a checkout, in `.venv/compiled`.

manifest      names the newest complete build; replaced when another one is ready
failed        the manifest of the last build, if it failed
build-*/      the built files; `in-use` there is locked by every process that runs them
unfinished-*/ of a build that is being made, or was killed
environment/  mypy and setuptools, which only builds need
lock          held by the build that is being made, and by its compiler
log           the output of the last build
"""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from cluster.compilation.manifest import (
    Manifest,
    Stamp,
    changed_stamps,
    head_of,
    parse,
    python_and_platform,
)

ROOT: Final = Path(__file__).parents[2]
_BUILD: Final = "build-"
_UNFINISHED: Final = "unfinished-"
_IN_USE: Final = "in-use"


def is_checkout() -> bool:
    """Whether this is a checkout with its launcher, not an installed package."""
    return (ROOT / "bin" / "cluster").exists()


def present_python() -> str:
    """This Python on this machine, as manifests have it."""
    return python_and_platform(os.uname().machine)


class BuildFiles:
    """Reads and changes the files; any number of processes may do so at the same time.

    Only the holder of the lock makes builds and removes them.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root: Final = root
        self.folder: Final = root / ".venv" / "compiled"
        self.log: Final = self.folder / "log"
        self.environment: Final = self.folder / "environment"
        self._manifest = self.folder / "manifest"
        self._failed = self.folder / "failed"
        self._lock = self.folder / "lock"

    # -- use -------------------------------------------------------------------------------------

    def modules(self) -> dict[str, str]:
        """The files of compiled modules for this Python, current or not; none without a build."""
        try:
            manifest = head_of(self._manifest.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        if manifest.python != present_python():
            return {}
        folder = self.folder / manifest.folder
        return {name: str(folder / path) for name, path in manifest.modules.items()}

    def current(self) -> Manifest | None:
        """The newest build if it was made from exactly the present sources and is complete."""
        manifest = self._read(self._manifest)
        if manifest is None or not self._has_present_sources(self._manifest, manifest):
            return None
        folder = self.folder / manifest.folder
        if any(stamp_of(f"{folder}/{path}") != stamp for path, stamp in manifest.built.items()):
            return None
        return manifest

    def failed(self) -> Manifest | None:
        """The last build if it failed, with the present sources."""
        manifest = self._read(self._failed)
        if manifest is None or not self._has_present_sources(self._failed, manifest):
            return None
        return manifest

    def hold(self, manifest: Manifest) -> int | None:
        """Keep a build from being removed: a descriptor for as long as it or a copy is open.

        Returns None if it is being removed.
        """
        try:
            descriptor = os.open(self.folder / manifest.folder / _IN_USE, os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:
                return descriptor
        except OSError:
            pass
        os.close(descriptor)
        return None

    def is_building(self) -> bool:
        """Whether a build is being made now."""
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return False

    def digest_of(self, path: str) -> str | None:
        """The digest of a source as it is now; None if it is missing or cannot be read."""
        from cluster.compilation.sources import digest  # seldom needed, and slow to import

        try:
            return digest(path, (self.root / path).read_bytes())
        except (OSError, ValueError):
            return None

    # -- making a build --------------------------------------------------------------------------

    def hold_lock(self, *, waits: bool) -> int | None:
        """The lock of a build as a descriptor; None if another process holds it. Raises OSError."""
        self.folder.mkdir(exist_ok=True)
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def owns(self, lock: int) -> bool:
        """Whether this descriptor holds the lock of the folder as it is now: another build may be
        made in a new one if this one was removed.
        """
        try:
            return os.path.samestat(os.fstat(lock), self._lock.stat())
        except OSError:
            return False

    def new_folder(self) -> Path:
        """An empty folder for the build that begins; leftovers of killed builds are removed."""
        for left_over in self.folder.glob(f"{_UNFINISHED}*"):
            shutil.rmtree(left_over, ignore_errors=True)
        number = 1 + max((int(each.name[len(_BUILD) :]) for each in self._builds()), default=0)
        folder = self.folder / f"{_UNFINISHED}{number}"
        folder.mkdir()
        return folder

    def finish(self, manifest: Manifest, built: Path) -> None:
        """Put the complete files in `built` and their manifest in place, and remove old builds.

        Files reach the disk before their names do, so that a crash leaves no half of a build.
        """
        (built / _IN_USE).touch()
        for path in manifest.built:
            _sync(built / path)
        folder = self.folder / manifest.folder
        built.rename(folder)
        self._write(self._manifest, manifest)
        self._failed.unlink(missing_ok=True)
        for other in self._builds():
            if other != folder:
                _remove_unless_in_use(other)

    def fail(self, manifest: Manifest) -> None:
        """Remember a build that failed."""
        with suppress(OSError):
            self._write(self._failed, manifest)

    def name_of(self, unfinished: Path) -> str:
        """The name that a folder from `new_folder` gets when its build is complete."""
        return _BUILD + unfinished.name.removeprefix(_UNFINISHED)

    def _builds(self) -> Iterator[Path]:
        for each in self.folder.glob(f"{_BUILD}*"):
            if each.name.removeprefix(_BUILD).isdecimal():
                yield each

    # -- manifests -------------------------------------------------------------------------------

    def _read(self, path: Path) -> Manifest | None:
        try:
            manifest = parse(path.read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return manifest if manifest.python == present_python() else None

    def _write(self, path: Path, manifest: Manifest) -> None:
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text(manifest.to_text(), "utf-8")
        _sync(unfinished)
        unfinished.replace(path)

    def _has_present_sources(self, file: Path, manifest: Manifest) -> bool:
        stamps = changed_stamps(
            manifest, lambda path: stamp_of(f"{self.root}/{path}"), self.digest_of
        )
        if stamps:
            with suppress(OSError):  # then the files are read again next time
                self._write(file, manifest.restamped(stamps))
        return stamps is not None


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - of hundreds of files, before every start
    except OSError:
        return None
    return Stamp(found.st_size, found.st_mtime_ns)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unless_in_use(folder: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(folder / _IN_USE, os.O_RDONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)
