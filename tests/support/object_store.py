"""An object store on loopback: `moto`, an imitation of S3, in an environment of its own."""

import contextlib
import functools
import subprocess
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow.fs
import pytest

from tests.compat.installing import CACHE, may_install, one_at_a_time

_PACKAGE: Final = "moto[server]==5.2.5"
_SERVER: Final = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


def need_object_store() -> Path:
    """The Python that can run the store; skips the test if there is none."""
    place, problem = _environment()
    if place is None:
        pytest.skip(problem)
    return place


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """A bucket that is empty, as the beginning of a URI and the query that belongs to it, with
    `{}` for the path between them."""
    with subprocess.Popen(
        [need_object_store(), "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:  # which ends with its stdin
        assert server.stdout is not None
        query = f"scheme=http&endpoint_override=127.0.0.1:{int(server.stdout.readline())}"
        options = f"{query}&region=us-east-1"
        files, bucket = pyarrow.fs.FileSystem.from_uri(
            f"s3://a-key:a-secret@windows?{options}&allow_bucket_creation=true"
        )
        files.create_dir(bucket)
        yield f"s3://a-key:a-secret@windows/{{}}?{options}"


@functools.cache
def _environment() -> tuple[Path | None, str]:
    place = CACHE / _PACKAGE.replace("[server]==", "-")
    python = place / "bin" / "python"
    if python.exists():
        return python, ""
    if not may_install():
        return None, f"{_PACKAGE} is not here; MILENA_TEST_INSTALL=1 installs it"
    with one_at_a_time("moto"), tempfile.TemporaryDirectory(dir=CACHE) as workshop:
        if python.exists():
            return python, ""
        new = Path(workshop) / "environment"
        venv.create(new, with_pip=True)
        done = subprocess.run(
            [new / "bin" / "python", "-m", "pip", "install", "--quiet", _PACKAGE],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            return None, f"{_PACKAGE} cannot be installed: {done.stderr.strip()[-200:]}"
        new.rename(place)
    return python, ""
