"""Certificates for tests, and both ends of TLS connections."""

import functools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from cluster.runtime.certificates import CertificateAuthority, Identity, name_of
from cluster.runtime.clock import SystemClock
from cluster.runtime.handshake_thread import HandshakeThread
from cluster.runtime.loop import EventLoop
from cluster.runtime.tls_endpoint import TlsTerminator
from cluster.runtime.tls_options import StoreSource, TlsOptions

HOSTS = ("localhost", "127.0.0.1", "::1")
PASSWORD = "a password"


def now() -> datetime:
    return datetime.now(UTC)


@functools.cache
def authority(name: str = "Test CA") -> CertificateAuthority:
    """One for the whole process: making it again takes time."""
    return CertificateAuthority.make(name_of(name), now())


def a_server(subject: x509.Name | None = None, **options) -> Identity:
    return authority().issue_server(subject or name_of("broker"), HOSTS, now(), **options)


def a_client(subject: x509.Name | None = None, **options) -> Identity:
    return authority().issue_client(subject or name_of("alice", "Milena"), now(), **options)


def pem_store(identity: Identity, path: Path) -> StoreSource:
    """Key and certificates as one PEM file, which the source names."""
    path.touch(0o600)
    path.write_bytes(identity.key_pem() + identity.chain_pem())
    return StoreSource("keystore", "PEM", str(path))


def as_texts(identity: Identity) -> StoreSource:
    return StoreSource(
        "keystore",
        "PEM",
        key_text=identity.key_pem().decode(),
        certificates_text=identity.chain_pem().decode(),
    )


def trusting(trusted: CertificateAuthority) -> StoreSource:
    return StoreSource(
        "truststore", "PEM", certificates_text=trusted.identity.certificate_pem().decode()
    )


def server_options(identity: Identity | None = None, **options) -> TlsOptions:
    """The options of a listener, which trusts the clients of `authority()` if it asks for
    certificates.
    """
    options.setdefault("trust_store", trusting(authority()))
    return TlsOptions(as_texts(identity or a_server()), **options)


def client_context(identity: Identity | None = None, directory: Path | None = None, **versions):
    """For clients that trust `authority()`; with a certificate, which needs a directory."""
    context = ssl.create_default_context(cadata=authority().identity.certificate_pem().decode())
    for name, value in versions.items():
        setattr(context, name, value)
    if identity is not None:
        path = directory / "client.pem"
        path.write_bytes(identity.key_pem() + identity.chain_pem())
        context.load_cert_chain(path)
    return context


@contextmanager
def terminating(loop: EventLoop, **limits) -> Iterator[TlsTerminator]:
    """A thread of handshakes for that loop, on the real clock."""
    terminator = TlsTerminator(
        loop, HandshakeThread(SystemClock(), loop.call_from_thread, **limits)
    )
    try:
        yield terminator
    finally:
        terminator.close()
