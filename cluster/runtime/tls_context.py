"""Creates OpenSSL contexts from settings that use Kafka's and Java's names."""

import ipaddress
import re
import secrets
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from cluster.model.errors import UserError
from cluster.runtime.key_stores import KeyStore, read_key_store, read_trust_store
from cluster.runtime.tls_options import StoreSource, TlsClientOptions, TlsOptions
from cluster.runtime.tls_transport import reason_of

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
TLS_1_3_SUITES: Final = frozenset(
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""Python cannot choose among these: all are offered, or TLS 1.3 is not."""
_SUITE: Final = re.compile(
    r"TLS_(?:(ECDHE|DHE)_)?(RSA|ECDSA)_WITH_"
    r"(?:(AES)_(128|256)_(GCM|CBC)|(CHACHA20)_(POLY1305))_(SHA\d*)"
)


@dataclass(frozen=True, slots=True)
class ServerContext:
    """OpenSSL's context, and the certificate that is presented to clients."""

    context: ssl.SSLContext
    certificate: x509.Certificate

    def host_names(self) -> frozenset[str]:
        """The subject's alternative names as texts."""
        try:
            found = self.certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return frozenset()
        return frozenset(_text_of(each) for each in found.value)


def server_context(options: TlsOptions) -> ServerContext:
    """Read the stores and create a server context. Blocks. Raises UserError with instructions."""
    key_store = read_key_store(options.key_store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _limit(context, options.protocols, options.cipher_suites)
    # Renegotiation would run handshakes on the thread that serves everybody.
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_key(context, key_store, options.key_store)
    _trust(context, options)
    return ServerContext(context, key_store.certificates[0])


def client_context(options: TlsClientOptions) -> ssl.SSLContext:
    """Read the stores and create a client context. Blocks. Raises UserError with instructions."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = options.verifies_host
    _limit(context, options.protocols, options.cipher_suites)
    _trust_store(context, options.trust_store, ssl.Purpose.SERVER_AUTH)
    if options.key_store is not None:
        _load_key(context, read_key_store(options.key_store), options.key_store)
    return context


def openssl_suite(name: str) -> str:
    """OpenSSL's name for a cipher suite of TLS 1.2. Raises ValueError if it has none."""
    found = _SUITE.fullmatch(name)
    if found is None:
        raise ValueError(f"{name} is not a cipher suite of TLS 1.2")
    exchange, authentication, aes, bits, mode, chacha, poly, digest = found.groups()
    parts = [exchange, authentication] if exchange else []
    if chacha:
        parts += [chacha, poly]
    else:
        parts += [f"{aes}{bits}", *(["GCM"] if mode == "GCM" else []), digest]
    return "-".join(parts)


def _limit(context: ssl.SSLContext, protocols: tuple[str, ...], suites: tuple[str, ...]) -> None:
    """Restrict the protocol versions, and the cipher suites if given. Raises UserError."""
    versions = sorted(_VERSIONS[each] for each in protocols)
    if suites:
        if not TLS_1_3_SUITES.intersection(suites):
            versions = [each for each in versions if each is not ssl.TLSVersion.TLSv1_3]
        if TLS_1_3_SUITES.issuperset(suites):
            versions = [each for each in versions if each is ssl.TLSVersion.TLSv1_3]
        _limit_suites(context, [each for each in suites if each not in TLS_1_3_SUITES])
    if not versions:
        raise UserError(
            "no suite of ssl.cipher.suites belongs to a version in ssl.enabled.protocols"
        )
    context.minimum_version, context.maximum_version = versions[0], versions[-1]


def _limit_suites(context: ssl.SSLContext, names: list[str]) -> None:
    if not names:
        return
    try:
        context.set_ciphers(":".join(openssl_suite(each) for each in names))
        offered = {each["name"] for each in context.get_ciphers()}
        for name in names:
            if openssl_suite(name) not in offered:
                raise ValueError(f"{name} is not available")
    except (ValueError, ssl.SSLError) as error:
        why = reason_of(error) if isinstance(error, ssl.SSLError) else error
        raise UserError(f"ssl.cipher.suites: {why}") from error


def _load_key(context: ssl.SSLContext, store: KeyStore, source: StoreSource) -> None:
    """Load the key through an encrypted temporary file, because Python's `ssl` reads only files."""
    password = secrets.token_urlsafe(24)
    try:
        with tempfile.TemporaryDirectory(prefix="tls-") as directory:  # has mode 0700
            chain, key = Path(directory, "chain.pem"), Path(directory, "key.pem")
            chain.write_bytes(store.chain_pem())
            key.write_bytes(store.key_pem(password.encode()))
            context.load_cert_chain(chain, key, password)
    except ssl.SSLError as error:
        where = source.location or f"ssl.{source.name}.key"
        raise UserError(f"OpenSSL cannot load the key of {where}: {reason_of(error)}") from error
    except OSError as error:
        raise UserError(f"cannot write to {tempfile.gettempdir()}: {error.strerror}") from error


def _trust(context: ssl.SSLContext, options: TlsOptions) -> None:
    context.verify_mode = _CLIENT_AUTH[options.client_auth]
    if context.verify_mode is ssl.CERT_NONE:
        return
    _trust_store(context, options.trust_store, ssl.Purpose.CLIENT_AUTH)


def _trust_store(context: ssl.SSLContext, store: StoreSource, purpose: ssl.Purpose) -> None:
    # Java trusts every certificate in the store, root authority or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not store.is_given:
        context.load_default_certs(purpose)
        return
    for each in read_trust_store(store):
        context.load_verify_locations(cadata=each.public_bytes(serialization.Encoding.DER))


def _text_of(name: x509.GeneralName) -> str:
    value = name.value
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return f"IP:{value}"
    return f"{type(name).__name__}:{value}"
