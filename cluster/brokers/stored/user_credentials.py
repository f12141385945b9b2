"""SCRAM credentials of users: follows the stored ones and changes them for clients."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from cluster.brokers.stored.document_follower import DocumentFollower
from cluster.coordinator.cluster_store import (
    ClusterStore,
    Credentials,
    StoreSession,
    outcome_of,
)
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.model.scram import MECHANISMS, CredentialForm, ScramCredential, forms_in_use
from cluster.model.security import SaslMechanism
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

CredentialChanges = Mapping[SaslMechanism, ScramCredential | None]
"""None removes the credential."""
_NO_CREDENTIAL: Final = Outcome(
    ErrorCode.resource_not_found, "Attempt to delete a user credential that does not exist"
)


class UserCredentials:
    """One per broker, used by its thread."""

    def __init__(self, store: StoreSession, loop: EventLoop, wall_ms: Callable[[], WallMs]) -> None:
        self._wall_ms = wall_ms
        self._credentials: Credentials = {}
        self._forms: dict[SaslMechanism, Sequence[tuple[CredentialForm, int]]] = {}
        self.follower: DocumentFollower[Credentials] = DocumentFollower(
            store,
            loop,
            "the credentials of users",
            lambda stores, on_change: stores.credentials.load(on_change),
            self._apply,
        )

    def credential(self, mechanism: SaslMechanism, user: str) -> ScramCredential | None:
        return self._credentials.get(user, {}).get(mechanism)

    def forms(self, mechanism: SaslMechanism) -> Sequence[tuple[CredentialForm, int]]:
        """The forms of the stored credentials of a mechanism; see `forms_in_use`."""
        return self._forms.get(mechanism, ())

    def _apply(self, credentials: Credentials) -> None:
        before, self._credentials = self._credentials, credentials
        self._forms = {
            mechanism: forms_in_use(
                own[mechanism] for own in credentials.values() if mechanism in own
            )
            for mechanism in MECHANISMS
        }
        for user in sorted(before.keys() | credentials.keys()):
            own = credentials.get(user, {})
            if own != before.get(user, {}):
                log.info("user %s may log in by: %s", user, ", ".join(own) or "nothing")

    def read(
        self, on_done: Callable[[Credentials], None], on_failed: Callable[[Exception], None]
    ) -> None:
        """The credentials as they are stored now."""
        self.follower.read(on_done, on_failed)

    def alter(
        self,
        changes: Mapping[str, CredentialChanges],
        on_done: Callable[[dict[str, Outcome]], None],
    ) -> None:
        """Write the changes of each user; calls back once with the outcome of each.

        By then this broker applies them; the others are being notified. A user keeps all
        credentials if one of those to be removed does not exist.
        """

        def on_read(stored: Credentials) -> None:
            missing = {
                user
                for user, own in changes.items()
                if any(new is None and m not in stored.get(user, {}) for m, new in own.items())
            }
            refused = dict.fromkeys(missing, _NO_CREDENTIAL)
            wall_ms = self._wall_ms()
            self.follower.change(
                {
                    user: partial(_alter, user, own, wall_ms)
                    for user, own in changes.items()
                    if user not in refused
                },
                lambda outcomes: on_altered(refused, outcomes),
            )

        def on_altered(refused: Mapping[str, Outcome], outcomes: Mapping[str, Outcome]) -> None:
            for user, outcome in outcomes.items():
                if outcome.code is not ErrorCode.none:
                    log.warning("cannot alter the credentials of user %s: %s", user, outcome.detail)
            on_done({**refused, **outcomes})

        def on_failed(error: Exception) -> None:
            log.warning("cannot alter credentials: %r", error)
            on_done(dict.fromkeys(changes, outcome_of(error)))

        self.read(on_read, on_failed)


def _alter(user: str, changes: CredentialChanges, wall_ms: WallMs, store: ClusterStore) -> None:
    store.credentials.alter(user, changes, wall_ms)
