"""The journal: what was appended is recovered, torn tails are cut off, damage is refused."""

import logging
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.coordinator.registry.server.acl import OPEN_ACL
from cluster.coordinator.registry.server.journal_files import KEPT_SNAPSHOTS, JournalFiles
from cluster.coordinator.registry.server.journal_format import FILE_HEADER, encode_entry
from cluster.coordinator.registry.server.node import ttl_owner
from cluster.coordinator.registry.server.state import RegistryState
from cluster.coordinator.registry.server.transactions import (
    AclChanged,
    Change,
    DataChanged,
    NodeCreated,
    NodeDeleted,
    SessionClosed,
    SessionOpened,
    Transaction,
    decode_transaction,
    encode_transaction,
)
from cluster.model.clocks import MonotonicMs, WallMs
from cluster.model.errors import StorageFailed

TICK_MS = 2_000


class Registry:
    """A state and its files, fed with transactions."""

    def __init__(self, directory: Path) -> None:
        self.files, self.state = JournalFiles.open(directory, TICK_MS, MonotonicMs(0), fsync=True)

    def commit(self, *changes: Change) -> None:
        transaction = Transaction(self.state.last_zxid + 1, WallMs(1_000), changes)
        self.state.apply(transaction, MonotonicMs(0))
        self.files.append([encode_transaction(transaction)])


def create(path: str, owner: int = 0) -> NodeCreated:
    return NodeCreated(path, path.encode(), OPEN_ACL, owner)


def paths(state: RegistryState) -> set[str]:
    return {path for path, _ in state.tree.items() if not path.startswith("/zookeeper")} - {"/"}


def newest_journal(directory: Path) -> Path:
    return max(directory.glob("journal.*"))


def fingerprint(state: RegistryState) -> object:
    sessions = sorted((one.session_id, one.timeout_ms, one.password) for one in state.sessions)
    nodes = {
        path: (node.data, node.acl, set(node.children or ()), node.encode_stat())
        for path, node in state.tree.items()
    }
    return (state.last_zxid, state.sessions.highest_session_id, sessions, nodes)


EVERY_CHANGE: tuple[Change, ...] = (
    SessionOpened(7, 4_000, b"p" * 16),
    create("/a"),
    create("/a/e", 7),
    create("/a/t", ttl_owner(5)),
    NodeCreated("/a/null", None, OPEN_ACL, 0),
    DataChanged("/a", b"new"),
    AclChanged("/a", OPEN_ACL),
    NodeDeleted("/a/e"),
    SessionClosed(7),
)


def test_every_kind_of_change_survives_its_bytes() -> None:
    transaction = Transaction(3, WallMs(1_000), EVERY_CHANGE)
    assert decode_transaction(encode_transaction(transaction)) == transaction


def test_recovery_gives_the_same_state(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for change in EVERY_CHANGE:
        registry.commit(change)
    registry.commit(SessionOpened(8, 6_000, b"q" * 16), create("/e", 8))
    registry.files.close()
    recovered = Registry(tmp_path)
    assert fingerprint(recovered.state) == fingerprint(registry.state)
    assert recovered.state.tree.ephemerals_of(8) == ["/e"]
    recovered.files.write_snapshot(recovered.state)
    recovered.commit(create("/after"))
    recovered.files.close()
    again = Registry(tmp_path)
    assert fingerprint(again.state) == fingerprint(recovered.state)
    assert again.files.unsnapshotted_count == 1
    again.files.close()


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 20])
def test_a_torn_tail_is_cut_off_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    registry = Registry(tmp_path)
    registry.commit(create("/a"))
    whole_bytes = newest_journal(tmp_path).stat().st_size
    registry.commit(create("/b"))
    registry.files.close()
    journal = newest_journal(tmp_path)
    journal.write_bytes(journal.read_bytes()[: whole_bytes + cut])
    with caplog.at_level(logging.WARNING):
        recovered = Registry(tmp_path)
    assert "cut off a torn tail" in caplog.text
    assert "zxid 0x1" in caplog.text
    assert paths(recovered.state) == {"/a"}
    recovered.commit(create("/c"))
    recovered.files.close()
    again = Registry(tmp_path)
    assert paths(again.state) == {"/a", "/c"}
    again.files.close()


def test_a_flipped_bit_in_the_last_entry_is_a_torn_tail(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.commit(create("/a"))
    registry.commit(create("/b"))
    registry.files.close()
    journal = newest_journal(tmp_path)
    content = bytearray(journal.read_bytes())
    content[-1] ^= 1
    journal.write_bytes(content)
    recovered = Registry(tmp_path)
    assert paths(recovered.state) == {"/a"}
    recovered.files.close()


@pytest.mark.parametrize("content", [b"", b"MLN", b"\0" * 64])
def test_a_journal_whose_header_is_torn_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    registry = Registry(tmp_path)
    registry.files.close()
    newest_journal(tmp_path).write_bytes(content)
    recovered = Registry(tmp_path)
    recovered.commit(create("/a"))
    recovered.files.close()
    again = Registry(tmp_path)
    assert paths(again.state) == {"/a"}
    again.files.close()


def test_old_files_are_removed_and_what_remains_is_enough(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number in range(6):
        registry.commit(create(f"/n{number}"))
        registry.files.write_snapshot(registry.state)
    registry.commit(create("/last"))
    registry.files.close()
    snapshots = sorted(tmp_path.glob("snapshot.*"))
    assert len(snapshots) == KEPT_SNAPSHOTS
    assert len(list(tmp_path.glob("journal.*"))) == KEPT_SNAPSHOTS
    for damaged in (snapshots[-1], snapshots[-2]):
        damaged.write_bytes(damaged.read_bytes()[:-1])
        recovered = Registry(tmp_path)
        assert fingerprint(recovered.state) == fingerprint(registry.state)
        recovered.files.close()
    snapshots[0].write_bytes(b"")
    with pytest.raises(StorageFailed, match="missing"):
        Registry(tmp_path)


def test_damage_that_loses_acknowledged_writes_is_refused(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    registry.commit(create("/a"))
    registry.files.write_snapshot(registry.state)
    registry.files.close()
    journals = sorted(tmp_path.glob("journal.*"))
    [snapshot] = tmp_path.glob("snapshot.*")
    whole = journals[0].read_bytes()
    snapshot.write_bytes(b"nonsense")
    journals[0].write_bytes(whole[:-1])
    with pytest.raises(StorageFailed, match="damaged"):
        Registry(tmp_path)
    journals[0].unlink()
    with pytest.raises(StorageFailed, match="damaged"):
        Registry(tmp_path)


def test_missing_transactions_are_refused(tmp_path: Path) -> None:
    third = encode_transaction(Transaction(3, WallMs(0), (create("/c"),)))
    (tmp_path / f"journal.{1:016x}").write_bytes(FILE_HEADER + encode_entry(third))
    with pytest.raises(StorageFailed, match="missing"):
        Registry(tmp_path)


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Allow the process to open only `count` more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("count", [0, 1])
def test_without_a_descriptor_for_a_snapshot_the_journal_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    """Whoever opens enough connections can bring that about. With 1 it fails when the next journal
    file is already there.
    """
    registry = Registry(tmp_path)
    registry.commit(create("/a"))
    with descriptors_left(count), caplog.at_level(logging.WARNING):
        registry.files.write_snapshot(registry.state)
    assert "no snapshot" in caplog.text
    assert [path.name for path in tmp_path.glob("journal.*")] == [f"journal.{1:016x}"]
    assert list(tmp_path.glob("*.tmp")) == []
    registry.commit(create("/b"))
    registry.files.close()
    recovered = Registry(tmp_path)
    assert fingerprint(recovered.state) == fingerprint(registry.state)
    recovered.files.write_snapshot(recovered.state)
    recovered.commit(create("/c"))
    recovered.files.close()
    again = Registry(tmp_path)
    assert paths(again.state) == {"/a", "/b", "/c"}
    again.files.close()


def test_snapshot_tolerates_files_removed_by_others(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    for number in range(KEPT_SNAPSHOTS + 1):
        registry.commit(create(f"/n{number}"))
        registry.files.write_snapshot(registry.state)
    for path in sorted(tmp_path.glob("snapshot.*"))[:-1]:
        path.unlink()
    registry.commit(create("/last"))
    registry.files.write_snapshot(registry.state)
    registry.files.close()
    assert fingerprint(Registry(tmp_path).state) == fingerprint(registry.state)


def test_only_the_owner_may_read_the_files(tmp_path: Path) -> None:
    """They hold what ACLs protect, and the passwords of sessions."""
    registry = Registry(tmp_path)
    registry.commit(create("/n"))
    registry.files.write_snapshot(registry.state)
    registry.files.close()
    kinds = {path.name.partition(".")[0] for path in tmp_path.iterdir()}
    assert kinds == {"journal", "registry", "snapshot"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_the_size_of_a_directory_that_is_gone_is_nothing(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "data")
    assert registry.files.size_bytes() > 0
    (tmp_path / "data").rename(tmp_path / "moved")
    assert registry.files.size_bytes() == 0
    registry.files.close()


def test_one_directory_has_one_registry(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    with pytest.raises(StorageFailed, match="another process"):
        Registry(tmp_path)
    registry.files.close()
    Registry(tmp_path).files.close()


def test_leftovers_of_an_unfinished_snapshot_are_removed(tmp_path: Path) -> None:
    leftover = tmp_path / f"snapshot.{5:016x}.tmp"
    leftover.write_bytes(b"half")
    Registry(tmp_path).files.close()
    assert not leftover.exists()
