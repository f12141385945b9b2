"""Places for windows."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow comes with the extra `rollup`")

import pyarrow as pa
import pyarrow.fs

from cluster.analytics.windows.store import (
    InUse,
    LocalStore,
    RemoteStore,
    Store,
    UnknownStore,
    open_store,
)


class Undecided(Exception):
    pass


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return LocalStore(tmp_path / "windows")
    files = pyarrow.fs.LocalFileSystem()
    for folder in ("a", "b"):
        (tmp_path / "windows" / folder).mkdir(parents=True)
    return RemoteStore(files, str(tmp_path / "windows"), "s3://bucket/windows")


def test_files_are_written_replaced_moved_and_removed(store: Store) -> None:
    assert store.list() == []
    assert not store.exists("a/b")
    store.write_bytes("a/b", b"one")
    store.write_bytes("a/b", b"two")
    store.write_bytes("b/c", b"three")
    with store.open_input("b/c") as file:
        assert file.read() == b"three"
    with contextlib.suppress(Undecided), store.open_output("b/c") as file:
        file.write(b"half")
        raise Undecided
    assert store.read_bytes("b/c") == b"three"
    store.move("a/b", "b/c")
    assert store.read_bytes("b/c") == b"two"
    assert store.list() == ["b/c"]
    assert store.list("b") == ["b/c"]
    with pytest.raises(FileNotFoundError):
        store.move("a/b", "b/c")
    with pytest.raises(FileNotFoundError):
        store.read_bytes("a/b")
    store.remove("b/c")
    store.remove("b/c")
    assert store.list() == []


def test_folders_go_with_their_last_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.write_bytes("a/b/c", b"")
    store.write_bytes("a/d", b"")
    store.remove("a/b/c")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "d"]
    store.remove("a/d")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_keeps_others_out_and_leaves_no_file(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with store.lock(), pytest.raises(InUse), LocalStore(tmp_path).lock():
        pass
    with LocalStore(tmp_path).lock():
        assert store.list() == []


def test_places_are_local_paths_or_object_stores(tmp_path: Path) -> None:
    for place in (tmp_path, str(tmp_path), f"file://{tmp_path}", f"file:{tmp_path}"):
        found = open_store(place)
        assert found.is_local
        assert found.place == str(tmp_path)
        assert found.shown("a") == str(tmp_path / "a")
    for scheme in ("s3", "s3a"):
        place = f"{scheme}://key:secret@bucket/some/place?region=us-east-1"
        remote = open_store(place)
        assert not remote.is_local
        assert remote.place == place
        assert remote.shown() == f"{scheme}://bucket/some/place"
        assert remote.shown("a/b") == f"{scheme}://bucket/some/place/a/b"


@pytest.mark.parametrize(
    "place",
    [
        *("nfs://host/windows", "s3://key:secret@", "hdfs://host/x?a=b", "nfs://u:secret@host/x"),
        *("s3://key:my secret@bucket/x", "s3a://key:my%secret@bucket/x", "s3://key:secret?@bucket"),
    ],
)
def test_other_places_are_refused_with_words(place: str) -> None:
    with pytest.raises(UnknownStore, match=r"^cannot (use|keep windows at) ") as found:
        open_store(place)
    assert "secret" not in str(found.value)
    assert "\n" not in str(found.value)


def test_a_store_without_credentials_is_an_error_of_the_system():
    class NoLogin:
        def __getattr__(self, _: str) -> Callable[..., None]:
            def fail(*_: object) -> None:
                raise pa.ArrowException("Unknown error: no token\nof any kind")

            return fail

    store = RemoteStore(NoLogin(), "bucket/w", "abfs://bucket/w")
    for attempt in (
        lambda: store.write_bytes("a", b""),
        lambda: store.read_bytes("a"),
        lambda: store.exists("a"),
        lambda: store.list(),
        lambda: store.remove("a"),
        lambda: store.open_input("a").__enter__(),
    ):
        with pytest.raises(OSError, match=r"^Unknown error: no token$"):
            attempt()
