"""Creates certificates: authorities, and the server and client certificates they sign (RFC 5280).

Pure except for the random numbers in keys and serial numbers: the caller writes the files and
passes the time.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

KeyKind: TypeAlias = Literal["EC", "RSA"]
"""A curve P-256 key signs a handshake in a fifth of the time of RSA's 2048 bits."""
PrivateKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

DEFAULT_VALID_DAYS: Final = 3_650
"""Ten years: a cluster on one machine has nobody who renews certificates."""
_BACKDATED: Final = timedelta(hours=1)
"""A certificate is valid at once also for a client whose clock is behind."""


def make_key(kind: KeyKind = "EC") -> PrivateKey:
    """A new private key: EC on P-256, or 2048-bit RSA."""
    if kind == "EC":
        return ec.generate_private_key(ec.SECP256R1())
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def name_of(common_name: str, organization: str | None = None) -> x509.Name:
    """The subject `CN=common_name[,O=organization]` as RFC 4514 writes it."""
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


@dataclass(frozen=True)
class Identity:
    """A certificate, its private key, and its chain of issuers, nearest first."""

    certificate: x509.Certificate
    key: PrivateKey
    issuers: tuple[x509.Certificate, ...] = ()

    def certificate_pem(self) -> bytes:
        """The certificate alone as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def chain_pem(self) -> bytes:
        """The certificate and its issuers as PEM, as a server presents them."""
        return b"".join(
            each.public_bytes(serialization.Encoding.PEM)
            for each in (self.certificate, *self.issuers)
        )

    def key_pem(self, password: str | None = None) -> bytes:
        """The private key as PKCS8 PEM, encrypted if there is a password."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, _encryption(password)
        )

    def pkcs12(self, alias: str, password: str) -> bytes:
        """The identity as a PKCS12 key store (RFC 7292), which Java can read."""
        return pkcs12.serialize_key_and_certificates(
            alias.encode(), self.key, self.certificate, self.issuers, _encryption(password)
        )


def trust_store_pkcs12(certificates: Sequence[x509.Certificate], password: str) -> bytes:
    """A PKCS12 trust store of these authorities, each marked as trusted the way Java requires."""
    entries = [
        pkcs12.PKCS12Certificate(each, f"ca{index}".encode())
        for index, each in enumerate(certificates)
    ]
    return pkcs12.serialize_java_truststore(entries, _encryption(password))


@dataclass(frozen=True)
class CertificateAuthority:
    """Signs certificates. `identity` is its own: self-signed or signed by another authority."""

    identity: Identity

    @staticmethod
    def make(
        name: x509.Name,
        now: datetime,
        *,
        kind: KeyKind = "EC",
        valid_days: float = DEFAULT_VALID_DAYS,
    ) -> "CertificateAuthority":
        """A new self-signed authority."""
        key = make_key(kind)
        certificate = _sign(name, key, name, key, now, valid_days, _authority_extensions())
        return CertificateAuthority(Identity(certificate, key))

    @staticmethod
    def from_pem(
        certificate: bytes, key: bytes, password: str | None = None
    ) -> "CertificateAuthority":
        """Load a stored authority. Raises ValueError for invalid texts."""
        private = serialization.load_pem_private_key(
            key, None if password is None else password.encode()
        )
        if not isinstance(private, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
            raise ValueError("the key of an authority must be an EC or an RSA key")  # noqa: TRY004
        return CertificateAuthority(Identity(x509.load_pem_x509_certificate(certificate), private))

    def issue_server(
        self,
        subject: x509.Name,
        hosts: Iterable[str],
        now: datetime,
        *,
        kind: KeyKind = "EC",
        valid_days: float = DEFAULT_VALID_DAYS,
    ) -> Identity:
        """Issue a certificate for a server with these host names and IP addresses (RFC 6125)."""
        return self.issue(
            subject,
            now,
            kind=kind,
            valid_days=valid_days,
            hosts=hosts,
            usages=(ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
        )

    def issue_client(
        self,
        subject: x509.Name,
        now: datetime,
        *,
        kind: KeyKind = "EC",
        valid_days: float = DEFAULT_VALID_DAYS,
    ) -> Identity:
        """Issue a certificate for the client `subject`."""
        return self.issue(
            subject,
            now,
            kind=kind,
            valid_days=valid_days,
            usages=(ExtendedKeyUsageOID.CLIENT_AUTH,),
        )

    def issue_authority(
        self, subject: x509.Name, now: datetime, *, valid_days: float = DEFAULT_VALID_DAYS
    ) -> "CertificateAuthority":
        """Issue a subordinate authority, whose chain includes this one."""
        key = make_key()
        own = self.identity
        certificate = _sign(
            subject,
            key,
            own.certificate.subject,
            own.key,
            now,
            valid_days,
            _authority_extensions(),
        )
        return CertificateAuthority(Identity(certificate, key, self._chain()))

    def issue(
        self,
        subject: x509.Name,
        now: datetime,
        *,
        kind: KeyKind = "EC",
        valid_days: float = DEFAULT_VALID_DAYS,
        hosts: Iterable[str] = (),
        usages: Iterable[x509.ObjectIdentifier] = (),
    ) -> Identity:
        """Issue a certificate for these usages, and for `hosts` if given."""
        key = make_key(kind)
        own = self.identity
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (x509.ExtendedKeyUsage(list(usages)), False),
            (
                x509.AuthorityKeyIdentifier.from_issuer_public_key(own.certificate.public_key()),  # type: ignore[arg-type]  # an authority's key is EC or RSA
                False,
            ),
        ]
        names = [_general_name(host) for host in hosts]
        if names:
            extensions.append((x509.SubjectAlternativeName(names), False))
        certificate = _sign(
            subject, key, own.certificate.subject, own.key, now, valid_days, extensions
        )
        return Identity(certificate, key, self._chain())

    def _chain(self) -> tuple[x509.Certificate, ...]:
        return (self.identity.certificate, *self.identity.issuers)


def _sign(
    subject: x509.Name,
    key: PrivateKey,
    issuer: x509.Name,
    issuer_key: PrivateKey,
    now: datetime,
    valid_days: float,
    extensions: Iterable[tuple[x509.ExtensionType, bool]],
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED - timedelta(days=max(0.0, -valid_days)))
        .not_valid_after(now + timedelta(days=valid_days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    return builder.sign(issuer_key, hashes.SHA256())


def _authority_extensions() -> list[tuple[x509.ExtensionType, bool]]:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return [(x509.BasicConstraints(ca=True, path_length=None), True), (usage, True)]


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encryption(password: str | None) -> serialization.KeySerializationEncryption:
    if password is None:
        return serialization.NoEncryption()
    return serialization.BestAvailableEncryption(password.encode())
