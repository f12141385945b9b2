"""The place of windows: a folder of this machine, or of an object store.

Paths are relative to it, with `/`. Files are written atomically: a reader sees the state before or
after, never a part. Errors are OSErrors.
"""

import contextlib
import fcntl
import io
import os
import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.fs

from cluster.analytics.windows.layout import META
from cluster.analytics.windows.places import local_path, scheme_of

_ATOMIC: Final = ("s3", "s3a", "gs", "gcs", "abfs", "abfss")
"""Schemes of stores where a file appears, or replaces another, when it is closed."""
_GCS: Final = ("gs", "gcs")
_RETRY_S: Final = 30
"""How long Google's library tries to reach a store, unless the URI says so: its own default is 15
min."""


class InUse(Exception):
    """Another process is writing windows to this directory."""


class UnknownStore(Exception):
    """A place that names no directory or object store; the message says why."""


class Store(Protocol):
    """Files below one place."""

    place: str
    """The argument with which `open_store` creates the same store."""
    is_local: bool

    def shown(self, path: str = "") -> str:
        """A path for people, without credentials."""

    def read_bytes(self, path: str) -> bytes:
        """Raises FileNotFoundError, OSError."""

    def write_bytes(self, path: str, content: bytes) -> None:
        """Write or replace a file atomically and durably."""

    def open_output(self, path: str) -> AbstractContextManager[IO[bytes]]:
        """A file that exists, replacing another, at the end of the block unless that raises."""

    def open_input(self, path: str) -> AbstractContextManager[Any]:
        """A file for PyArrow to read. Raises FileNotFoundError, OSError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file."""

    def list(self, prefix: str = "") -> list[str]:
        """The files in a folder and below, sorted; none if there is no such folder."""

    def move(self, source: str, target: str) -> None:
        """Rename a file, replacing another. Raises FileNotFoundError."""

    def remove(self, path: str) -> None:
        """Remove a file if it exists, and folders that are empty then."""

    def lock(self) -> AbstractContextManager[None]:
        """Keep other writers out within the block, if the store can. Raises InUse."""


def open_store(place: str | os.PathLike[str]) -> Store:
    """The store at a local path or a URI.

    A URI is like `s3://BUCKET/PREFIX?region=...`, as `pyarrow.fs.FileSystem.from_uri` takes it.
    Raises UnknownStore, OSError.
    """
    text = os.fspath(place)
    try:
        folder = Path(place) if isinstance(place, os.PathLike) else local_path(text)
    except ValueError as problem:
        raise UnknownStore(str(problem)) from None
    if folder is not None:
        return LocalStore(folder)
    scheme = scheme_of(text)
    if scheme not in _ATOMIC:
        raise UnknownStore(
            f"cannot keep windows at {without_secrets(text)}: {scheme} is not a store in which a"
            " file is replaced in one step; use a local path, s3://, gs:// or abfs://"
        )
    uri = f"{'s3' if scheme == 's3a' else scheme}://{text.partition('://')[2]}"
    if scheme in _GCS and "retry_limit_seconds=" not in uri:
        uri += f"{'&' if '?' in uri else '?'}retry_limit_seconds={_RETRY_S}"
    try:
        files, base = pyarrow.fs.FileSystem.from_uri(uri)
    except (pa.ArrowException, OSError, TypeError) as problem:
        reason = str(problem).partition("\n")[0].replace(f"'{uri}'", "it").replace(uri, "it")
        raise UnknownStore(f"cannot use {without_secrets(text)}: {reason}") from None
    if not base.strip("/"):
        raise UnknownStore(f"cannot use {without_secrets(text)}: it names no bucket")
    return RemoteStore(files, base, text)


@contextlib.contextmanager
def locked_folder(folder: Path) -> Iterator[None]:
    """Lock a folder within the block, for one process at a time. Raises InUse, OSError."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUse from None
        yield
    finally:
        os.close(place)


class LocalStore:
    """A folder of this machine. What a method has written survives a crash of the machine."""

    is_local = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = str(root)

    def shown(self, path: str = "") -> str:
        return str(self.root / path)

    def read_bytes(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def write_bytes(self, path: str, content: bytes) -> None:
        with self.open_output(path) as file:
            file.write(content)

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        """Several processes may write the same file: the last one wins."""
        final = self.root / path
        _make_folder(final.parent)
        draft = final.with_name(f".{final.name}.{secrets.token_hex(4)}")
        try:
            with draft.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            draft.replace(final)
        except BaseException:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise
        _sync(final.parent)

    @contextlib.contextmanager
    def open_input(self, path: str) -> Iterator[IO[bytes]]:
        with (self.root / path).open("rb") as file:
            yield file

    def exists(self, path: str) -> bool:
        return (self.root / path).is_file()

    def list(self, prefix: str = "") -> list[str]:
        found = []
        for folder, _, names in os.walk(self.root / prefix):
            place = Path(folder).relative_to(self.root)
            found += [(place / name).as_posix() for name in names]
        return sorted(found)

    def move(self, source: str, target: str) -> None:
        final = self.root / target
        _make_folder(final.parent)
        (self.root / source).replace(final)
        _sync(final.parent)
        self._prune((self.root / source).parent)

    def remove(self, path: str) -> None:
        file = self.root / path
        try:
            file.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        if file.parent.exists():
            self._prune(file.parent)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """The lock is on a folder, so it leaves no file, and ends with the process."""
        folder = self.root / META
        _make_folder(folder)
        with locked_folder(folder):
            yield

    def _prune(self, folder: Path) -> None:
        kept = {self.root, self.root / META}
        with contextlib.suppress(OSError):  # not empty
            while folder not in kept:
                folder.rmdir()
                folder = folder.parent


class RemoteStore:
    """A folder of an object store, through PyArrow. It cannot lock."""

    is_local = False

    def __init__(self, files: pyarrow.fs.FileSystem, base: str, place: str) -> None:
        self.place = place
        self._files = files
        self._base = base.rstrip("/")

    def shown(self, path: str = "") -> str:
        known = without_secrets(self.place).rstrip("/")
        return f"{known}/{path}" if path else known

    def read_bytes(self, path: str) -> bytes:
        with _os_errors(), self._files.open_input_stream(self._full(path)) as stream:
            content: bytes = stream.read()
            return content

    def write_bytes(self, path: str, content: bytes) -> None:
        with _os_errors(), self._files.open_output_stream(self._full(path)) as stream:
            stream.write(content)

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        """The file is kept in memory until then: closing a stream of an object store puts in place
        whatever was written.
        """
        content = io.BytesIO()
        yield content
        self.write_bytes(path, content.getvalue())

    @contextlib.contextmanager
    def open_input(self, path: str) -> Iterator[Any]:
        with _os_errors():
            file = self._files.open_input_file(self._full(path))
        with file:
            yield file

    def exists(self, path: str) -> bool:
        with _os_errors():
            found = self._files.get_file_info(self._full(path))
        return bool(found.type == pyarrow.fs.FileType.File)

    def list(self, prefix: str = "") -> list[str]:
        place = self._full(prefix).rstrip("/")
        chosen = pyarrow.fs.FileSelector(place, allow_not_found=True, recursive=True)
        with _os_errors():
            found = self._files.get_file_info(chosen)
        return sorted(
            each.path.removeprefix(f"{self._base}/")
            for each in found
            if each.type == pyarrow.fs.FileType.File
        )

    def move(self, source: str, target: str) -> None:
        """A crash may leave both, with the same content."""
        if not self.exists(source):
            raise FileNotFoundError(2, "No such file", self.shown(source))
        with _os_errors():
            self._files.copy_file(self._full(source), self._full(target))
        self.remove(source)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), _os_errors():
            self._files.delete_file(self._full(path))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """`WindowDirectory` detects another writer by the manifest."""
        yield

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """Raise an OSError for PyArrow's other errors of an object store in the block."""
    try:
        yield
    except pa.ArrowException as problem:
        if isinstance(problem, OSError):
            raise
        raise OSError(str(problem).partition("\n")[0]) from None


def without_secrets(place: str) -> str:
    """A URI without its user and its query, which may contain keys."""
    scheme, separator, rest = place.partition("://")
    if not separator:
        return place
    known, _, query = rest.partition("?")
    if "@" in query and "@" not in known:  # a secret with a `?`, which no URI may have there
        known = "..."
    return f"{scheme}{separator}{known.rpartition('@')[2]}"


def _make_folder(folder: Path) -> None:
    """Make a folder and its missing parents durably."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        _sync(each.parent)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
