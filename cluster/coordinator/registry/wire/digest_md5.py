"""SASL DIGEST-MD5 as ZooKeeper and its clients speak it, both sides. Pure; nonces are arguments.

Source: RFC 2831, `com.sun.security.sasl.digest` of the JDK and `SaslServerCallbackHandler` of
ZooKeeper: protocol `zookeeper`, server and realm `zk-sasl-md5`, no layer of integrity (qop `auth`).

    client                                    server
    (empty)                                -> realm, nonce, charset, algorithm
    username, realm, nonce, cnonce, nc, qop,
    digest-uri, response                   -> rspauth, which proves that it knows the password too
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

MECHANISM: Final = "DIGEST-MD5"
SERVICE: Final = "zookeeper"
SERVER_NAME: Final = "zk-sasl-md5"
_DIGEST_URI: Final = f"{SERVICE}/{SERVER_NAME}"
_FIRST_COUNT: Final = "00000001"
_TOKEN_BYTES_MAX: Final = 4_096
"""The limit of RFC 2831 2.1.2 on a response."""


class LoginRefused(Exception):
    """A token violates the protocol, or its password is wrong. The text is for the log and holds no
    secret.
    """


class Proved(NamedTuple):
    """The user that a response proved, and the server's answer to it."""

    user: str
    answer: bytes


class DigestExchange:
    """The server's side of one login. Lifecycle: `challenge` is sent, `check` is called once."""

    __slots__ = ("_nonce",)

    def __init__(self, nonce: str) -> None:
        """`nonce`: unpredictable, made of letters and digits, never used in another exchange."""
        self._nonce = nonce

    @property
    def challenge(self) -> bytes:
        """The server's first token."""
        return (
            f'realm="{SERVER_NAME}",nonce="{self._nonce}",charset=utf-8,algorithm=md5-sess'
        ).encode("ascii")

    def check(self, response: bytes, passwords: Mapping[str, str]) -> Proved:
        """Check a client's response against `passwords` (by user). Raises LoginRefused.

        An unknown user takes as much time and gets the same answer as a wrong password.
        """
        fields = parse_directives(response)
        is_utf8 = fields.get("charset", b"") == b"utf-8"
        user = fields.get("username", b"").decode("utf-8" if is_utf8 else "latin-1", "replace")
        _require_same("nonce", fields, self._nonce)
        _require_same("nc", fields, _FIRST_COUNT)
        _require_same("realm", fields, SERVER_NAME)
        _require_same("digest-uri", fields, _DIGEST_URI)
        if fields.get("qop", b"auth") != b"auth":
            raise LoginRefused("it asks for a layer of integrity, which ZooKeeper has not")
        if "authzid" in fields and fields["authzid"] != fields.get("username"):
            raise LoginRefused("it wants to act as another user")
        cnonce = fields.get("cnonce", b"")
        if not cnonce:
            raise LoginRefused("its response has no cnonce")
        password = passwords.get(user)
        digest = Digest(
            user if password is not None else "",
            password if password is not None else self._nonce,
            nonce=self._nonce.encode("ascii"),
            cnonce=cnonce,
            authzid=fields.get("authzid"),
            is_utf8=is_utf8,
        )
        is_right = hmac.compare_digest(digest.proof("AUTHENTICATE"), fields.get("response", b""))
        if password is None or not is_right:
            raise LoginRefused("unknown user or wrong password")
        return Proved(user, b"rspauth=" + digest.proof(""))


def client_response(challenge: bytes, user: str, password: str, cnonce: str) -> bytes:
    """A client's answer to a server's challenge. Raises LoginRefused if the challenge is malformed.

    `cnonce`: unpredictable, made of letters and digits. The server's last answer has to equal
    `server_proof` of the same arguments.
    """
    nonce = parse_directives(challenge).get("nonce", b"")
    if not nonce:
        raise LoginRefused("the registry's challenge has no nonce")
    digest = _client_digest(nonce, user, password, cnonce)
    return b",".join(
        (
            b"charset=utf-8",
            b'username="' + _escaped(user.encode("utf-8")) + b'"',
            f'realm="{SERVER_NAME}"'.encode("ascii"),
            b'nonce="' + _escaped(nonce) + b'"',
            f'nc={_FIRST_COUNT},cnonce="{cnonce}"'.encode("ascii"),
            f'digest-uri="{_DIGEST_URI}",maxbuf=65536'.encode("ascii"),
            b"response=" + digest.proof("AUTHENTICATE"),
            b"qop=auth",
        )
    )


def server_proof(challenge: bytes, user: str, password: str, cnonce: str) -> bytes:
    """The last answer of a server that knows the password."""
    nonce = parse_directives(challenge).get("nonce", b"")
    return b"rspauth=" + _client_digest(nonce, user, password, cnonce).proof("")


def parse_directives(token: bytes) -> dict[str, bytes]:
    """`name=value,name="value"` by name in lower case; in quotes a backslash escapes the next
    character. Raises LoginRefused for anything else, and for a name that occurs twice.
    """
    if len(token) > _TOKEN_BYTES_MAX:
        raise LoginRefused(f"a token of {len(token)} bytes")
    fields: dict[str, bytes] = {}
    position = 0
    while position < len(token):
        equals = token.find(b"=", position)
        if equals < 0:
            raise LoginRefused("a directive without a value")
        name = token[position:equals].strip(b" \t\r\n,").decode("latin-1").lower()
        value, position = _read_value(token, equals + 1)
        if name in fields:
            raise LoginRefused("a directive twice")
        fields[name] = value
    return fields


def _read_value(token: bytes, position: int) -> tuple[bytes, int]:
    """A value, and the position of the next directive."""
    while token[position : position + 1] in (b" ", b"\t", b"\r", b"\n"):
        position += 1
    if token[position : position + 1] != b'"':
        end = token.find(b",", position)
        end = len(token) if end < 0 else end
        return token[position:end].strip(b" \t\r\n"), end + 1
    value = bytearray()
    position += 1
    while position < len(token):
        byte = token[position]
        if byte == ord('"'):
            rest = token[position + 1 :].lstrip(b" \t\r\n")
            if rest and not rest.startswith(b","):
                raise LoginRefused("text behind a quoted value")
            return bytes(value), len(token) - len(rest) + 1
        if byte == ord("\\"):
            position += 1
        value += token[position : position + 1]
        position += 1
    raise LoginRefused("a quoted value without its end")


class Digest:
    """The hashes of one exchange (RFC 2831 2.1.2.1 and 2.1.3), for any protocol and server."""

    def __init__(
        self,
        user: str,
        password: str,
        *,
        nonce: bytes,
        cnonce: bytes,
        authzid: bytes | None = None,
        is_utf8: bool,
        realm: str = SERVER_NAME,
        digest_uri: str = _DIGEST_URI,
    ) -> None:
        secret = b":".join(
            (_hashed(user, is_utf8), realm.encode("ascii"), _hashed(password, is_utf8))
        )
        session = b":".join((_md5(secret).digest(), nonce, cnonce))
        if authzid is not None:
            session += b":" + authzid
        self._session = _hex(session)
        self._digest_uri = digest_uri
        self._middle = b":".join((nonce, _FIRST_COUNT.encode("ascii"), cnonce, b"auth"))

    def proof(self, method: str) -> bytes:
        """The proof of one side as 32 hex digits; `method` is `AUTHENTICATE` for the client and
        empty for the server.
        """
        target = _hex(f"{method}:{self._digest_uri}".encode("ascii"))
        return _hex(b":".join((self._session, self._middle, target)))


def _client_digest(nonce: bytes, user: str, password: str, cnonce: str) -> Digest:
    return Digest(user, password, nonce=nonce, cnonce=cnonce.encode("ascii"), is_utf8=True)


def _md5(content: bytes) -> "hashlib._Hash":
    return hashlib.md5(content, usedforsecurity=False)


def _hex(content: bytes) -> bytes:
    return _md5(content).hexdigest().encode("ascii")


def _hashed(text: str, is_utf8: bool) -> bytes:
    """A text that ISO 8859-1 can encode is hashed in it, whatever the charset (RFC 2831
    2.1.2.1).
    """
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8" if is_utf8 else "latin-1", "replace")


def _escaped(content: bytes) -> bytes:
    return content.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def _require_same(name: str, fields: Mapping[str, bytes], expected: str) -> None:
    if fields.get(name) != expected.encode("ascii"):
        raise LoginRefused(f"its response names another {name}")
