"""Connections that begin a handshake of TLS and never end it, from a process of their own.

    python -m tests.support.half_open HOST PORT COUNT KIND

prints one line when it has begun all of them, with the seconds that took, and leaves when its
standard input ends. KIND: `hello` sends a ClientHello and reads nothing; `half` sends a half of
it; `silent` sends nothing.
"""

import contextlib
import selectors
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

OTHER_HOST: Final = "127.0.0.2"
"""Where they come from, unlike clients that choose no address."""
AT_ONCE: Final = 500
"""Connections that are being made at the same time."""


@contextlib.contextmanager
def half_open(address: tuple[str, int], count: int, kind: str) -> Iterator[subprocess.Popen[str]]:
    """While they are there; the process prints its line when all have begun."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.half_open", *map(str, (*address, count, kind))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def hello_of(kind: str) -> bytes:
    """What each sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        stream.do_handshake()
    hello = outgoing.read()
    return {"hello": hello, "half": hello[: len(hello) // 2], "silent": b""}[kind]


def main(host: str, port: int, count: int, kind: str) -> None:
    """Begin that many, and keep them."""
    hello, began = hello_of(kind), time.perf_counter()
    kept: list[socket.socket] = []
    with selectors.DefaultSelector() as selector:
        begun = 0
        while len(kept) < count:
            while begun < count and begun - len(kept) < AT_ONCE:
                one = socket.socket()
                one.setblocking(False)
                if sys.platform == "linux":  # where all of 127.0.0.0/8 is this machine
                    one.bind((OTHER_HOST, 0))
                one.connect_ex((host, port))
                selector.register(one, selectors.EVENT_WRITE)
                begun += 1
            for key, _ in selector.select(1):
                assert isinstance(key.fileobj, socket.socket)
                selector.unregister(key.fileobj)
                kept.append(key.fileobj)
                with contextlib.suppress(OSError):
                    key.fileobj.send(hello)
    print(f"{time.perf_counter() - began:.2f}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
