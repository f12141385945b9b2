"""Bounds on the memory that hostile connections can take up in a broker and in the registry.

The arithmetic is in docs/memory.md; the settings here are small, so that its terms can be told
apart. Meanwhile another client is served; the memory is freed when the connections have closed.
"""

import contextlib
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import psutil
import pytest
from kazoo.client import KazooClient

from cluster.brokers.security.login import API_VERSIONS_MAX
from cluster.metrics.stats_reader import read_stats
from cluster.model.errors import ErrorCode
from cluster.protocol.api import ApiKey
from tests.support.broker_probes import batch_of, fetched, produced
from tests.support.half_open import half_open
from tests.support.kafka_wire import (
    WireClient,
    fetch_from,
    frame_of,
    header_of,
    metadata_request,
    request,
    sized,
    wanted,
)
from tests.support.running_cluster import HOST, Address, Cluster
from tests.support.tls import PASSWORD, a_server, client_context
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

MIB = 1 << 20
CONNECTIONS = 100
LARGEST_REQUEST = 8 * MIB
QUEUED = 16 * MIB
DECODED = 48 * MIB
"""One request of 2 MB that is nothing but partitions, while it is handled."""
BROKER_BOUND = QUEUED + LARGEST_REQUEST + QUEUED // 4 + QUEUED // 4 + DECODED
REGISTRY_RECEIVING, REGISTRY_UNSENT, REGISTRY_ROUND = 32 * MIB, 64 * MIB, 16 * MIB
PER_CONNECTION = 64 << 10
SLACK = 24 * MIB
"""For fragmentation of the heap, and for memory that is in use at the time of a sample."""
HALF_OPEN = 1_500
HANDSHAKES_BOUND = 1_024 * 46 * 1024 + HALF_OPEN * 18 * 1024
GIVEN_BACK_WITHIN = 40 * MIB
"""The pool of buffers keeps up to 32 MiB."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    overrides = {
        "socket.request.max.bytes": str(LARGEST_REQUEST),
        "queued.max.request.bytes": str(QUEUED),
    }
    directory = tmp_path_factory.mktemp("hostile")
    with Cluster(directory, brokers=1, overrides=overrides) as cluster:
        yield cluster


class Hostile:
    """Connections that send given bytes and never read."""

    def __init__(self, address: Address, count: int = CONNECTIONS) -> None:
        self._sockets = []
        for _ in range(count):
            one = socket.socket()
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            one.connect(address)
            one.setblocking(False)
            self._sockets.append(one)

    def send(self, content: bytes) -> None:
        """Send on each connection as much as is taken within some seconds."""
        left = {one: memoryview(content) for one in self._sockets}

        def is_all_sent() -> bool:
            is_taken = True
            while is_taken:
                is_taken = False
                for one, rest in list(left.items()):
                    try:
                        left[one] = rest[one.send(rest[:65_536]) :]
                        is_taken = True
                    except BlockingIOError:
                        continue
                    except OSError:
                        left[one] = rest[:0]
                    if not left[one]:
                        del left[one]
            return not left

        with contextlib.suppress(AssertionError):
            wait_until(is_all_sent, "all of it to be sent", 5)

    def close(self) -> None:
        for one in self._sockets:
            one.close()


def unique_bytes(pid: int) -> int:
    size: int = psutil.Process(pid).memory_full_info().uss
    return size


def eight_bytes(_: str) -> bytes:
    return struct.pack(">ihh", LARGEST_REQUEST, 3, 1)


def half_requests(_: str) -> bytes:
    return struct.pack(">i", LARGEST_REQUEST) + b"x" * (LARGEST_REQUEST - 1)


def unread_metadata(_: str) -> bytes:
    every_topic = request(
        ApiKey.METADATA,
        12,
        topics=None,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    return frame_of(every_topic, 1) * 20_000


def parked_fetches(topic: str) -> bytes:
    """One partition again and again; it waits, with all of them, for what never comes."""
    many = [wanted(0, 0)] * 60_000
    return frame_of(fetch_from((topic, many), max_wait_ms=600_000, min_bytes=1 << 30), 1)


def backlog_behind_a_parked_fetch(topic: str) -> bytes:
    parked = fetch_from((topic, [wanted(0, 0)]), max_wait_ms=600_000, min_bytes=1 << 30)
    return frame_of(parked, 1) + frame_of(metadata_request(), 2) * 20_000


def many_empty_topics(_: str) -> bytes:
    body = struct.pack(">hhii", -1, 1, 1_000, 1_000_000) + bytes(6 * 1_000_000)
    return sized(header_of(ApiKey.PRODUCE, 3) + body)


@pytest.mark.parametrize(
    "attack",
    [
        eight_bytes,
        half_requests,
        unread_metadata,
        parked_fetches,
        backlog_behind_a_parked_fetch,
        many_empty_topics,
    ],
)
def test_hostile_connections_take_no_more_of_a_broker_than_stated(
    small: Cluster, attack: Callable[[str], bytes]
) -> None:
    topic = create_topic(small, assignments=[[0]])
    wide = create_topic(small, assignments=[[0]] * 50)
    pid = small.pid(0)
    assert pid is not None
    with WireClient(small.addresses[0]) as bystander:
        produced(bystander, wide, bytes(batch_of(b"before")))
        before = unique_bytes(pid)
        hostile = Hostile(small.addresses[0])
        hostile.send(attack(topic))
        worst = unique_bytes(pid) - before
        for number in range(20):
            answer = produced(bystander, wide, bytes(batch_of(b"meanwhile")))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, number + 1)
            assert fetched(bystander, wide, number).high_watermark == number + 2
            worst = max(worst, unique_bytes(pid) - before)
        hostile.close()
        print(f"{attack.__name__}: {worst / MIB:.1f} MiB")
        assert worst <= BROKER_BOUND + CONNECTIONS * PER_CONNECTION + SLACK
        wait_until(
            lambda: unique_bytes(pid) <= before + GIVEN_BACK_WITHIN, "the memory to be given back"
        )
        print(f"after closing: {(unique_bytes(pid) - before) / MIB:.1f} MiB")
    assert small.pid(0) == pid


def test_a_large_request_gets_through_although_silent_half_requests_hold_the_memory(
    small: Cluster,
) -> None:
    topic = create_topic(small, assignments=[[0]])
    hostile = Hostile(small.addresses[0], 20)
    hostile.send(struct.pack(">i", LARGEST_REQUEST) + b"x" * (2 * MIB))
    with WireClient(small.addresses[0], timeout_s=90) as honest:
        batch = bytes(batch_of(b"v" * 900_000))
        assert produced(honest, topic, batch).error_code == ErrorCode.none
    hostile.close()


@pytest.fixture(scope="module")
def encrypted(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Cluster, Address, Address]]:
    """And the addresses of its plain and of its TLS listener."""
    tmp_path = tmp_path_factory.mktemp("encrypted")
    store = tmp_path / "broker.p12"
    store.touch(0o600)
    store.write_bytes(a_server().pkcs12("broker", PASSWORD))
    overrides = {
        "listeners": "PLAINTEXT://:0,SSL://:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": PASSWORD,
        "socket.listen.backlog.size": str(HALF_OPEN),
    }
    with Cluster(tmp_path / "cluster", brokers=1, overrides=overrides) as cluster:
        listeners = cluster.state()["brokers"][0]["listeners"]
        ports = {each["name"]: each["port"] for each in listeners}
        yield cluster, (HOST, ports["PLAINTEXT"]), (HOST, ports["SSL"])


@pytest.mark.parametrize("kind", ["hello", "half"])
def test_half_open_handshakes_take_no_more_than_stated(
    encrypted: tuple[Cluster, Address, Address], kind: str
) -> None:
    cluster, plain, secure = encrypted
    topic = create_topic(cluster, assignments=[[0]])
    pid = cluster.pid(0)
    context = client_context()

    def serve_another(number: int) -> None:
        with WireClient(plain) as bystander:
            answer = produced(bystander, topic, bytes(batch_of(b"meanwhile")))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, number)
        with (
            socket.create_connection(secure, 20) as connection,
            context.wrap_socket(connection, server_hostname="localhost") as client,
        ):
            client.sendall(frame_of(metadata_request(), 1))
            assert client.recv(4)

    serve_another(0)
    before = unique_bytes(pid)
    with half_open(secure, HALF_OPEN, kind) as attack:
        assert attack.stdout.readline()
        worst = unique_bytes(pid) - before
        numbers = count(1)

        def is_full() -> bool:
            nonlocal worst
            serve_another(next(numbers))
            worst = max(worst, unique_bytes(pid) - before)
            return kind != "hello" or "gave way" in cluster.log_text("broker-0")

        wait_until(is_full, "handshakes to give way")
    print(f"{kind}: {worst / MIB:.1f} MiB")
    assert worst <= HANDSHAKES_BOUND + SLACK
    wait_until(
        lambda: unique_bytes(pid) <= before + GIVEN_BACK_WITHIN, "the memory to be given back"
    )
    assert cluster.pid(0) == pid


CLIENT_ID_BYTES = 32_000
STRANGERS_IDS = 6_000
"""Kept whole they would be 190 MB, in each of several places."""
NAMES_BOUND = 64 * MIB
NO_STRANGERS_BOUND = 8 * MIB


def answers_read(connection: socket.socket, clients: range) -> int:
    """How many requests, each with a client id of its own, are answered until it is closed."""
    answered = 0
    with contextlib.suppress(OSError), connection.makefile("rb") as answers:
        for first in range(0, len(clients), 50):
            at_once = clients[first : first + 50]
            frames = (
                header_of(ApiKey.API_VERSIONS, 0, each, b"%0*d" % (CLIENT_ID_BYTES, each))
                for each in at_once
            )
            connection.sendall(b"".join(map(sized, frames)))
            for _ in at_once:
                size = answers.read(4)
                if len(size) < 4 or not answers.read(int.from_bytes(size)):
                    return answered
                answered += 1
    return answered


@contextlib.contextmanager
def watched(pid: int, serve: Callable[[], None]) -> Iterator[list[float]]:
    """Serves a bystander meanwhile. The list gets the worst memory in bytes, and the longest
    service in seconds, when the block is over.
    """
    found: list[float] = []
    over = threading.Event()
    before = unique_bytes(pid)

    def look() -> None:
        worst, longest_s = 0, 0.0
        while not over.is_set():
            began_s = time.monotonic()
            serve()
            longest_s = max(longest_s, time.monotonic() - began_s)
            worst = max(worst, unique_bytes(pid) - before)
        found.extend((worst, longest_s))

    with ThreadPoolExecutor(1) as thread:
        looking = thread.submit(look)
        try:
            yield found
        finally:
            over.set()
            looking.result()


def test_many_long_client_ids_take_no_more_memory_than_stated(small: Cluster) -> None:
    topic = create_topic(small, assignments=[[0]])
    pid = small.pid(0)
    assert pid is not None
    before = unique_bytes(pid)
    with WireClient(small.addresses[0]) as bystander:

        def serve() -> None:
            answer = produced(bystander, topic, bytes(batch_of(b"meanwhile")))
            assert answer.error_code == ErrorCode.none

        with watched(pid, serve) as found, socket.create_connection(small.addresses[0]) as hostile:
            assert answers_read(hostile, range(STRANGERS_IDS)) == STRANGERS_IDS
    worst, longest_s = found
    print(f"client ids: {worst / MIB:.1f} MiB, a bystander waited {longest_s * 1e3:.0f} ms")
    assert worst <= STRANGERS_IDS * 2_000 + SLACK
    assert longest_s < 5
    wait_until(
        lambda: unique_bytes(pid) <= before + GIVEN_BACK_WITHIN, "the memory to be given back"
    )
    assert small.pid(0) == pid


def test_brokers_keep_nothing_about_clients_that_have_not_logged_in(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    directory = tmp_path_factory.mktemp("strangers")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Cluster(directory, brokers=1, secure=True) as cluster:
        pid = cluster.pid(0)
        assert pid is not None

        def connected() -> ssl.SSLSocket:
            return context.wrap_socket(socket.create_connection(cluster.addresses[0], 30))

        def serve() -> None:
            with connected() as bystander:
                assert answers_read(bystander, range(1)) == 1

        serve()
        before = unique_bytes(pid)
        with watched(pid, serve) as found:
            answered = 0
            each = STRANGERS_IDS // 20
            for first in range(0, STRANGERS_IDS, each):
                with connected() as hostile:
                    answered += answers_read(hostile, range(first, first + each))
        worst, longest_s = found
        print(f"before login: {worst / MIB:.1f} MiB, a stranger waited {longest_s * 1e3:.0f} ms")
        assert answered == 20 * API_VERSIONS_MAX
        assert worst <= NO_STRANGERS_BOUND + SLACK
        assert unique_bytes(pid) <= before + GIVEN_BACK_WITHIN
        assert cluster.pid(0) == pid
        rows = read_stats(cluster.data_dir / "run" / "broker-0.stats").rows
        assert not [row for row in rows if len(row.client_id) > 100]


def jute_half_records(_: bytes) -> bytes:
    return struct.pack(">i", 0xF_FFFF) + b"x" * 0xF_FFF0


def jute_unread_reads(connect: bytes) -> bytes:
    get_data = struct.pack(">iii", 1, 4, 4) + b"/big" + b"\0"
    return connect + sized(get_data) * 2_000


@pytest.mark.parametrize(
    ("attack", "bound"),
    [
        (jute_half_records, REGISTRY_RECEIVING + MIB),
        (jute_unread_reads, REGISTRY_UNSENT + 2 * REGISTRY_ROUND),
    ],
)
def test_hostile_connections_take_no_more_of_the_registry_than_stated(
    small: Cluster, attack: Callable[[bytes], bytes], bound: int
) -> None:
    pid = small.state()["registry_process"]["pid"]
    address = (HOST, small.addresses[-1][1] + 1)
    client = KazooClient(f"{address[0]}:{address[1]}", timeout=40)
    client.start(timeout=30)
    try:
        client.ensure_path("/big")
        client.set("/big", b"x" * 900_000)
        before = unique_bytes(pid)
        connect = sized(struct.pack(">iqiqi", 0, 0, 30_000, 0, 16) + bytes(16))
        hostile = Hostile(address)
        hostile.send(attack(connect))
        worst = unique_bytes(pid) - before
        for number in range(20):
            client.set("/big", b"y" * (900_000 + number))
            assert len(client.get("/big")[0]) == 900_000 + number
            worst = max(worst, unique_bytes(pid) - before)
        hostile.close()
        print(f"{attack.__name__}: {worst / MIB:.1f} MiB")
        assert worst <= bound + CONNECTIONS * PER_CONNECTION + SLACK
        wait_until(
            lambda: unique_bytes(pid) <= before + GIVEN_BACK_WITHIN, "the memory to be given back"
        )
        print(f"after closing: {(unique_bytes(pid) - before) / MIB:.1f} MiB")
    finally:
        client.stop()
        client.close()
    assert small.state()["registry_process"]["pid"] == pid
