"""SASL/SCRAM on the server's side, for users and for delegation tokens.

Pure. Kafka: `ScramSaslServer`. An unknown user or token goes through the same steps as a known one,
with a made-up salt that cannot be told from a real one; Kafka ends such an exchange at its first
message.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cluster.brokers.security.exchange import LoginFailed, Proof
from cluster.brokers.security.plain_login import OTHER_IDENTITY
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import KnownToken
from cluster.model.scram import (
    MIN_ITERATIONS,
    ClientFirst,
    CredentialForm,
    ScramCredential,
    ScramError,
    ScramServer,
    made_up_credential,
    parse_client_first,
)
from cluster.model.security import SaslMechanism


class ScramNames(NamedTuple):
    """Looks up credentials by mechanism and name; None if there are none."""

    user: Callable[[SaslMechanism, str], ScramCredential | None]
    token: Callable[[SaslMechanism, str], KnownToken | None]
    """Looks up a delegation token by its id."""
    forms: Callable[[SaslMechanism], Sequence[tuple[CredentialForm, int]]]
    """The forms of users' credentials; see `forms_in_use`."""


class ScramExchange:
    """`secret` derives salts for unknown names; `new_nonce` makes unpredictable nonces."""

    def __init__(
        self,
        mechanism: SaslMechanism,
        names: ScramNames,
        secret: bytes,
        new_nonce: Callable[[], str],
    ) -> None:
        self._mechanism = mechanism
        self._names = names
        self._secret = secret
        self._new_nonce = new_nonce
        self._server: ScramServer | None = None
        self._proof: Proof | None = None
        """The result if the password is right; None if no password is right."""
        self._user: str | None = None
        """The name that the client claims, for the log."""
        self._failure = "invalid user name or password"

    def respond(self, token: bytes, now_ms: WallMs) -> bytes | Proof:
        try:
            if self._server is None:
                return self._begin(parse_client_first(token), now_ms)
            answer = self._server.final_message(token)
        except ScramError as error:
            raise LoginFailed(str(error), user=self._user) from None
        proof = self._proof
        if proof is None:
            raise LoginFailed(self._failure, user=self._user)
        return proof._replace(answer=answer)

    def _begin(self, first: ClientFirst, now_ms: WallMs) -> bytes:
        self._user = f"delegation token {first.name}" if first.has_token else first.name
        credential = self._look_up(first, now_ms)
        if first.authorization_id not in ("", first.name):
            raise LoginFailed(
                "the client requested another authorization id", OTHER_IDENTITY, user=self._user
            )
        self._server = ScramServer(self._mechanism, first, credential, self._new_nonce())
        return self._server.first_message

    def _look_up(self, first: ClientFirst, now_ms: WallMs) -> ScramCredential:
        """The credential of the user or token, or a made-up one."""
        found: ScramCredential | None = None
        forms: Sequence[
            tuple[CredentialForm, int]
        ] = ()  # the credentials of tokens all have the same form
        if first.has_token:
            known = self._names.token(self._mechanism, first.name)
            if known is not None and known.expires_at >= now_ms:
                found = known.credential
                self._proof = Proof(known.owner, b"", known.expires_at, has_token=True)
        else:
            found = self._names.user(self._mechanism, first.name)
            if found is not None:
                self._proof = Proof(first.name, b"")
            forms = self._names.forms(self._mechanism)
        # Computed for known names too, so that both take equally long.
        made_up = made_up_credential(self._mechanism, self._secret, first.name, forms)
        if found is not None and found.iterations < MIN_ITERATIONS:
            found, self._proof = None, None
            self._failure = (
                f"its credential has fewer than {MIN_ITERATIONS} iterations: set the password again"
            )
        return made_up if found is None else found
