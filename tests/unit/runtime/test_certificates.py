"""OpenSSL accepts the issued certificates, and stores return what was written."""

import socket
import ssl
import threading
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from cluster.runtime.certificates import (
    CertificateAuthority,
    Identity,
    name_of,
    trust_store_pkcs12,
)

NOW = datetime.now(UTC)
PASSWORD = "opens it"


@pytest.fixture(scope="module")
def authority():
    return CertificateAuthority.make(name_of("Test CA", "Milena"), NOW)


def handshake(server: Identity, authority_pem: bytes, host: str, tmp_path) -> None:
    """Do one TLS handshake over a socket pair; raises the client's error."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(server.chain_pem())
    key.write_bytes(server.key_pem())
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(chain, key)
    theirs = ssl.create_default_context(cadata=authority_pem.decode())
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            with near, ours.wrap_socket(near, server_side=True) as wrapped:
                wrapped.recv(1)
        except OSError:
            return  # the client reports the error

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with far, theirs.wrap_socket(far, server_hostname=host) as wrapped:
            wrapped.send(b"x")
    finally:
        thread.join(10)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_server_is_accepted_at_each_of_its_hosts(authority, host, tmp_path):
    server = authority.issue_server(name_of("broker"), ["localhost", "127.0.0.1", "::1"], NOW)
    handshake(server, authority.identity.certificate_pem(), host, tmp_path)


def test_a_server_is_not_accepted_elsewhere(authority, tmp_path):
    server = authority.issue_server(name_of("broker"), ["localhost"], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="not valid for"):
        handshake(server, authority.identity.certificate_pem(), "127.0.0.1", tmp_path)


def test_an_expired_certificate_is_refused(authority, tmp_path):
    server = authority.issue_server(name_of("broker"), ["localhost"], NOW, valid_days=-1)
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(server, authority.identity.certificate_pem(), "localhost", tmp_path)


def test_a_chain_over_an_authority_between_is_accepted(authority, tmp_path):
    between = authority.issue_authority(name_of("Between"), NOW)
    server = between.issue_server(name_of("broker"), ["localhost"], NOW)
    handshake(server, authority.identity.certificate_pem(), "localhost", tmp_path)


def test_an_authority_is_read_back(authority, tmp_path):
    stored = authority.identity
    again = CertificateAuthority.from_pem(
        stored.certificate_pem(), stored.key_pem(PASSWORD), PASSWORD
    )
    server = again.issue_server(name_of("broker"), ["localhost"], NOW, kind="RSA")
    handshake(server, stored.certificate_pem(), "localhost", tmp_path)


def test_a_key_store_holds_key_and_chain(authority):
    client = authority.issue_client(name_of("alice"), NOW)
    stored = pkcs12.load_pkcs12(client.pkcs12("alice", PASSWORD), PASSWORD.encode())
    assert stored.cert.certificate == client.certificate
    assert stored.key.public_key() == client.key.public_key()
    assert [each.certificate for each in stored.additional_certs] == list(client.issuers)


def test_a_trust_store_holds_the_authorities(authority):
    data = trust_store_pkcs12([authority.identity.certificate], PASSWORD)
    stored = pkcs12.load_pkcs12(data, PASSWORD.encode())
    assert [each.certificate for each in stored.additional_certs] == [
        authority.identity.certificate
    ]
