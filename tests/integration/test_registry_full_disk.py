"""A full disk: what takes much is refused, deletions go on, nothing acknowledged is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import zookeeper_wire as z
from tests.integration.registry_process import RegistryProcess, wait_until
from tests.support.small_disk import MIB, SmallDisk, mounted

NOT_READ_ONLY = -119
NODE_EXISTS = -110
DISK_BYTES = 16 * MIB
MIN_FREE_BYTES = 4 * MIB


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "disk", DISK_BYTES) as made:
        yield made


@pytest.fixture
def registry(disk: SmallDisk) -> Iterator[RegistryProcess]:
    with RegistryProcess(
        disk.path / "registry", snapshot_every=100, min_free_bytes=MIN_FREE_BYTES
    ) as made:
        yield made


def connected(registry: RegistryProcess) -> z.WireClient:
    client = z.WireClient(registry.port)
    client.connect(timeout_ms=4_000)
    return client


def is_taken(registry: RegistryProcess) -> bool:
    """Whether a session and a znode are made."""
    client = z.WireClient(registry.port)
    try:
        client.connect()
        return client.call(z.CREATE, z.create("/after")).error == 0
    except z.Closed:
        return False
    finally:
        client.end()


def test_registry_on_a_full_disk_refuses_large_writes_and_serves_the_rest(
    registry: RegistryProcess,
) -> None:
    client = connected(registry)
    names: list[str] = []
    error = 0
    while error == 0:
        name = f"/n{len(names)}"
        error = client.call(z.CREATE, z.create(name, b"x" * 50_000)).error
        if error == 0:
            names.append(name)
        assert len(names) < DISK_BYTES / 50_000
    assert error == NOT_READ_ONLY
    assert "refusing writes that need much" in registry.log()
    other = connected(registry)
    assert other.call(z.CREATE, z.create("/small")).error == NOT_READ_ONLY
    assert other.call(z.CREATE, z.create(names[0])).error == NODE_EXISTS
    assert other.call(z.CREATE, z.create("/here", flags=z.EPHEMERAL)).error == 0
    assert other.call(z.SET_DATA, z.set_data("/here", b"y" * 10_000)).error == 0
    assert other.call(z.SET_DATA, z.set_data("/here", b"y" * 50_000)).error == NOT_READ_ONLY
    several = z.multi((z.DELETE, z.delete(names[0])), (z.SET_DATA, z.set_data("/here", b"z")))
    assert other.call(z.MULTI, several).error == 0
    growing = z.multi((z.DELETE, z.delete(names[1])), (z.CREATE, z.create("/grown", b"z")))
    assert other.call(z.MULTI, growing).error == NOT_READ_ONLY
    other.end()
    client.drop()
    registry.kill()
    registry.start()
    again = connected(registry)
    assert again.call(z.EXISTS, z.watchable(names[0])).error != 0
    for name in names[1:]:
        assert again.call(z.EXISTS, z.watchable(name)).error == 0
    again.end()


def test_the_reserve_lets_deletions_through_on_a_disk_that_others_have_filled(
    registry: RegistryProcess, disk: SmallDisk
) -> None:
    client = connected(registry)
    assert client.call(z.CREATE, z.create("/n", b"x" * 50_000)).error == 0
    wait_until(lambda: (disk.path / "registry" / "reserve").exists(), "the reserve")
    disk.fill(left_bytes=0)
    wait_until(lambda: "of reserve are given back" in registry.log(), "the reserve to be removed")
    assert client.call(z.DELETE, z.delete("/n")).error == 0
    assert client.call(z.CREATE, z.create("/m")).error == NOT_READ_ONLY

    (disk.path / "more").write_bytes(bytes(disk.free_bytes - 100_000))
    wait_until(lambda: ": refusing writes\n" in registry.log(), "the disk to be full")
    assert client.call(z.DELETE, z.delete("/no-such")).error == NOT_READ_ONLY
    assert client.call(z.PING).error == 0
    assert not is_taken(registry)

    disk.empty()
    wait_until(lambda: is_taken(registry), "writes to be taken")
    assert "taking writes" in registry.log()
    wait_until(lambda: (disk.path / "registry" / "reserve").exists(), "the reserve")
    client.end()
