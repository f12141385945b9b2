"""Delegation tokens (KIP-48): follows the stored ones and changes them for clients.

Logging in with a token is SCRAM with the token's secret as the password. Deriving the credential
takes two milliseconds, so it is done when a token is first used with a mechanism; the start takes
no longer with many tokens. The number of tokens per owner is limited.
"""

import hashlib
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping
from hmac import compare_digest
from typing import Final, NamedTuple

from cluster.brokers.stored.changes import DONE, make_changes
from cluster.brokers.stored.document_follower import ChangeFollower, FollowerGroup
from cluster.config.broker import DELEGATION_TOKEN_MAX_PER_OWNER
from cluster.coordinator.cluster_store import ClusterStore, StoreSession, TokenNews
from cluster.model.acls import USER_PREFIX
from cluster.model.clocks import WallMs
from cluster.model.delegation_tokens import DelegationToken, KnownToken, token_hmac, token_password
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.model.scram import ScramCredential, credential_of, made_up_credential
from cluster.model.security import SaslMechanism
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

MAX_RENEWERS_LENGTH: Final = 16_384
"""The limit on the total length of a token's renewers, which the registry and every broker keep."""


class TokenRules(NamedTuple):
    """The lifetimes of tokens in milliseconds, and their number. Without a secret there are
    none.
    """

    secret: str | None
    max_lifetime_ms: int
    expiry_ms: int
    """The time from creation or renewal until a token expires."""
    max_per_owner: int


class _Held(NamedTuple):
    """A token with its secret, and its SCRAM credentials once they were used."""

    token: DelegationToken
    secret: bytes
    credentials: dict[SaslMechanism, ScramCredential]


OnDone = Callable[[ErrorCode, DelegationToken | None], None]


class DelegationTokens:
    """One per broker, used by its thread."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        wall_ms: Callable[[], WallMs],
        rules: TokenRules,
    ) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._rules = rules
        self._secret = rules.secret or ""
        self._held: dict[str, _Held] = {}
        self._ids: dict[bytes, str] = {}
        """Token ids by a digest of the secret: a lookup reveals nothing by its duration."""
        self._by_owner: dict[str, set[str]] = {}
        """Token ids by owner, including tokens that are being created."""
        follower: ChangeFollower[TokenNews] = ChangeFollower(
            store,
            loop,
            "the delegation tokens",
            lambda stores, seen, on_change: stores.tokens.load(seen, on_change),
            self._apply,
        )
        self.follower = FollowerGroup([follower] if self.is_enabled else [])

    @property
    def is_enabled(self) -> bool:
        """Whether delegation tokens are enabled."""
        return bool(self._secret)

    def known(self, mechanism: SaslMechanism, token_id: str) -> KnownToken | None:
        """The token with that id for a login; None if there is none."""
        held = self._held.get(token_id)
        if held is None or not held.token.owner.startswith(USER_PREFIX):
            return None
        token = held.token
        ends_at = min(token.expires_at, token.max_at)
        own = held.credentials.get(mechanism)
        if own is None:
            own = held.credentials[mechanism] = self._credential(mechanism, token_id)
        return KnownToken(token.owner.removeprefix(USER_PREFIX), ends_at, own)

    def _credential(self, mechanism: SaslMechanism, token_id: str) -> ScramCredential:
        """Derive a credential, which takes milliseconds. The salt is the same on every broker and
        after every start.
        """
        salt = made_up_credential(mechanism, self._secret.encode(), token_id).salt
        return credential_of(mechanism, token_password(self._secret, token_id), salt)

    def tokens(self) -> Iterable[DelegationToken]:
        return [held.token for held in self._held.values()]

    def hmac_of(self, token: DelegationToken) -> bytes:
        """The secret of a token; only for clients who may know it."""
        held = self._held.get(token.token_id)
        return token_hmac(self._secret, token.token_id) if held is None else held.secret

    def _apply(self, news: TokenNews) -> None:
        gone = self._held.keys() - news.tokens.keys() if news.is_whole else set()
        for token_id in gone | {each for each, token in news.tokens.items() if token is None}:
            self._drop(token_id)
        for token in news.tokens.values():
            if token is not None:
                self._keep(token)

    def _keep(self, token: DelegationToken) -> None:
        token_id = token.token_id
        self._by_owner.setdefault(token.owner, set()).add(token_id)
        before = self._held.get(token_id)
        if before is not None:
            self._held[token_id] = before._replace(token=token)
            return
        secret = token_hmac(self._secret, token_id)
        self._held[token_id] = _Held(token, secret, {})
        self._ids[_digest(secret)] = token_id

    def _drop(self, token_id: str) -> None:
        held = self._held.pop(token_id, None)
        if held is not None:
            self._ids.pop(_digest(held.secret), None)
            self._uncount(held.token)

    def _uncount(self, token: DelegationToken) -> None:
        own = self._by_owner.get(token.owner, set())
        own.discard(token.token_id)
        if not own:
            self._by_owner.pop(token.owner, None)

    # -- asked by clients --------------------------------------------------------------------------

    def create(
        self,
        owner: str,
        requester: str,
        renewers: Iterable[str],
        max_lifetime_ms: int,
        on_done: OnDone,
    ) -> None:
        """Create a token; a lifetime of 0 or less stands for the maximum. An owner with the maximal
        number of tokens gets none, unless one of them has expired and can be removed.
        """
        if not self.is_enabled:
            on_done(ErrorCode.delegation_token_auth_disabled, None)
            return
        renewers = tuple(renewers)
        if sum(map(len, renewers)) > MAX_RENEWERS_LENGTH:
            on_done(ErrorCode.invalid_request, None)
            return
        if not self._makes_room(owner):
            log.warning(
                "no more delegation tokens for %s, who has %d (%s)",
                owner,
                self._rules.max_per_owner,
                DELEGATION_TOKEN_MAX_PER_OWNER.name,
            )
            on_done(ErrorCode.policy_violation, None)
            return
        now_ms, longest_ms = self._wall_ms(), self._rules.max_lifetime_ms
        lifetime_ms = longest_ms if max_lifetime_ms <= 0 else min(max_lifetime_ms, longest_ms)
        max_at = WallMs(now_ms + lifetime_ms)
        token = DelegationToken(
            secrets.token_urlsafe(16),
            owner,
            requester,
            renewers,
            now_ms,
            max_at,
            WallMs(min(max_at, now_ms + self._rules.expiry_ms)),
        )
        log.info("delegation token %s is made for %s", token.token_id, owner)
        self._by_owner.setdefault(owner, set()).add(token.token_id)

        def done(error: ErrorCode, made: DelegationToken | None) -> None:
            if error is not ErrorCode.none:
                self._uncount(token)
            on_done(error, made)

        self._write(token, done)

    def _makes_room(self, owner: str) -> bool:
        """Whether the owner may have another token. Removes an expired one if that is needed."""
        own = self._by_owner.get(owner, set())
        if len(own) < self._rules.max_per_owner:
            return True
        now_ms = self._wall_ms()
        held = (self._held[each].token for each in own if each in self._held)
        expired = next((token for token in held if token.is_expired(now_ms)), None)
        if expired is None:
            return False
        self._uncount(expired)  # so that another call removes another one
        self._remove(expired, _ignore)
        return True

    def renew(self, principal: str, token_secret: bytes, period_ms: int, on_done: OnDone) -> None:
        """Extend a token by that time from now; a negative period stands for the default."""
        token = self._changeable(principal, token_secret, on_done)
        if token is not None:
            period_ms = self._rules.expiry_ms if period_ms < 0 else period_ms
            self._write(self._until(token, period_ms), on_done)

    def expire(self, principal: str, token_secret: bytes, period_ms: int, on_done: OnDone) -> None:
        """Let a token expire after that time, or at once if it is negative."""
        token = self._changeable(principal, token_secret, on_done, is_ended=period_ms < 0)
        if token is None:
            return
        if period_ms < 0:
            log.info("delegation token %s of %s is ended", token.token_id, token.owner)
            self._remove(token._replace(expires_at=self._wall_ms()), on_done)
        else:
            self._write(self._until(token, period_ms), on_done)

    def _changeable(
        self, principal: str, token_secret: bytes, on_done: OnDone, *, is_ended: bool = False
    ) -> DelegationToken | None:
        """The token with that secret; None if it may not be changed, which has been answered
        then.
        """
        token = self._of_secret(token_secret)
        if not self.is_enabled:
            error = ErrorCode.delegation_token_auth_disabled
        elif token is None:
            error = ErrorCode.delegation_token_not_found
        elif not token.may_be_renewed_by(principal):
            error = ErrorCode.delegation_token_owner_mismatch
        elif token.is_expired(self._wall_ms()) and not is_ended:
            error = ErrorCode.delegation_token_expired
        else:
            return token
        on_done(error, None)
        return None

    def _of_secret(self, token_secret: bytes) -> DelegationToken | None:
        held = self._held.get(self._ids.get(_digest(token_secret), ""))
        if held is None or not compare_digest(held.secret, token_secret):
            return None
        return held.token

    def _until(self, token: DelegationToken, period_ms: int) -> DelegationToken:
        return token._replace(expires_at=WallMs(min(token.max_at, self._wall_ms() + period_ms)))

    def _write(self, token: DelegationToken, on_done: OnDone) -> None:
        wall_ms = self._wall_ms()

        def write(store: ClusterStore) -> DelegationToken | None:
            store.tokens.write(token, wall_ms)
            return token

        self._change(write, token, on_done)

    def _remove(self, token: DelegationToken, on_done: OnDone) -> None:
        wall_ms = self._wall_ms()

        def remove(store: ClusterStore) -> DelegationToken | None:
            store.tokens.remove(token.token_id, wall_ms)
            return None

        self._change(remove, token, on_done)

    def _change(
        self,
        change: Callable[[ClusterStore], DelegationToken | None],
        token: DelegationToken,
        on_done: OnDone,
    ) -> None:
        """Make a change, which returns the token that is stored afterwards, and apply it before
        `on_done` gets `token`.
        """

        def on_made(token_id: str, stored: DelegationToken | None) -> Outcome:
            self._apply(TokenNews({token_id: stored}, frozenset(), is_whole=False))
            return DONE

        def end(outcomes: Mapping[str, Outcome]) -> None:
            outcome = outcomes[token.token_id]
            if outcome.code is ErrorCode.none:
                on_done(outcome.code, token)
                return
            log.warning("cannot change delegation token %s: %s", token.token_id, outcome.detail)
            on_done(outcome.code, None)

        make_changes(self._store, {token.token_id: change}, on_made, end)

    # -- the controller ----------------------------------------------------------------------------

    def remove_expired(self) -> None:
        """Remove expired tokens; called on the controller."""
        now_ms = self._wall_ms()
        for token in [each for each in self.tokens() if each.is_expired(now_ms)]:
            log.info("delegation token %s of %s has expired", token.token_id, token.owner)
            self._remove(token, _ignore)


def _ignore(_code: ErrorCode, _token: DelegationToken | None) -> None:
    """No client waits for the outcome."""


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()
