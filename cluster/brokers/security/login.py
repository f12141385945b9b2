"""The login of one connection by SASL, from its first request to its proof.

Pure. KIP-43, KIP-152, KIP-368; Kafka: `SaslServerAuthenticator`.

    state      request                      answer                                    next
    BEGIN      ApiVersions                  passes                                    BEGIN
    BEGIN      SaslHandshake                the mechanisms                            TOKENS
    BEGIN      SaslHandshake, unknown       UNSUPPORTED_SASL_MECHANISM, the list      failed
    TOKENS     SaslAuthenticate             a challenge, or the end of the exchange   TOKENS, done
    TOKENS     ApiVersions                  passes                                    TOKENS
    any        ApiVersions, too many        none                                      failed
    TOKENS     SaslHandshake                ILLEGAL_SASL_STATE                        failed
    any        any other request            none                                      failed

After SaslHandshake v0 tokens come and go without headers, each behind its size. A client logs in
again on a connection by the same requests, as the same user and by the same mechanism.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, NamedTuple

from cluster.brokers.security.exchange import Exchange, LoginFailed, Proof
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode, PeerError
from cluster.model.printable import one_line
from cluster.protocol.adapter import decode_request, encode_response
from cluster.protocol.api import Api, ApiKey
from cluster.protocol.framing import RequestHeader, parse_request_header
from cluster.protocol.messages import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

API_VERSIONS_MAX: Final = 16
"""The number of ApiVersions requests that are answered before the login: a client sends one, and
possibly another in a version that the broker supports. Kafka closes the connection at the second
one that it could answer.
"""
_USER_MAX_CHARACTERS: Final = 100
"""The length of a claimed user name in a log line."""
HANDSHAKE: Final = Api(ApiKey.SASL_HANDSHAKE, 0, 1)
AUTHENTICATE: Final = Api(ApiKey.SASL_AUTHENTICATE, 0, 2)


class MechanismRules(NamedTuple):
    """A mechanism of a listener."""

    start: Callable[[], Exchange]
    max_session_ms: int
    """The lifetime of a login (`connections.max.reauth.ms`); 0: until its credentials expire."""


class Session(NamedTuple):
    """The result of a successful login."""

    user: str
    mechanism: str
    has_token: bool
    """Whether the client logged in with a delegation token."""
    lifetime_ms: int | None
    """The client has to log in again after this time; None if it does not."""


class Reaction(NamedTuple):
    """The reaction to a request."""

    answer: bytes | None
    """A frame including its size; None if nothing is sent."""
    session: Session | None = None
    """Set once the client has logged in."""
    failure: str | None = None
    """The reason of a failure, for the log. The answer is sent after a delay, then the connection
    is closed.
    """


class Login:
    """One login attempt. `previous` is the session of a connection that logs in again."""

    def __init__(
        self, mechanisms: Mapping[str, MechanismRules], previous: Session | None = None
    ) -> None:
        self._mechanisms = mechanisms
        self._previous = previous
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._has_headers = False
        self._api_versions_count = 0

    @property
    def is_reauthentication(self) -> bool:
        """Whether the connection has logged in before."""
        return self._previous is not None

    def on_frame(self, frame: memoryview, now_ms: WallMs) -> Reaction | None:
        """Handle a request; None passes it on to the ordinary pipeline. Raises PeerError, which
        closes the connection.
        """
        if self._exchange is not None and not self._has_headers:
            return self._on_plain_token(bytes(frame), now_ms)
        header = parse_request_header(frame)
        key, version = header.api_key, header.api_version
        if key == ApiKey.API_VERSIONS:
            self._api_versions_count += 1
            if self._api_versions_count > API_VERSIONS_MAX:
                raise PeerError(f"more than {API_VERSIONS_MAX} ApiVersions before the login")
            return None
        if key == ApiKey.SASL_HANDSHAKE and HANDSHAKE.serves(version):
            request = decode_request(key, version, frame, header.body_position)
            if self._exchange is not None:
                return self._refused(header, ErrorCode.illegal_sasl_state)
            return self._on_handshake(header, request)
        is_token = key == ApiKey.SASL_AUTHENTICATE and AUTHENTICATE.serves(version)
        if is_token and self._exchange is not None:
            token = decode_request(key, version, frame, header.body_position)
            return self._on_token(header, token, now_ms)
        raise PeerError(
            f"API key {key} version {version} before the login: the client uses another"
            " security protocol or is not a Kafka client"
        )

    # -- handshake ---------------------------------------------------------------------------------

    def _on_handshake(self, header: RequestHeader, request: SaslHandshakeRequest) -> Reaction:
        rules = self._mechanisms.get(request.mechanism)
        if rules is None:
            return self._refused(header, ErrorCode.unsupported_sasl_mechanism)
        self._mechanism = request.mechanism
        self._exchange = rules.start()
        self._has_headers = header.api_version >= 1
        return Reaction(self._handshake_answer(header, ErrorCode.none))

    def _refused(self, header: RequestHeader, error: ErrorCode) -> Reaction:
        enabled = ", ".join(self._mechanisms)
        return Reaction(
            self._handshake_answer(header, error),
            failure=f"SaslHandshake: {error.name} (enabled: {enabled})",
        )

    def _handshake_answer(self, header: RequestHeader, error: ErrorCode) -> bytes:
        return encode_response(
            ApiKey.SASL_HANDSHAKE,
            header.api_version,
            header.correlation_id,
            SaslHandshakeResponse(error_code=error, mechanisms=tuple(self._mechanisms)),
        )

    # -- tokens ------------------------------------------------------------------------------------

    def _on_plain_token(self, token: bytes, now_ms: WallMs) -> Reaction:
        try:
            answer = self._evaluate(token, now_ms)
        except LoginFailed as failed:
            return Reaction(None, failure=self._failure(failed))
        session = None
        if isinstance(answer, Proof):
            session = self._session(answer, now_ms)
            answer = answer.answer
        return Reaction(len(answer).to_bytes(4) + answer, session)

    def _on_token(
        self, header: RequestHeader, request: SaslAuthenticateRequest, now_ms: WallMs
    ) -> Reaction:
        def answer(
            error: ErrorCode, told: str | None, token: bytes = b"", lifetime_ms: int = 0
        ) -> bytes:
            return encode_response(
                ApiKey.SASL_AUTHENTICATE,
                header.api_version,
                header.correlation_id,
                SaslAuthenticateResponse(
                    error_code=error,
                    error_message=told,
                    auth_bytes=token,
                    session_lifetime=timedelta(milliseconds=lifetime_ms),
                ),
            )

        try:
            found = self._evaluate(request.auth_bytes, now_ms)
        except LoginFailed as failed:
            kind = "re-authentication" if self.is_reauthentication else "authentication"
            told = failed.told or (
                f"Authentication failed during {kind} due to invalid credentials with SASL"
                f" mechanism {self._mechanism}"
            )
            return Reaction(
                answer(ErrorCode.sasl_authentication_failed, told), failure=self._failure(failed)
            )
        if not isinstance(found, Proof):
            return Reaction(answer(ErrorCode.none, None, found))
        session = self._session(found, now_ms)
        lifetime_ms = session.lifetime_ms or 0
        return Reaction(answer(ErrorCode.none, None, found.answer, lifetime_ms), session)

    def _evaluate(self, token: bytes, now_ms: WallMs) -> bytes | Proof:
        """Raises LoginFailed."""
        assert self._exchange is not None
        previous = self._previous
        if previous is not None and previous.mechanism != self._mechanism:
            told = (
                f"SASL mechanism '{self._mechanism}' requested by client is not supported for"
                f" re-authentication of mechanism '{previous.mechanism}'"
            )
            raise LoginFailed(told, told)
        found = self._exchange.respond(token, now_ms)
        if previous is not None and isinstance(found, Proof) and found.user != previous.user:
            told = (
                "Cannot change principals during re-authentication from"
                f" User.{previous.user}: User.{found.user}"
            )
            raise LoginFailed(told, told)
        return found

    def _session(self, proof: Proof, now_ms: WallMs) -> Session:
        limits = []
        if (max_ms := self._mechanisms[self._mechanism].max_session_ms) > 0:
            limits.append(max_ms)
        if proof.expires_at is not None:
            limits.append(max(0, proof.expires_at - now_ms))
        return Session(
            proof.user, self._mechanism, proof.has_token, min(limits) if limits else None
        )

    def _failure(self, failed: LoginFailed) -> str:
        again = " again" if self.is_reauthentication else ""
        name = "" if failed.user is None else f" as {one_line(failed.user, _USER_MAX_CHARACTERS)}"
        return f"it failed to log in{again}{name} by {self._mechanism}: {failed.reason}"
