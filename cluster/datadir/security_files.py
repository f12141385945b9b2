"""What makes a cluster secure, in `DATA_DIR/security`: made once, renewed when it is due.

passwords.json      of the user of the tools, of the trust store for Java
ca.pem, ca.key      the authority that signs for the brokers
broker-0.pem        key and certificates of one broker
registry.pem        of a registry that other machines can reach
first-user.json     what the registry is given of the first user, until the cluster was up once
"""

import ipaddress
import json
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509

from cluster.model.errors import UserError
from cluster.model.scram import SALT_BYTES, credential_of, credential_text
from cluster.model.security import SaslMechanism
from cluster.runtime.certificates import CertificateAuthority, name_of, trust_store_pkcs12
from cluster.runtime.private_files import private_directory, read_private, write_private

ADMIN: Final = "admin"
"""The user that a secure cluster begins with, and that the tools are."""
MECHANISM: Final = SaslMechanism.SCRAM_SHA_512
_PASSWORD_BYTES: Final = 24
_RENEWED_BEFORE: Final = timedelta(days=365)
"""Certificates are made for ten years; a start renews what ends within one."""
_ANYWHERE: Final = frozenset({"0.0.0.0", "::", ""})


@dataclass(frozen=True, slots=True)
class SecurityFiles:
    """The files of one cluster, and what of them its processes and its clients are told."""

    directory: Path
    ca_pem: bytes
    trust_store: bytes = field(repr=False, compare=False)
    """The same authority as a PKCS12 store, for Java; encrypted again each time."""
    admin_password: str = field(repr=False)
    trust_store_password: str = field(repr=False)

    @property
    def first_user(self) -> Path:
        """What the registry is to be given; absent once the cluster was up."""
        return self.directory / "first-user.json"

    def confirm(self) -> None:
        """The cluster was up: the registry has the first user. Raises OSError."""
        self.first_user.unlink(missing_ok=True)

    @property
    def authority(self) -> Path:
        """The certificate of the authority that signs for brokers and registry."""
        return self.directory / "ca.pem"

    @property
    def registry_key_store(self) -> Path:
        """Key and certificates of a registry that speaks TLS."""
        return self.directory / "registry.pem"

    def key_store(self, broker_id: int) -> Path:
        return key_store(self.directory, broker_id)


def key_store(directory: Path, broker_id: int) -> Path:
    """Key and certificates of a broker, as one PEM file."""
    return directory / f"broker-{broker_id}.pem"


def prepare_security(
    directory: Path,
    brokers: Iterable[int],
    hosts: Iterable[str],
    now: datetime,
    registry_hosts: Iterable[str] = (),
) -> SecurityFiles:
    """Make what is missing, and renew certificates that end soon or lack one of `hosts`, or that of
    the registry one of `registry_hosts`; it needs none where there are none.

    Raises UserError for files that cannot be used.
    """
    try:
        private_directory(directory)
        passwords = _passwords(directory)
        authority = _authority(directory, now)
        files = SecurityFiles(
            directory=directory,
            ca_pem=authority.identity.certificate_pem(),
            trust_store=trust_store_pkcs12(
                [authority.identity.certificate], passwords["trust_store"]
            ),
            admin_password=passwords[ADMIN],
            trust_store_password=passwords["trust_store"],
        )
        wanted = {host for host in hosts if host not in _ANYWHERE}
        for broker in brokers:
            _certify(files.key_store(broker), f"broker-{broker}", authority, wanted, now)
        of_registry = {host for host in registry_hosts if host not in _ANYWHERE}
        if of_registry:
            _certify(files.registry_key_store, "registry", authority, of_registry, now)
    except OSError as problem:
        raise UserError(f"cannot use {directory}: {problem.strerror or problem}") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise UserError(f"cannot use the files in {directory}: {problem}") from None
    return files


def _passwords(directory: Path) -> dict[str, str]:
    """The random passwords; with new ones, also what the registry is to be told of the user."""
    path = directory / "passwords.json"
    if path.exists():
        found: dict[str, str] = json.loads(read_private(path, "a password"))
        return found
    made = {name: secrets.token_urlsafe(_PASSWORD_BYTES) for name in (ADMIN, "trust_store")}
    credential = credential_of(MECHANISM, made[ADMIN], secrets.token_bytes(SALT_BYTES))
    first = {"user": ADMIN, "credentials": {MECHANISM.value: credential_text(credential)}}
    write_private(directory / "first-user.json", json.dumps(first))
    write_private(path, json.dumps(made, indent=2) + "\n")
    return made


def remember_password(directory: Path, password: str) -> None:
    """Keep another password of the tools' user, for the next start. Raises OSError."""
    path = directory / "passwords.json"
    known = json.loads(path.read_text())
    write_private(path, json.dumps({**known, ADMIN: password}, indent=2) + "\n")


def _authority(directory: Path, now: datetime) -> CertificateAuthority:
    certificate, key = directory / "ca.pem", directory / "ca.key"
    if certificate.exists() and key.exists():
        found = CertificateAuthority.from_pem(
            certificate.read_bytes(), read_private(key, "the private key")
        )
        if not _ends_soon(found.identity.certificate, now):
            return found
    made = CertificateAuthority.make(name_of("Milena cluster authority"), now)
    write_private(key, made.identity.key_pem())
    write_private(certificate, made.identity.certificate_pem())
    return made


def _certify(
    path: Path, name: str, authority: CertificateAuthority, hosts: set[str], now: datetime
) -> None:
    if path.exists() and _is_good(read_private(path, "the private key"), authority, hosts, now):
        return
    identity = authority.issue_server(name_of(name), sorted(hosts), now)
    write_private(path, identity.key_pem() + identity.chain_pem())


def _is_good(pem: bytes, authority: CertificateAuthority, hosts: set[str], now: datetime) -> bool:
    found = x509.load_pem_x509_certificates(pem)[0]
    if _ends_soon(found, now):
        return False
    try:
        found.verify_directly_issued_by(authority.identity.certificate)
    except Exception:  # noqa: BLE001 - cryptography has several, each of which means no
        return False
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(each) for each in names.get_values_for_type(x509.IPAddress)}
    named = {*names.get_values_for_type(x509.DNSName), *addresses}
    return {_same_form(host) for host in hosts} <= named


def _same_form(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return host


def _ends_soon(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_after_utc - now < _RENEWED_BEFORE
