"""Keeps this broker's SCRAM credentials what the store says, and has them changed there."""

import logging
from collections.abc import Callable, Mapping, Sequence

from cluster.coordinator.cluster_store import Credentials, StoreSession
from cluster.coordinator.stored_copy import StoredCopy
from cluster.model.clocks import WallMs
from cluster.model.errors import ErrorCode
from cluster.model.plan import Outcome
from cluster.model.scram import MECHANISMS, CredentialForm, ScramCredential, forms_in_use
from cluster.model.security import SaslMechanism
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

CredentialChanges = Mapping[SaslMechanism, ScramCredential | None]
"""None removes the credential."""


class UserCredentials:
    """One per broker, used by its thread. They follow the store as `StoredCopy` does."""

    def __init__(self, store: StoreSession, loop: EventLoop, wall_ms: Callable[[], WallMs]) -> None:
        self._store = store
        self._wall_ms = wall_ms
        self._credentials: Credentials = {}
        self._forms: dict[SaslMechanism, Sequence[tuple[CredentialForm, int]]] = {}
        self._copy: StoredCopy[Credentials] = StoredCopy(
            store,
            loop,
            "the credentials of users",
            lambda store, on_change: store.credentials.load(on_change),
            self._apply,
        )

    def credential(self, mechanism: SaslMechanism, user: str) -> ScramCredential | None:
        """That of a user; None where there is none."""
        return self._credentials.get(user, {}).get(mechanism)

    def forms(self, mechanism: SaslMechanism) -> Sequence[tuple[CredentialForm, int]]:
        """See `forms_in_use`."""
        return self._forms.get(mechanism, ())

    def load_at_start(self) -> None:
        """Blocking: before the first client is served."""
        self._copy.load_at_start()

    def reload(self) -> None:
        """Load them and watch for the next change; after a new session too."""
        self._copy.reload()

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

    # -- asked by clients --------------------------------------------------------------------------

    def read(
        self, on_done: Callable[[Credentials], None], on_failed: Callable[[Exception], None]
    ) -> None:
        """The credentials as the store has them now."""
        self._store.submit(lambda store: store.credentials.load(), on_done, on_failed)

    def alter(
        self,
        changes: Mapping[str, CredentialChanges],
        on_done: Callable[[dict[str, Outcome]], None],
    ) -> None:
        """Write the changes of each user; calls back once with the outcome by user.

        By then this broker applies them; the others are being notified. A user one of whose
        credentials is to be removed and not there keeps all of them.
        """
        outcomes: dict[str, Outcome] = {}
        failed = Outcome(ErrorCode.unknown_server_error, "the registry did not take it")

        def on_failed(error: Exception) -> None:
            log.warning("credentials are not altered: %r", error)
            on_done(dict.fromkeys(changes, failed) | outcomes)

        def on_read(stored: Credentials) -> None:
            for user, own in changes.items():
                if any(new is None and m not in stored.get(user, {}) for m, new in own.items()):
                    outcomes[user] = Outcome(
                        ErrorCode.resource_not_found,
                        "Attempt to delete a user credential that does not exist",
                    )
            write([user for user in changes if user not in outcomes])

        def write(users: list[str]) -> None:
            if not users:
                self.read(finish, on_failed)
                return
            user, wall_ms = users[0], self._wall_ms()

            def on_written(_: None) -> None:
                outcomes[user] = Outcome(ErrorCode.none)
                write(users[1:])

            self._store.submit(
                lambda store: store.credentials.alter(user, changes[user], wall_ms),
                on_written,
                on_failed,
            )

        def finish(stored: Credentials) -> None:
            self._apply(stored)
            on_done(outcomes)

        if changes:
            self.read(on_read, on_failed)
        else:
            on_done(outcomes)
