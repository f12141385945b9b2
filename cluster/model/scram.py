"""SCRAM: proves the knowledge of a password without sending it (RFC 5802, RFC 7677).

Pure. As in Kafka (`org.apache.kafka.common.security.scram.internals`): no channel binding, no
SASLprep (a password is its UTF-8 bytes), messages in ASCII. Nonces are arguments, which callers
take from `secrets`.
"""

import base64
import binascii
import hashlib
import hmac
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cluster.model.security import SaslMechanism

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""The upper bound for a stored credential (KIP-554)."""
DEFAULT_ITERATIONS: Final = 4096
"""The default of Kafka's tools."""
SALT_BYTES: Final = 26
"""The length of salts that are created here."""
_KAFKA_SALT_BITS: Final = 130
"""Kafka's tools write a random number of this many bits with base 36 (`ScramFormatter`)."""
_kafka_salt: Final = re.compile(rb"[1-9a-z][0-9a-z]{19,25}").fullmatch
MAX_FORMS: Final = 32
"""Forms of one mechanism's credentials among which that of an unknown user is chosen."""
TOKEN_AUTH: Final = "tokenauth"
"""The extension of a client that logs in with a delegation token (KIP-48)."""

_HASHES: Final[Mapping[SaslMechanism, str]] = {
    SaslMechanism.SCRAM_SHA_256: "sha256",
    SaslMechanism.SCRAM_SHA_512: "sha512",
}
MECHANISMS: Final = tuple(_HASHES)
"""The mechanisms implemented here."""
MECHANISM_CODES: Final[Mapping[SaslMechanism, int]] = {
    SaslMechanism.SCRAM_SHA_256: 1,
    SaslMechanism.SCRAM_SHA_512: 2,
}
"""Their codes in requests (KIP-554)."""

# Kafka's patterns (ScramMessages). The "reserved" part `m=` is refused, as RFC 5802 demands.
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_plain_name: Final = re.compile(r"[\x01-\x7f]+").fullmatch
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_client_first: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
).fullmatch
_server_first: Final = re.compile(
    rf"r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
).fullmatch
_client_final: Final = re.compile(
    rf"(?P<unproved>c={_BASE64},r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
).fullmatch
_server_final: Final = re.compile(
    rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}"
).fullmatch


class ScramError(Exception):
    """A message is malformed or its proof is wrong; the text contains no secret."""


class ScramCredential(NamedTuple):
    """What a server stores of a password: enough to check it, but not to log in with it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


def salted_password(mechanism: SaslMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """PBKDF2 of `password`; takes milliseconds (RFC 5802 `SaltedPassword`)."""
    return hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)


def credential_of_salted(
    mechanism: SaslMechanism, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential with a known salted password, as AlterUserScramCredentials sends it."""
    name = _HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", name), iterations)


def credential_of(
    mechanism: SaslMechanism, password: str, salt: bytes, iterations: int = DEFAULT_ITERATIONS
) -> ScramCredential:
    """The credential of `password`; takes milliseconds."""
    salted = salted_password(mechanism, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def credential_text(credential: ScramCredential) -> str:
    """The stored text (Kafka: `ScramCredentialUtils.credentialToString`)."""
    return (
        f"salt={_to_base64(credential.salt)},stored_key={_to_base64(credential.stored_key)},"
        f"server_key={_to_base64(credential.server_key)},iterations={credential.iterations}"
    )


def parse_credential(text: str) -> ScramCredential:
    """Parse a stored text, with fields in any order. Raises ValueError, which omits the text."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        fields[key] = value
    if fields.keys() != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError("a SCRAM credential has salt, stored_key, server_key and iterations")
    try:
        salt, stored_key, server_key = (
            base64.b64decode(fields[key], validate=True)
            for key in ("salt", "stored_key", "server_key")
        )
        credential = ScramCredential(salt, stored_key, server_key, int(fields["iterations"]))
    except (ValueError, binascii.Error):
        raise ValueError("a SCRAM credential has values of Base64 and a number") from None
    if credential.iterations < 1:
        raise ValueError("a SCRAM credential has a positive number of iterations")
    return credential


class CredentialForm(NamedTuple):
    """What a client sees of a credential beside the bytes of its salt."""

    iterations: int
    salt_bytes: int | None
    """The length of the salt; None for one made by Kafka's tools."""


USUAL_FORM: Final = CredentialForm(DEFAULT_ITERATIONS, SALT_BYTES)
"""The form of credentials that are created here."""


def form_of(credential: ScramCredential) -> CredentialForm:
    salt = credential.salt
    is_kafkas = _kafka_salt(salt) is not None and not int(salt, 36) >> _KAFKA_SALT_BITS
    return CredentialForm(credential.iterations, None if is_kafkas else len(salt))


def forms_in_use(credentials: Iterable[ScramCredential]) -> tuple[tuple[CredentialForm, int], ...]:
    """The forms of credentials that clients can log in with, and the number of each.

    At most `MAX_FORMS`, the most frequent ones.
    """
    counted = Counter(form_of(each) for each in credentials if each.iterations >= MIN_ITERATIONS)
    order = sorted(counted.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple(order[:MAX_FORMS])


def made_up_credential(
    mechanism: SaslMechanism,
    secret: bytes,
    name: str,
    forms: Sequence[tuple[CredentialForm, int]] = (),
) -> ScramCredential:
    """The credential with which an unknown user is answered, so that nobody learns which users
    exist.

    It has one of the forms in use, as often as these occur. The same name has the same form and
    salt as long as `secret` and the forms are the same; if some change, few names change
    (rendezvous hashing), and then salt and form together, as with a new password. Nobody knows its
    password.
    """
    form = _chosen_form(mechanism, secret, name, forms)
    hash_name = _HASHES[mechanism]
    salt, stored, server = (
        hmac.digest(secret, f"{part} {mechanism} {name}".encode(), hash_name)
        for part in (f"salt {form}", "stored", "server")
    )
    return ScramCredential(_made_up_salt(salt, form), stored, server, form.iterations)


def _chosen_form(
    mechanism: SaslMechanism,
    secret: bytes,
    name: str,
    forms: Sequence[tuple[CredentialForm, int]],
) -> CredentialForm:
    if len(forms) < 2:
        return forms[0][0] if forms else USUAL_FORM

    def rank(weighted: tuple[CredentialForm, int]) -> float:
        form, count = weighted
        digest = hmac.digest(secret, f"form {mechanism} {form} {name}".encode(), "sha256")
        return -math.log((int.from_bytes(digest[:6]) + 1) / (1 << 48)) / count

    return min(forms, key=rank)[0]


def _made_up_salt(seed: bytes, form: CredentialForm) -> bytes:
    stream = hashlib.shake_256(seed)
    if form.salt_bytes is not None:
        return stream.digest(form.salt_bytes)
    number = int.from_bytes(stream.digest(17)) & ((1 << _KAFKA_SALT_BITS) - 1)
    digits = bytearray()
    while number:
        number, digit = divmod(number, 36)
        digits.append(b"0123456789abcdefghijklmnopqrstuvwxyz"[digit])
    return bytes(reversed(digits))


def can_log_in(name: str) -> bool:
    """Whether a user of that name can log in: messages are ASCII, as in Kafka's brokers."""
    return _plain_name(name) is not None


def escaped_name(name: str) -> str:
    """The user name in a message, without commas and equals signs."""
    return name.replace("=", "=3D").replace(",", "=2C")


class ClientFirst(NamedTuple):
    """The first message of a client."""

    name: str
    """The name of a user, or the id of a delegation token."""
    authorization_id: str
    """The user to act as; empty for the client's own."""
    nonce: str
    extensions: Mapping[str, str]
    bare: str
    """The part of the message that the proof covers."""

    @property
    def has_token(self) -> bool:
        """Whether `name` is the id of a delegation token (KIP-48)."""
        return self.extensions.get(TOKEN_AUTH, "").lower() == "true"


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse a client's first message. Raises ScramError."""
    match = _client_first(_ascii(message))
    if match is None:
        raise ScramError("invalid SCRAM client first message")
    pairs = (part.partition("=") for part in match["extensions"].split(",") if part)
    return ClientFirst(
        _unescaped(match["name"]),
        _unescaped(match["authzid"] or ""),
        match["nonce"],
        {key: value for key, _, value in pairs},
        match["bare"],
    )


class ScramServer:
    """The server's half of one exchange, from the client's first message on."""

    def __init__(
        self,
        mechanism: SaslMechanism,
        first: ClientFirst,
        credential: ScramCredential,
        server_nonce: str,
    ) -> None:
        self._hash = _HASHES[mechanism]
        self._credential = credential
        self._nonce = first.nonce + server_nonce
        salt = _to_base64(credential.salt)
        self.first_message: Final = f"r={self._nonce},s={salt},i={credential.iterations}".encode()
        self._said = f"{first.bare},{self.first_message.decode()}"

    def final_message(self, client_final: bytes) -> bytes:
        """The last message, once the client has proved its password. Raises ScramError."""
        match = _client_final(_ascii(client_final))
        if match is None:
            raise ScramError("invalid SCRAM client final message")
        # librdkafka before 2.6.1 puts its own nonce in front once more; the server's part, which
        # makes an exchange unique, is compared nevertheless.
        if not match["nonce"].endswith(self._nonce):
            raise ScramError("invalid client nonce in the SCRAM client final message")
        said = f"{self._said},{match['unproved']}".encode()
        stored_key = self._credential.stored_key
        signature = hmac.digest(stored_key, said, self._hash)
        client_key = _xor(base64.b64decode(match["proof"]), signature)
        if not hmac.compare_digest(hashlib.new(self._hash, client_key).digest(), stored_key):
            raise ScramError("invalid client credentials")
        server_signature = hmac.digest(self._credential.server_key, said, self._hash)
        return f"v={_to_base64(server_signature)}".encode()


class ScramClient:
    """The client's half of one exchange, for tools."""

    def __init__(
        self,
        mechanism: SaslMechanism,
        name: str,
        password: str,
        nonce: str,
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        more = "".join(f",{key}={value}" for key, value in (extensions or {}).items())
        self._bare = f"n={escaped_name(name)},r={nonce}{more}"
        self._server_signature = b""

    def first_message(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final_message(self, server_first: bytes) -> bytes:
        """The proof; takes milliseconds. Raises ScramError."""
        text = _ascii(server_first)
        match = _server_first(text)
        if match is None:
            raise ScramError("invalid SCRAM server first message")
        if not match["nonce"].startswith(self._nonce) or match["nonce"] == self._nonce:
            raise ScramError("invalid server nonce in the SCRAM server first message")
        iterations = int(match["iterations"])
        if iterations < MIN_ITERATIONS:
            raise ScramError(
                f"the server asks for {iterations} iterations, less than {MIN_ITERATIONS}"
            )
        name = _HASHES[self._mechanism]
        salt = base64.b64decode(match["salt"])
        salted = salted_password(self._mechanism, self._password, salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", name)
        unproved = f"c=biws,r={match['nonce']}"
        said = f"{self._bare},{text},{unproved}".encode()
        signature = hmac.digest(hashlib.new(name, client_key).digest(), said, name)
        server_key = hmac.digest(salted, b"Server Key", name)
        self._server_signature = hmac.digest(server_key, said, name)
        return f"{unproved},p={_to_base64(_xor(client_key, signature))}".encode()

    def check_server_final(self, server_final: bytes) -> None:
        """Raise ScramError unless the server has proved that it knows the credential."""
        match = _server_final(_ascii(server_final))
        if match is None:
            raise ScramError("invalid SCRAM server final message")
        if match["error"] is not None:
            raise ScramError(f"the server answered: {match['error']}")
        signature = base64.b64decode(match["signature"])
        if not self._server_signature or not hmac.compare_digest(signature, self._server_signature):
            raise ScramError("the server did not prove that it knows the credential")


def _ascii(message: bytes) -> str:
    try:
        return message.decode("ascii")
    except UnicodeDecodeError:
        raise ScramError("a SCRAM message has bytes other than ASCII") from None


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _xor(left: bytes, right: bytes) -> bytes:
    """The XOR of texts of equal length. Raises ScramError."""
    if len(left) != len(right):
        raise ScramError("a SCRAM proof has the length of the hash")
    number = int.from_bytes(left) ^ int.from_bytes(right)
    return number.to_bytes(len(left))
