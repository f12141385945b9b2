"""Reads how to connect from client properties, under Java's names and under librdkafka's.

Sources: Kafka's `SslConfigs`, `SaslConfigs`, KIP-651 (PEM), librdkafka's CONFIGURATION.md.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from cluster.client.bearer_tokens import TokenFile, TokenSource, UnsecuredToken
from cluster.client.security import UNPROTECTED, ClientSecurity
from cluster.config.jaas import LOGIN_MODULES, parse_jaas
from cluster.model.errors import UserError
from cluster.model.security import SaslMechanism, SecurityProtocol
from cluster.runtime.private_files import read_private

PROTOCOL: Final = "security.protocol"
_MECHANISM: Final = ("sasl.mechanism", "sasl.mechanisms")
_JAAS: Final = "sasl.jaas.config"
_USERNAME: Final = "sasl.username"
_PASSWORD: Final = "sasl.password"
_TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_UNSECURED: Final = "enable.sasl.oauthbearer.unsecure.jwt"
_UNSECURED_CONFIG: Final = "sasl.oauthbearer.config"
_TOKEN_METHOD: Final = "sasl.oauthbearer.method"
_TOKEN_CLASSES: Final = (
    "sasl.login.callback.handler.class",
    "sasl.oauthbearer.jwt.retriever.class",
)
_IDENTIFICATION: Final = "ssl.endpoint.identification.algorithm"
_TRUST_FILES: Final = ("ssl.truststore.location", "ssl.ca.location")
_TRUST_TEXTS: Final = ("ssl.truststore.certificates", "ssl.ca.pem")
_KEY_STORE: Final = "ssl.keystore.location"
_CERTIFICATE_FILE: Final = "ssl.certificate.location"
_CERTIFICATE_TEXTS: Final = ("ssl.keystore.certificate.chain", "ssl.certificate.pem")
_KEY_FILE: Final = "ssl.key.location"
_KEY_TEXTS: Final = ("ssl.keystore.key", "ssl.key.pem")
_TRUST_TYPE, _TRUST_PASSWORD = "ssl.truststore.type", "ssl.truststore.password"
_STORE_TYPE, _STORE_PASSWORD = "ssl.keystore.type", "ssl.keystore.password"
_KEY_PASSWORD: Final = "ssl.key.password"

KEYS: Final = frozenset(
    {
        *(PROTOCOL, *_MECHANISM, _JAAS, _USERNAME, _PASSWORD, _IDENTIFICATION),
        *(_TOKEN_URL, _UNSECURED, _UNSECURED_CONFIG, _TOKEN_METHOD, *_TOKEN_CLASSES),
        *(*_TRUST_FILES, *_TRUST_TEXTS, _TRUST_TYPE, _TRUST_PASSWORD),
        *(_KEY_STORE, _STORE_TYPE, _STORE_PASSWORD, _KEY_PASSWORD),
        *(_CERTIFICATE_FILE, *_CERTIFICATE_TEXTS, _KEY_FILE, *_KEY_TEXTS),
    }
)
"""The properties that are read here; others that begin with `ssl.` or `sasl.` are librdkafka's."""

_TOKEN: Final = (_TOKEN_URL, _UNSECURED, _UNSECURED_CONFIG, _TOKEN_METHOD, *_TOKEN_CLASSES)
_LOGIN: Final = frozenset({_JAAS, _USERNAME, _PASSWORD, *_TOKEN})
_TRUST: Final = frozenset({*_TRUST_FILES, *_TRUST_TEXTS, _TRUST_TYPE, _TRUST_PASSWORD})
_STORE_TYPES: Final = ("PEM", "PKCS12", "JKS")
_PEM_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class _KeyPair(NamedTuple):
    certificate: str
    key: str


class _Login(NamedTuple):
    mechanism: SaslMechanism | None
    username: str = ""
    password: str = ""
    is_delegation_token: bool = False
    token: TokenSource | None = None


def client_security(properties: Mapping[str, str]) -> ClientSecurity:
    """What these properties say of security; others among them are not looked at.

    Raises UserError, in one line, for unusable files and values, and for what contradicts itself.
    """
    given = {key: text for key, text in properties.items() if key in KEYS}
    protocol = _protocol(given)
    if protocol is SecurityProtocol.PLAINTEXT:
        unused = sorted(given.keys() - {PROTOCOL})
        if unused:
            raise UserError(f"{unused[0]} has no effect with {PROTOCOL}=PLAINTEXT: state another")
        return UNPROTECTED
    unused = sorted(
        key
        for key in given
        if (key.startswith("ssl.") and not protocol.is_encrypted)
        or (key.startswith("sasl.") and not protocol.has_sasl)
    )
    if unused:
        raise UserError(f"{unused[0]} has no effect with {PROTOCOL}={protocol}: remove it")
    pair = _key_pair(given) if protocol.is_encrypted else None
    login = _login(given) if protocol.has_sasl else _Login(None)
    return ClientSecurity(
        protocol=protocol,
        ca_pem=_trusted(given) if protocol.is_encrypted else None,
        certificate_pem=pair and pair.certificate,
        key_pem=pair and pair.key,
        verifies_host=given.get(_IDENTIFICATION, "https").strip().lower() == "https",
        mechanism=login.mechanism,
        username=login.username,
        password=login.password,
        token_auth=login.is_delegation_token,
        token=login.token,
    )


def completed(given: Mapping[str, str], usual: Mapping[str, str]) -> dict[str, str]:
    """The properties `given`, with those of `usual` that they leave open.

    Another login replaces the usual one as a whole, and so do other authorities.
    """
    replaced: set[str] = set()
    for keys in (_LOGIN, _TRUST, frozenset(_MECHANISM), frozenset({PROTOCOL})):
        if not keys.isdisjoint(given):
            replaced |= keys
    if PROTOCOL in given:
        replaced |= KEYS
    return {**{key: text for key, text in usual.items() if key not in replaced}, **given}


def _protocol(given: Mapping[str, str]) -> SecurityProtocol:
    text = given.get(PROTOCOL, SecurityProtocol.PLAINTEXT).strip().upper()
    if text not in SecurityProtocol.__members__:
        raise UserError(f"{PROTOCOL} must be one of {', '.join(SecurityProtocol)}, not {text}")
    return SecurityProtocol[text]


def _one_of(given: Mapping[str, str], keys: tuple[str, ...]) -> str | None:
    """The value of the one key that is given. Raises UserError for two that differ."""
    found = {key: given[key] for key in keys if given.get(key, "").strip()}
    if len(set(found.values())) > 1:
        raise UserError(f"{' and '.join(found)} contradict each other: state one of them")
    return next(iter(found.values()), None)


# -- TLS -------------------------------------------------------------------------------------------


def _trusted(given: Mapping[str, str]) -> str | None:
    text = _one_of(given, _TRUST_TEXTS)
    location = _one_of(given, _TRUST_FILES)
    if text is not None and location is not None:
        raise UserError("authorities are given as a file and as text: state one of them")
    if text is not None:
        return _blocks(text, "CERTIFICATE", "the text of trusted certificates")
    if location is None:
        return None
    content = _content(location)
    if _store_type(given.get(_TRUST_TYPE), content, location) == "PEM":
        return _blocks(content.decode("utf-8", "replace"), "CERTIFICATE", location)
    return _of_pkcs12(content, given.get(_TRUST_PASSWORD), location).certificate


def _key_pair(given: Mapping[str, str]) -> _KeyPair | None:
    """The client's own certificate and its private key."""
    password = given.get(_KEY_PASSWORD)
    store = given.get(_KEY_STORE)
    if store:
        content = _content(store, has_key=True)
        if _store_type(given.get(_STORE_TYPE), content, store) == "PKCS12":
            pair = _of_pkcs12(content, given.get(_STORE_PASSWORD), store)
            if not pair.key:
                raise UserError(f"{store} holds no private key")
            return pair
        text = content.decode("utf-8", "replace")
        return _KeyPair(_blocks(text, "CERTIFICATE", store), _key(text, password, store))
    certificate = _one_of(given, _CERTIFICATE_TEXTS) or _text_of(given.get(_CERTIFICATE_FILE))
    key = _one_of(given, _KEY_TEXTS) or _text_of(given.get(_KEY_FILE), has_key=True)
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UserError("a client certificate needs its private key, and a key its certificate")
    return _KeyPair(
        _blocks(certificate, "CERTIFICATE", "the client certificate"),
        _key(key, password, "the private key"),
    )


def _content(location: str, *, has_key: bool = False) -> bytes:
    """Raises UserError, also where others can read a private key."""
    try:
        if has_key:
            return read_private(Path(location), "the private key")
        return Path(location).read_bytes()
    except OSError as problem:
        raise UserError(f"cannot read {location}: {problem.strerror}") from None


def _text_of(location: str | None, *, has_key: bool = False) -> str | None:
    if not location:
        return None
    return _content(location, has_key=has_key).decode("utf-8", "replace")


def _store_type(stated: str | None, content: bytes, location: str) -> str:
    """PEM or PKCS12: what is stated, else what the content looks like. Raises UserError."""
    kind = (stated or "").strip().upper()
    if content.startswith(b"\xfe\xed\xfe\xed"):
        kind = "JKS"
    elif not kind or kind == "JKS":  # Java too reads PKCS12 files as JKS (keystore.type.compat)
        kind = "PEM" if b"-----BEGIN " in content else "PKCS12"
    if kind not in _STORE_TYPES:
        raise UserError(f"the type of {location} must be PEM or PKCS12, not {stated}")
    if kind == "JKS":
        raise UserError(
            f"{location} is a JKS file: convert it with `keytool -importkeystore -srckeystore"
            f" {location} -destkeystore {Path(location).stem}.p12 -deststoretype PKCS12`"
        )
    return kind


def _blocks(text: str, wanted: str, where: str) -> str:
    """The PEM blocks of that kind, without what stands between them. Raises UserError."""
    found = [match.group() for match in _PEM_BLOCK.finditer(text) if match[1].endswith(wanted)]
    if not found:
        raise UserError(f"{where} holds no {wanted.lower()} in PEM form")
    return "\n".join(found) + "\n"


def _key(text: str, password: str | None, where: str) -> str:
    """The private key of a PEM text, decrypted. Raises UserError."""
    block = _blocks(text, "PRIVATE KEY", where)
    if "ENCRYPTED" not in block:
        return block
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(block.encode(), (password or "").encode())
    except (ValueError, TypeError):
        raise UserError(f"{_KEY_PASSWORD} does not open {where}") from None
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _of_pkcs12(content: bytes, password: str | None, location: str) -> _KeyPair:
    """All certificates of a store, the one that has a key first, and that key or an empty text."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    try:
        store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    except ValueError:
        raise UserError(
            f"cannot read {location}: its password is wrong, or it is not a PKCS12 file"
        ) from None
    entries = [entry for entry in (store.cert, *store.additional_certs) if entry is not None]
    if not entries:
        raise UserError(f"{location} holds no certificate")
    pem = serialization.Encoding.PEM
    key = (
        ""
        if store.key is None
        else store.key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
    )
    return _KeyPair("".join(entry.certificate.public_bytes(pem).decode() for entry in entries), key)


# -- SASL ------------------------------------------------------------------------------------------


def _login(given: Mapping[str, str]) -> _Login:
    """How the client proves who it is. Raises UserError."""
    named = (_one_of(given, _MECHANISM) or "").strip().upper()
    if not named:
        raise UserError("sasl.mechanism is not given: state one, such as SCRAM-SHA-512")
    if named not in _USABLE:
        raise UserError(f"sasl.mechanism must be one of {', '.join(_USABLE)} here, not {named}")
    mechanism = SaslMechanism(named)
    options = _jaas_options(given[_JAAS], mechanism) if given.get(_JAAS) else {}
    if mechanism is SaslMechanism.OAUTHBEARER:
        return _token_login(given, options)
    unused = sorted(set(_TOKEN) & given.keys())
    if unused:
        raise UserError(f"{unused[0]} has no effect with sasl.mechanism={mechanism}: remove it")
    if options and (_USERNAME in given or _PASSWORD in given):
        raise UserError(f"{_JAAS} and {_USERNAME} both name a user: state one of them")
    username = options.get("username", given.get(_USERNAME, ""))
    password = options.get("password", given.get(_PASSWORD, ""))
    if not username:
        raise UserError(f"{mechanism} needs a user: state {_USERNAME} or {_JAAS}")
    is_token = options.get("tokenauth", "").lower() == "true"
    return _Login(mechanism, username, password, is_token)


_USABLE: Final = tuple(SaslMechanism)


def _token_login(given: Mapping[str, str], options: Mapping[str, str]) -> _Login:
    """Read a login by token, from a file (KIP-768) or unsecured, in the words of either library."""
    unused = sorted({_USERNAME, _PASSWORD} & given.keys())
    if unused:
        raise UserError(f"{unused[0]} has no effect with sasl.mechanism=OAUTHBEARER: remove it")
    url = given.get(_TOKEN_URL, "").strip()
    unsecured = _unsecured(given, options)
    if url and unsecured is not None:
        raise UserError(f"{_TOKEN_URL} and an unsecured token contradict each other: state one")
    if unsecured is not None:
        return _Login(SaslMechanism.OAUTHBEARER, unsecured.user, token=unsecured)
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return _Login(SaslMechanism.OAUTHBEARER, token=TokenFile(Path(unquote(parts.path))))
    known = f"{_TOKEN_URL}=file:///PATH, or {_JAAS} with {_CLAIM}sub for an unsecured one"
    if not url and _TOKEN_METHOD not in given:
        raise UserError(f"OAUTHBEARER needs a token: state {known}")
    raise UserError(
        f"tokens are not asked for at a server here: have one written to a file, and state {known}"
    )


_CLAIM: Final = "unsecuredLoginStringClaim_"
_LIFETIME: Final = "unsecuredLoginLifetimeSeconds"


def _unsecured(given: Mapping[str, str], options: Mapping[str, str]) -> UnsecuredToken | None:
    """The unsecured token that is asked for, if any. Raises UserError."""
    stated = dict(options)
    user, lifetime = stated.pop(f"{_CLAIM}sub", ""), stated.pop(_LIFETIME, None)
    if stated:
        raise UserError(f"{_JAAS}: {min(stated)} is not known here")
    if given.get(_UNSECURED, "false").strip().lower() == "true":
        words = dict(word.partition("=")[::2] for word in given.get(_UNSECURED_CONFIG, "").split())
        name, lifetime = words.pop("principal", ""), words.pop("lifeSeconds", lifetime)
        if words:
            raise UserError(f"{_UNSECURED_CONFIG}: {min(words)} is not known here")
        if user and name and user != name:
            raise UserError(f"{_JAAS} and {_UNSECURED_CONFIG} contradict each other: state one")
        user = user or name
        if not user:
            raise UserError(f"{_UNSECURED} needs {_UNSECURED_CONFIG}=principal=USER")
    if not user:
        return None
    if user.split() != [user]:
        raise UserError("the user of an unsecured token cannot hold spaces here")
    if lifetime is None:
        return UnsecuredToken(user)
    if not lifetime.isascii() or not lifetime.isdecimal() or not 0 < int(lifetime) < 1 << 31:
        raise UserError(f"the lifetime of an unsecured token must be seconds, not {lifetime}")
    return UnsecuredToken(user, int(lifetime))


def _jaas_options(text: str, mechanism: SaslMechanism) -> Mapping[str, str]:
    """The options of the login module in a `sasl.jaas.config`. Raises UserError."""
    try:
        module = parse_jaas(text)
    except ValueError as problem:
        raise UserError(f"{_JAAS} is not valid: {problem}") from None
    if module.name != LOGIN_MODULES[mechanism]:
        raise UserError(f"{_JAAS} names {module.name}, which is not for {mechanism}")
    return module.options
