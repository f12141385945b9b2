"""Reads private keys and certificates: PEM files, PEM texts, PKCS12 stores (RFC 7468, RFC 7292).

Java's own format JKS is refused, with the command that converts it. So is a private key file that
others can read.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from cluster.model.errors import UserError
from cluster.runtime.private_files import check_private
from cluster.runtime.tls_options import StoreSource

_JKS_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""JKS and JCEKS."""
_FILE_MAX_BYTES: Final = 16 * 1024 * 1024
_PEM_BLOCK: Final = re.compile(
    r"-+BEGIN\s+([A-Z0-9 ]+?)-+\s*([A-Za-z0-9+/=\s]+?)\s*-+END\s+\1-+", re.ASCII
)
"""As Kafka's `DefaultSslEngineFactory.PemParser`: spaces may stand where lines ended."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key and its certificate chain, its own first."""

    key: PrivateKeyTypes = field(repr=False)
    certificates: tuple[x509.Certificate, ...]

    def chain_pem(self) -> bytes:
        """The certificate chain as PEM."""
        return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in self.certificates)

    def key_pem(self, password: bytes) -> bytes:
        """The private key as encrypted PEM."""
        return self.key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(password),
        )


def read_key_store(source: StoreSource) -> KeyStore:
    """Read a server's key and certificates. Blocks. Raises UserError with instructions."""
    if source.key_text is not None or source.certificates_text is not None:
        what = f"ssl.{source.name}.key and ssl.{source.name}.certificate.chain"
        texts = f"{source.key_text or ''}\n{source.certificates_text or ''}"
        return _key_store_from_pem(texts, source.key_password, what)
    if source.location is None:
        raise UserError(f"there is no key store: set ssl.{source.name}.location")
    data = _read(source, source.location, is_secret=True)
    what = f"the key store {source.location}"
    if _is_pem(source, data):
        return _key_store_from_pem(_text(data, what), source.key_password, what)
    store = _open_pkcs12(source, data, what)
    if store.key is None or store.cert is None:
        raise UserError(f"{what} has no private key with a certificate")
    others = [each.certificate for each in store.additional_certs]
    return KeyStore(store.key, _chain(store.cert.certificate, others))


def read_trust_store(source: StoreSource) -> tuple[x509.Certificate, ...]:
    """Read the trusted authorities. Blocks. Raises UserError."""
    if source.certificates_text is not None:
        what = f"ssl.{source.name}.certificates"
        return _certificates_from_pem(source.certificates_text, what)
    if source.location is None:
        return ()
    data = _read(source, source.location, is_secret=False)
    what = f"the trust store {source.location}"
    if _is_pem(source, data):
        return _certificates_from_pem(_text(data, what), what)
    store = _open_pkcs12(source, data, what)
    found = [] if store.cert is None else [store.cert.certificate]
    found += [each.certificate for each in store.additional_certs]
    if not found:
        raise UserError(f"{what} has no certificate")
    return tuple(found)


def _read(source: StoreSource, location: str, *, is_secret: bool) -> bytes:
    path = Path(location)
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read(_FILE_MAX_BYTES)
    except OSError as error:
        raise UserError(
            f"cannot read ssl.{source.name}.location {location}: {error.strerror}"
        ) from error
    if is_secret:
        check_private(location, status, "the private key")
    return data


def _is_pem(source: StoreSource, data: bytes) -> bool:
    """Whether the store is PEM rather than PKCS12. Raises UserError for other types."""
    kind = source.type.upper()
    setting = f"ssl.{source.name}.type"
    if data.startswith(_JKS_MAGIC):
        raise UserError(
            f"{source.location} is a JKS store, which only Java reads: convert it with `keytool"
            f" -importkeystore -srckeystore {source.location} -destkeystore {source.location}.p12"
            f" -deststoretype PKCS12`"
        )
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise UserError(f"{setting}={source.type} is not supported: use PEM or PKCS12")
    is_pem = b"-----BEGIN" in data
    if is_pem and kind != "PEM":
        raise UserError(f"{source.location} is a PEM file: set {setting}=PEM")
    if not is_pem and kind == "PEM":
        raise UserError(f"{source.location} is not a PEM file, although {setting}=PEM")
    return is_pem  # Java reads PKCS12 under the name of JKS too


def _open_pkcs12(source: StoreSource, data: bytes, what: str) -> pkcs12.PKCS12KeyAndCertificates:
    password = source.password
    try:
        return pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise UserError(
            f"cannot open {what}: it is not a PKCS12 store, or ssl.{source.name}.password is wrong"
        ) from error


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{what} is not a PEM file") from error


def _blocks(text: str) -> list[tuple[str, bytes]]:
    """Labels and blocks of PEM, with normalized line breaks."""
    blocks = []
    for found in _PEM_BLOCK.finditer(text):
        label, body = found[1].strip(), "".join(found[2].split())
        lines = "\n".join(body[each : each + 64] for each in range(0, len(body), 64))
        blocks.append(
            (label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n".encode())
        )
    return blocks


def _certificates_from_pem(text: str, what: str) -> tuple[x509.Certificate, ...]:
    try:
        found = tuple(
            x509.load_pem_x509_certificate(block)
            for label, block in _blocks(text)
            if label.endswith("CERTIFICATE")
        )
    except ValueError as error:
        raise UserError(f"{what}: a certificate cannot be read") from error
    if not found:
        raise UserError(f"{what}: there is no certificate in PEM")
    return found


def _key_store_from_pem(text: str, password: str | None, what: str) -> KeyStore:
    keys = [block for label, block in _blocks(text) if label.endswith("PRIVATE KEY")]
    if not keys:
        raise UserError(f"{what}: there is no private key in PEM (PKCS#8)")
    certificates = _certificates_from_pem(text, what)
    is_encrypted = b"ENCRYPTED" in keys[0]
    if is_encrypted and password is None:
        raise UserError(f"{what}: the private key has a password: set ssl.key.password")
    try:
        key = serialization.load_pem_private_key(
            keys[0], password.encode() if is_encrypted and password is not None else None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise UserError(
            f"{what}: the private key cannot be read"
            + (", or ssl.key.password is wrong" if is_encrypted else "")
        ) from error
    return KeyStore(key, _chain(certificates[0], certificates[1:]))


def _chain(
    own: x509.Certificate, others: Sequence[x509.Certificate]
) -> tuple[x509.Certificate, ...]:
    """A certificate followed by its issuer, the issuer's issuer and so on, taken from `others`."""
    chain = [own]
    left = list(others)
    while True:
        issuer = next((each for each in left if each.subject == chain[-1].issuer), None)
        if issuer is None:
            return tuple(chain)
        chain.append(issuer)
        left.remove(issuer)
