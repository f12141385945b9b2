"""Asks the supervisor of a data directory over its Unix socket."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from cluster.model.errors import UserError
from cluster.runtime.installation import launcher, shown

_PATH_MAX_BYTES: Final = 100
"""`sun_path` holds 108 bytes on Linux, 104 on macOS."""


def ask_supervisor(path: Path, request: dict[str, Any], timeout_s: float = 5.0) -> dict[str, Any]:
    """Send one request and return the reply.

    Raises UserError with the supervisor's refusal, or when it does not answer within `timeout_s`,
    and NotRunning when there is no supervisor.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            with short_address(path) as address:
                connection.connect(address)
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("rb") as stream:
                line = stream.readline()
    except TimeoutError:
        raise UserError(f"the supervisor of {path.parent.parent} does not answer") from None
    except OSError:
        raise NotRunning(path.parent.parent) from None
    if not line:
        raise NotRunning(path.parent.parent)
    reply: dict[str, Any] = json.loads(line)
    if not reply.pop("ok"):
        raise UserError(reply["error"])
    return reply


class NotRunning(UserError):
    """No supervisor answers for this data directory."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            f"no cluster is running in {shown(data_dir)}:"
            f" start one with `{launcher(data_dir)} start`"
        )


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """A socket address for a path of any length: long ones go through an open folder in /proc."""
    if len(os.fsencode(path)) <= _PATH_MAX_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
