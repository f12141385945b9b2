"""A full disk: writes are refused, reads go on, nothing acknowledged is lost, and it passes."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat import zookeeper_wire as z
from tests.integration.registry_process import RegistryProcess, wait_until

NOT_READ_ONLY = -119
DISK_BYTES = 16 << 20
RESERVE_BYTES = 4 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 16 MiB; skipped where none can be mounted."""
    directory = tmp_path / "disk"
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(directory)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root can mount a small disk")
    yield directory
    subprocess.run(["umount", str(directory)], check=True)


def connect_and_end(port: int) -> None:
    client = z.WireClient(port)
    try:
        client.connect()
    finally:
        client.end()


def test_writes_are_refused_and_taken_again(small_disk: Path) -> None:
    with RegistryProcess(
        small_disk / "registry", snapshot_every=100, min_free_bytes=RESERVE_BYTES
    ) as registry:
        client = z.WireClient(registry.port)
        client.connect(timeout_ms=4_000)
        names: list[str] = []
        error = 0
        while error == 0:
            name = f"/n{len(names)}"
            error = client.call(z.CREATE, z.create(name, b"x" * 50_000)).error
            if error == 0:
                names.append(name)
            assert len(names) < DISK_BYTES / 50_000
        assert error == NOT_READ_ONLY
        assert client.call(z.MULTI, z.multi((z.DELETE, z.delete(names[0])))).error == NOT_READ_ONLY
        assert len(client.call(z.GET_DATA, z.watchable(names[0])).fields[0]) == 50_000
        assert client.call(z.PING).error == 0
        with pytest.raises(z.Closed):
            connect_and_end(registry.port)
        assert "refusing writes" in registry.log()
        session = (client.session_id, client.password)
        client.drop()
        registry.kill()
        registry.start()
        again = z.WireClient(registry.port)
        again.connect(timeout_ms=4_000, session_id=session[0], password=session[1])
        assert again.granted_timeout_ms == 4_000
        for name in names:
            assert again.call(z.EXISTS, z.watchable(name)).error == 0
        again.call(z.CLOSE_SESSION)
        again.drop()

        def is_taken() -> bool:
            other = z.WireClient(registry.port)
            try:
                other.connect()
                return other.call(z.CREATE, z.create("/after")).error == 0
            except z.Closed:
                return False
            finally:
                other.end()

        subprocess.run(
            ["mount", "-o", f"remount,size={4 * DISK_BYTES}", str(small_disk)], check=True
        )
        wait_until(is_taken, "writes to be taken")
        assert "taking writes" in registry.log()
