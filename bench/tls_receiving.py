"""Why TLS is between two buffers (decision 029): CPU to receive what librdkafka sends.

    PYTHONPATH=. .venv/bin/python -m bench.tls_receiving [--megabytes 300]

The sender gives the kernel two records of TLS for each of its own, 10 bytes and 1000, one by one.
The receiver, on a loop of its own, is `TlsTransport`, with and without knowing how much of a
request is to come, or an `ssl.SSLSocket`, whose every record is two system calls. One thread's CPU
is counted, for one GB.
"""

import argparse
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress

from cluster.runtime.clock import SystemClock
from cluster.runtime.loop import READABLE, EventLoop
from cluster.runtime.tls_context import server_context
from cluster.runtime.tls_transport import TlsScratch, TlsTransport
from tests.support.tls import authority, client_context, server_options

HEAD_BYTES, REST_BYTES = 10, 1_000
REQUEST_BYTES = 1_000_000
BUFFER_BYTES = 256 * 1024


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    authority()  # before there are processes: one for all
    ways: dict[str, Callable[[socket.socket, int], float]] = {
        "between two buffers, woken once for much": by_transport,
        "between two buffers, woken for each record": by_transport_woken_often,
        "SSLSocket": by_socket,
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(args.rounds):
        for name, receive in ways.items():
            best[name] = min(best[name], measured(receive, args.megabytes * 1_000_000))
    for name, seconds in best.items():
        print(f"{name:<44} {seconds:5.2f} s of CPU per GB")


def measured(receive: Callable[[socket.socket, int], float], size: int) -> float:
    """The receiver's CPU in seconds for a GB."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        far = socket.create_connection(listening.getsockname())
        near, _ = listening.accept()
    count = size // (HEAD_BYTES + REST_BYTES)
    child = os.fork()
    if child == 0:
        near.close()
        send(far, count)
        os._exit(0)
    far.close()
    try:
        seconds = receive(near, count * (HEAD_BYTES + REST_BYTES))
    finally:
        near.close()
        os.waitpid(child, 0)
    return seconds / size * 1e9


def send(connection: socket.socket, count: int) -> None:
    """What librdkafka does."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client = client_context().wrap_socket(connection, server_hostname="localhost")
    head, rest = os.urandom(HEAD_BYTES), os.urandom(REST_BYTES)
    for _ in range(count):
        client.sendall(head)
        client.sendall(rest)
    with suppress(OSError):
        client.read(1)  # until the receiver has all


def by_transport(connection: socket.socket, size: int, *, expects: bool = True) -> float:
    """As a broker receives."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = server_context(server_options()).context
    stream = context.wrap_bio(incoming, outgoing, server_side=True)
    while True:
        try:
            stream.do_handshake()
        except ssl.SSLWantReadError:
            connection.sendall(outgoing.read())
            incoming.write(connection.recv(65_536))
        else:
            break
    connection.sendall(outgoing.read())
    connection.setblocking(False)
    loop = EventLoop(SystemClock())
    transport = TlsTransport(connection, stream, incoming, outgoing, loop, TlsScratch())
    buffer = memoryview(bytearray(BUFFER_BYTES))
    left = size

    def on_ready(_events: int) -> None:
        nonlocal left
        with suppress(BlockingIOError):
            left -= transport.receive_into(buffer)
        if expects:
            transport.expect(min(left, left % REQUEST_BYTES or REQUEST_BYTES))

    loop.watch(transport, READABLE, on_ready)
    began = time.thread_time()
    while left:
        loop.run_once(None)
    seconds = time.thread_time() - began
    loop.unwatch(transport)
    loop.close()
    return seconds


def by_transport_woken_often(connection: socket.socket, size: int) -> float:
    """As `by_transport`, but the loop is told of each record."""
    return by_transport(connection, size, expects=False)


def by_socket(connection: socket.socket, size: int) -> float:
    """OpenSSL on the socket itself."""
    context = server_context(server_options()).context
    secure = context.wrap_socket(connection, server_side=True)
    secure.setblocking(False)
    poll = select.epoll()
    poll.register(secure, select.EPOLLIN)
    buffer = memoryview(bytearray(BUFFER_BYTES))
    left = size
    began = time.thread_time()
    while left:
        poll.poll()
        with suppress(ssl.SSLWantReadError):
            while left:
                left -= secure.recv_into(buffer)
    seconds = time.thread_time() - began
    poll.close()
    secure.close()
    return seconds


if __name__ == "__main__":
    main()
