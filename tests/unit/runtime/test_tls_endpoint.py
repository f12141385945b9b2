"""Handshakes on their thread, from the accepted connection to the transport, over loopback."""

import logging
import socket
import ssl
import threading
from contextlib import ExitStack, suppress
from dataclasses import replace

import pytest

from cluster.model.errors import PeerError, UserError
from cluster.model.principal_rules import PrincipalRules
from cluster.runtime.acceptor import AcceptOptions, Acceptor, Listener
from cluster.runtime.certificates import name_of
from cluster.runtime.clock import SystemClock
from cluster.runtime.handshake_thread import has_whole_hello
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_endpoint import TlsEndpoint
from tests.support.tls import (
    HOSTS,
    a_client,
    a_server,
    authority,
    client_context,
    now,
    pem_store,
    server_options,
    terminating,
)
from tests.support.turning import turn_until
from tests.support.waiting import is_readable, wait_until


class Stage:
    """A TLS listener, and clients on their own threads."""

    def __init__(self, loop, terminator, endpoint, max_connections=100):
        self.loop, self.terminator, self.endpoint = loop, terminator, endpoint
        options = AcceptOptions(backlog=100, max_connections=max_connections)
        self.acceptor = Acceptor(loop, options)
        self.port = self.acceptor.bind(Listener("SSL", "127.0.0.1", 0), endpoint)
        self.accepted = []
        self.acceptor.start(self.accepted.append)
        self.clients = []

    def until(self, condition, what):
        turn_until(self.loop, condition, what)

    def connect(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.port), 20)
        self.clients.append(client)
        return client

    def begin_tls(self, context=None) -> list:
        """Start a client's handshake in the background; its result is appended to the list."""
        plain, results = self.connect(), []

        def shake_hands():
            try:
                client = (context or client_context()).wrap_socket(
                    plain, server_hostname="localhost"
                )
                self.clients.append(client)
                results.append(client)
            except OSError as error:
                results.append(error)

        threading.Thread(target=shake_hands).start()
        return results

    def handshake(self, context=None):
        """The client's result once the server has finished too: a socket or an error."""
        count = len(self.accepted)
        results = self.begin_tls(context)
        self.until(lambda: results, "the handshake")
        client = results[0]
        if not isinstance(client, ssl.SSLSocket):
            return client
        client.setblocking(False)

        def is_over():
            # In TLS 1.3 a server's refusal comes after the client has finished.
            try:
                return len(self.accepted) > count or client.recv(1) == b""
            except ssl.SSLWantReadError:
                return False
            except OSError as error:
                results[0] = error
                return True

        self.until(is_over, "the server's end of it")
        client.settimeout(20)
        return results[0]

    def answer(self, client) -> bytes:
        """The first byte that a client receives."""
        self.until(lambda: is_readable(client, 0), "an answer")
        return client.recv(1)

    def served(self, context=None):
        """A client whose connection was accepted, and the accepted connection."""
        count = len(self.accepted)
        client = self.handshake(context)
        assert isinstance(client, ssl.SSLSocket), client
        self.until(lambda: len(self.accepted) > count, "the connection")
        return client, self.accepted[-1]

    def close(self):
        self.acceptor.close()
        for accepted in self.accepted:
            accepted.transport.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def start():
    def make(options=None, user_of=str, max_connections=100, endpoint_options=None, **limits):
        loop = EventLoop(SystemClock())
        at_the_end.callback(loop.close)
        at_the_end.callback(loop.run_once, 0)  # closes connections that arrive too late
        terminator = at_the_end.enter_context(terminating(loop, **limits))
        endpoint = TlsEndpoint(
            "SSL", options or server_options(), terminator, user_of, **(endpoint_options or {})
        )
        stage = Stage(loop, terminator, endpoint, max_connections)
        at_the_end.callback(stage.close)
        return stage

    with ExitStack() as at_the_end:
        yield make


def exchange(stage, client, accepted):
    """A request and its answer."""
    client.sendall(b"a request")
    buffer = memoryview(bytearray(100))
    received = []

    def receive():
        with suppress(BlockingIOError):
            received.append(accepted.transport.receive_into(buffer))
        return received

    stage.until(receive, "the request")
    assert buffer[: received[0]] == b"a request"
    accepted.transport.send_buffers([b"an ", b"answer"])
    assert client.recv(100) == b"an answer"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_a_client_is_served(start, version, kind):
    stage = start(server_options(a_server(kind=kind)))
    context = client_context(minimum_version=version, maximum_version=version)
    client, accepted = stage.served(context)
    assert accepted.principal is None
    exchange(stage, client, accepted)


def test_a_version_that_is_not_enabled_is_refused(start):
    stage = start(server_options(protocols=("TLSv1.3",)))
    old = client_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    assert isinstance(stage.handshake(old), ssl.SSLError)
    assert stage.served()[0].version() == "TLSv1.3"


def test_cipher_suites_are_limited(start):
    suite = "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"
    stage = start(server_options(cipher_suites=(suite,)))
    client, _ = stage.served()
    assert client.version() == "TLSv1.2"  # no TLS 1.3 suite is allowed
    assert client.cipher()[0] == "ECDHE-ECDSA-CHACHA20-POLY1305"


def test_only_suites_of_tls_1_3(start):
    stage = start(server_options(cipher_suites=("TLS_AES_128_GCM_SHA256",)))
    assert stage.served()[0].version() == "TLSv1.3"
    old = client_context(maximum_version=ssl.TLSVersion.TLSv1_2)
    assert isinstance(stage.handshake(old), ssl.SSLError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cipher_suites": ("TLS_NONE",)}, "TLS_NONE is not a cipher suite of TLS 1.2"),
        (
            {"cipher_suites": ("TLS_AES_128_GCM_SHA256",), "protocols": ("TLSv1.2",)},
            "no suite of ssl.cipher.suites",
        ),
    ],
)
def test_settings_that_leave_nothing_are_refused(start, options, said):
    with pytest.raises(UserError, match=said):
        start(server_options(**options))


# -- certificates of clients --------------------------------------------------------------------


def test_a_required_certificate_names_the_user(start, tmp_path):
    stage = start(server_options(client_auth="required"))
    client, accepted = stage.served(client_context(a_client(), tmp_path))
    assert accepted.principal == "CN=alice,O=Milena"
    exchange(stage, client, accepted)


def test_rules_make_the_user_of_the_name(start, tmp_path):
    rules = PrincipalRules(r"RULE:^CN=([^,]*),O=Milena$/$1/U")
    stage = start(server_options(client_auth="requested"), rules.user_of)
    assert stage.served(client_context(a_client(), tmp_path))[1].principal == "ALICE"
    assert stage.served()[1].principal is None


def test_a_name_without_a_rule_is_refused(start, tmp_path, caplog):
    stage = start(server_options(client_auth="required"), PrincipalRules("RULE:x/x/").user_of)
    stage.handshake(client_context(a_client(), tmp_path))
    stage.until(lambda: "no user for its certificate: no rule" in caplog.text, "the line")
    assert not stage.accepted


def test_a_listener_whose_users_log_in_takes_no_name_of_a_certificate(start, tmp_path):
    stage = start(server_options(client_auth="required"), None)
    assert stage.served(client_context(a_client(), tmp_path))[1].principal is None


@pytest.mark.parametrize(
    ("identity", "alert", "line"),
    [
        (lambda: None, "certificate required", "peer did not return a certificate"),
        (lambda: a_client(valid_days=-1), "certificate expired", "certificate has expired"),
        (
            lambda: authority("Another CA").issue_client(name_of("mallory"), now()),
            "unknown ca",
            "self-signed certificate in certificate chain",
        ),
    ],
    ids=["none", "expired", "foreign"],
)
def test_other_certificates_are_refused_with_the_right_alert(
    start, tmp_path, caplog, identity, alert, line
):
    stage = start(server_options(client_auth="required"))
    result = stage.handshake(client_context(identity(), tmp_path))
    assert alert in str(result).lower().replace("_", " ")
    stage.until(lambda: line in caplog.text, "the line in the log")
    assert len(caplog.records) == 1
    assert not stage.accepted
    stage.served(client_context(a_client(), tmp_path))


# -- clients that are no clients ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        (b"\0\0\0\x20\0\x12\0\0\0\0\0\1", "plaintext on an SSL listener"),
        (b"GET / HTTP/1.1\r\n\r\n", "plaintext on an SSL listener"),
        (b"\x15\x03\x01\x00\x02\x02\x28", "the client began with a TLS alert"),
        (b"\x16\x03\x01\x00\x40\x01\x01\xff\xff" + bytes(60), "not a TLS ClientHello"),
        (b"\x16\x03\x01\x00\x04\x01\x00\x00\x00" + bytes(60), ""),
    ],
)
def test_an_invalid_hello_closes_its_connection_and_logs_one_line(start, caplog, sent, line):
    stage = start()
    client = stage.connect()
    client.sendall(sent)
    stage.until(lambda: caplog.records, "the line in the log")
    assert [line in each.getMessage() for each in caplog.records] == [True]
    client.settimeout(20)
    with suppress(ConnectionResetError):
        while client.recv(1000):
            pass
    stage.served()


def test_a_client_that_leaves_silently_is_not_logged(start, caplog):
    stage = start(max_connections=1)
    stage.connect().close()
    stage.served()  # there is room because the first one was released
    assert not [each for each in caplog.records if "handshake" in each.getMessage()]


def test_a_client_that_stops_in_its_handshake_is_closed(start, caplog):
    stage = start(timeout_ms=150)
    silent, halfway = stage.connect(), stage.connect()
    halfway.sendall(hello()[:40])
    stage.until(lambda: len(caplog.records) == 2, "both to be closed")
    assert {each.levelno for each in caplog.records} == {logging.WARNING}
    assert all("not done within 150 ms" in each.getMessage() for each in caplog.records)
    assert silent.recv(1) == b""


def hello() -> bytes:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    stream = client_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        stream.do_handshake()
    return outgoing.read()


def test_handshakes_in_progress_are_limited_and_the_longest_silent_gives_way(start, caplog):
    stage = start(started_max=3)
    for _ in range(5):
        client = stage.connect()
        client.sendall(hello())
        assert stage.answer(client)  # its handshake has begun
    stage.until(lambda: len(caplog.records) == 2, "two to give way")
    assert all("gave way" in each.getMessage() for each in caplog.records)
    stage.served()


def test_a_flood_from_one_host_makes_only_that_host_give_way(start):
    stage = start(started_max=3)
    pairs, outcomes = [], {}

    def begin(number, host) -> None:
        near, far = socket.socketpair()
        pairs.append((near, far))
        near.setblocking(False)
        outcomes[number] = []
        stage.endpoint.begin(near, host, 1, outcomes[number].append)
        far.sendall(hello())

    begin("honest", "10.0.0.1")
    for number in range(8):
        begin(number, "10.0.0.2")
    stage.until(lambda: sum(len(each) for each in outcomes.values()) == 6, "six to give way")
    assert not outcomes["honest"]
    for _, far in pairs:
        far.close()
    stage.until(lambda: all(outcomes.values()), "every end")
    assert outcomes == {number: [None] for number in outcomes}


def test_a_hello_may_come_byte_by_byte(start):
    stage = start()
    client = stage.connect()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in hello():
        client.sendall(bytes([byte]))
    assert stage.answer(client) == b"\x16"


@pytest.mark.parametrize("size", [1, 2, 5, 8, 30])
def test_a_beginning_of_a_hello_is_not_refused(size):
    assert has_whole_hello(hello()[:size]) is False
    assert has_whole_hello(hello()) is True
    with pytest.raises(PeerError):
        has_whole_hello(b"\x17" + hello()[1:size])


def test_connections_in_their_handshake_count(start):
    stage = start(max_connections=2)
    stage.connect(), stage.connect()
    results = stage.begin_tls()
    for _ in range(20):
        stage.loop.run_once(5)
    assert not results
    stage.clients[0].close()
    stage.until(lambda: results, "room for the third")


# -- certificates that change -------------------------------------------------------------------


def shown(stage) -> int:
    """The serial number of the certificate that a new client receives."""
    client = stage.served()[0]
    return int(client.getpeercert()["serialNumber"], 16)


def test_a_changed_file_is_used_for_new_connections(start, tmp_path):
    source = pem_store(a_server(), tmp_path / "store.pem")
    stage = start(replace(server_options(), key_store=source))
    client, accepted = stage.served()
    renewed = a_server()
    pem_store(renewed, tmp_path / "store.pem")
    stage.terminator.handshakes.do(stage.endpoint.look)
    assert shown(stage) == renewed.certificate.serial_number
    exchange(stage, client, accepted)


@pytest.mark.parametrize(
    ("valid_days", "line"),
    [
        (-1, "listener SSL: clients reject its certificate, which expired "),
        (20, "listener SSL: its certificate expires "),
        (40, None),
    ],
)
def test_a_certificate_that_has_ended_or_will_soon_is_one_line_at_each_reading(
    start, tmp_path, caplog, valid_days, line
):
    source = pem_store(a_server(valid_days=valid_days), tmp_path / "store.pem")
    stage = start(replace(server_options(), key_store=source))
    assert [each[: len(line or "")] for each in caplog.messages] == ([line] if line else [])
    caplog.clear()
    pem_store(a_server(valid_days=valid_days), tmp_path / "store.pem")
    stage.terminator.handshakes.do(stage.endpoint.look)
    has_looked = threading.Event()
    stage.terminator.handshakes.do(has_looked.set)
    assert has_looked.wait(20)
    said = [each for each in caplog.messages if "new certificate" not in each]
    assert [each[: len(line or "")] for each in said] == ([line] if line else [])


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: a_server(name_of("another")), "ssl.allow.dn.changes"),
        (
            lambda: authority().issue_server(name_of("broker"), HOSTS[:1], now()),
            "the new certificate lacks IP:127.0.0.1, IP:::1 (ssl.allow.san.changes)",
        ),
    ],
)
def test_a_certificate_for_others_is_not_taken(start, tmp_path, caplog, make, line):
    first = a_server()
    stage = start(replace(server_options(), key_store=pem_store(first, tmp_path / "store.pem")))
    pem_store(make(), tmp_path / "store.pem")
    stage.terminator.handshakes.do(stage.endpoint.look)
    assert shown(stage) == first.certificate.serial_number
    assert line in caplog.text


def test_a_certificate_for_others_is_taken_where_that_is_allowed(start):
    allowed = {"may_change_subject": True, "may_drop_hosts": True}
    stage = start(endpoint_options=allowed)
    other = authority().issue_server(name_of("another"), HOSTS[:1], now())
    stage.endpoint.change(server_options(other), **allowed)
    assert shown(stage) == other.certificate.serial_number


def test_a_file_that_cannot_be_used_changes_nothing(start, tmp_path, caplog):
    first = a_server()
    path = tmp_path / "store.pem"
    stage = start(replace(server_options(), key_store=pem_store(first, path)))
    path.write_bytes(b"-----BEGIN nonsense")
    stage.terminator.handshakes.do(stage.endpoint.look)
    wait_until(lambda: caplog.records, "the line in the log")
    path.unlink()
    stage.terminator.handshakes.do(stage.endpoint.look)
    assert shown(stage) == first.certificate.serial_number
    assert len(caplog.records) == 2
    assert all("keeps its certificate" in each.getMessage() for each in caplog.records)
    renewed = a_server()
    pem_store(renewed, path)
    stage.terminator.handshakes.do(stage.endpoint.look)
    assert shown(stage) == renewed.certificate.serial_number
