"""The blocking client over TLS and with a login, against a broker of one thread."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster.client.security import UNPROTECTED, ClientSecurity, Servers
from cluster.client.socket_client import SocketClient
from cluster.model.errors import ErrorCode, UserError
from cluster.model.scram import ScramError, ScramServer, credential_of, parse_client_first
from cluster.model.security import SaslMechanism, SecurityProtocol
from cluster.protocol import messages
from cluster.protocol.api import ApiKey, is_flexible
from cluster.protocol.reader import skip_tags
from cluster.runtime.certificates import CertificateAuthority, name_of

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.make(name_of("test authority"), NOW)
SCRAM = SaslMechanism.SCRAM_SHA_512


class Broker:
    """Answers ApiVersions and a login of `alice` with the password `secret`."""

    def __init__(self, mechanism: SaslMechanism) -> None:
        self.mechanism = mechanism
        self.logged_in: list[str] = []
        self._exchange: ScramServer | None = None

    def serve(self, connection: socket.socket) -> None:
        with suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", connection.recv(4))
                if size > 1 << 20:
                    return  # no request of Kafka
                frame = connection.recv(size)
                key, version, correlation, name_size = struct.unpack_from(">hhih", frame)
                position = 10 + name_size
                if is_flexible(key, version):
                    position = skip_tags(frame, position, len(frame))
                request, _ = messages.READ_REQUEST[key](frame, position, len(frame), version)
                out = bytearray(struct.pack(">i", correlation))
                if is_flexible(key, version) and key != ApiKey.API_VERSIONS:
                    out.append(0)
                messages.WRITE_RESPONSE[key](out, self._answer(key, request), version)
                connection.sendall(struct.pack(">i", len(out)) + out)

    def _answer(self, key: int, request: Any) -> Any:
        if key == ApiKey.API_VERSIONS:
            return messages.ApiVersionsResponse(
                error_code=ErrorCode.none,
                api_keys=tuple(
                    messages.ApiVersion(api_key=each, min_version=0, max_version=9)
                    for each in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
                ),
                throttle_time=timedelta(0),
            )
        if key == ApiKey.SASL_HANDSHAKE:
            is_known = request.mechanism == self.mechanism
            return messages.SaslHandshakeResponse(
                error_code=ErrorCode.none if is_known else ErrorCode.unsupported_sasl_mechanism,
                mechanisms=(self.mechanism.value,),
            )
        try:
            token = self._proved(request.auth_bytes)
        except ScramError:
            return messages.SaslAuthenticateResponse(
                error_code=ErrorCode.sasl_authentication_failed,
                error_message="Authentication failed",
                auth_bytes=b"",
            )
        return messages.SaslAuthenticateResponse(
            error_code=ErrorCode.none, error_message=None, auth_bytes=token
        )

    def _proved(self, told: bytes) -> bytes:
        if self.mechanism is SaslMechanism.PLAIN:
            if told != b"\0alice\0secret":
                raise ScramError
            self.logged_in.append("alice")
            return b""
        if self._exchange is None:
            first = parse_client_first(told)
            credential = credential_of(self.mechanism, "secret", b"salt")
            self._exchange = ScramServer(self.mechanism, first, credential, "nonce")
            return self._exchange.first_message
        answer = self._exchange.final_message(told)
        self.logged_in.append("alice")
        return answer


@contextmanager
def listening(
    broker: Broker | None, context: ssl.SSLContext | None = None, connections: int = 1
) -> Iterator[tuple[str, int]]:
    """`connections`: how many come; without a broker they are closed unread."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10)

    def run() -> None:
        for _ in range(connections):
            with suppress(OSError):
                connection, _ = listener.accept()
                connection.settimeout(10)
                with connection:
                    serve(connection)

    def serve(connection: socket.socket) -> None:
        if broker is None:
            return
        if context is None:
            broker.serve(connection)
            return
        with context.wrap_socket(connection, server_side=True) as encrypted:
            broker.serve(encrypted)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        listener.close()
        thread.join(10)


def server_context(tmp_path: Path, *hosts: str) -> ssl.SSLContext:
    identity = AUTHORITY.issue_server(name_of("broker"), hosts, NOW)
    path = tmp_path / "broker.pem"
    path.write_bytes(identity.chain_pem() + identity.key_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


def security(
    mechanism: SaslMechanism | None = None, *, password: str = "secret", tls: bool = False
) -> ClientSecurity:
    protocols = {
        (False, True): SecurityProtocol.SASL_PLAINTEXT,
        (True, False): SecurityProtocol.SSL,
        (True, True): SecurityProtocol.SASL_SSL,
    }
    if mechanism is None and not tls:
        return UNPROTECTED
    return ClientSecurity(
        protocol=protocols[tls, mechanism is not None],
        ca_pem=AUTHORITY.identity.certificate_pem().decode() if tls else None,
        mechanism=mechanism,
        username="alice",
        password=password,
    )


@pytest.mark.parametrize(
    "mechanism", [SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512]
)
def test_socket_client_logs_in(mechanism):
    broker = Broker(mechanism)
    with (
        listening(broker) as address,
        SocketClient.connect(Servers([address], security(mechanism)), "test") as client,
    ):
        assert client.security.username == "alice"
    assert broker.logged_in == ["alice"]


@pytest.mark.parametrize("mechanism", [SaslMechanism.PLAIN, SCRAM])
def test_a_wrong_password_is_said_in_the_brokers_words_and_not_shown(mechanism):
    broker = Broker(mechanism)
    wrong = security(mechanism, password="wrong-one")
    with listening(broker) as address, pytest.raises(UserError) as refusal:
        SocketClient.connect(Servers([address], wrong), "test")
    assert str(refusal.value).endswith("Authentication failed)")
    assert "wrong-one" not in str(refusal.value)
    assert broker.logged_in == []


def test_a_mechanism_that_is_not_offered_is_named_with_those_that_are():
    with listening(Broker(SCRAM)) as address, pytest.raises(UserError) as refusal:
        SocketClient.connect(Servers([address], security(SaslMechanism.PLAIN)), "test")
    assert "does not offer SASL PLAIN, but SCRAM-SHA-512" in str(refusal.value)


def refused(address: tuple[str, int], given: ClientSecurity, count: int = 1) -> str:
    with pytest.raises(UserError) as refusal:
        SocketClient.connect(Servers([address] * count, given), "test")
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_the_same_reason_of_several_brokers_is_said_once():
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = free.getsockname()
    place = f"127.0.0.1:{address[1]}"
    assert refused(address, security(), 2) == (
        f"cannot connect to {place}, {place} (Connection refused)"
    )


@pytest.mark.parametrize("mechanism", [None, SCRAM])
def test_a_client_without_tls_is_told_that_a_listener_has_it(tmp_path, mechanism):
    context = server_context(tmp_path, "127.0.0.1")
    with listening(Broker(SCRAM), context, connections=2) as address:
        assert "this listener speaks TLS: give --command-config" in refused(
            address, security(mechanism)
        )


def test_a_client_with_tls_is_told_that_a_listener_has_none():
    with listening(Broker(SCRAM), connections=2) as address:
        assert "this listener has no TLS: state another" in refused(address, security(tls=True))


@pytest.mark.parametrize("tls", [True, False])
def test_a_connection_closed_by_the_acceptor_is_not_reported_as_a_tls_or_login_failure(tls):
    """The acceptor closes connections that come too fast, or too many."""
    with listening(None, connections=2) as address:
        said = refused(address, security(tls=tls))
    assert "its log says why, such as too many from here (connection_creation_rate" in said
    assert "TLS" not in said
    assert "login" not in said


def test_socket_client_logs_in_through_tls(tmp_path):
    broker = Broker(SCRAM)
    with (
        listening(broker, server_context(tmp_path, "127.0.0.1")) as address,
        SocketClient.connect(Servers([address], security(SCRAM, tls=True)), "test"),
    ):
        assert broker.logged_in == ["alice"]


def test_a_certificate_for_another_host_is_refused_before_the_login(tmp_path):
    broker = Broker(SCRAM)
    with (
        listening(broker, server_context(tmp_path, "kafka.example")) as address,
        pytest.raises(UserError, match="its certificate is not trusted: IP address mismatch"),
    ):
        SocketClient.connect(Servers([address], security(SCRAM, tls=True)), "test")
    assert broker.logged_in == []
