"""Assembles the parts that authenticate clients: logins and the credentials that they check."""

import logging
from collections.abc import Callable
from functools import partial

from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.security.key_sets import KeySet
from cluster.brokers.security.login_options import LoginOptions
from cluster.brokers.security.logins import Logins
from cluster.brokers.security.scram_login import ScramNames
from cluster.brokers.stored.delegation_tokens import DelegationTokens, TokenRules
from cluster.brokers.stored.document_follower import FollowerGroup
from cluster.brokers.stored.user_credentials import UserCredentials
from cluster.config import broker as keys
from cluster.config.live_settings import LiveSettings
from cluster.config.setting import SettingError
from cluster.config.settings import Settings
from cluster.coordinator.cluster_store import StoreSession
from cluster.model.clocks import WallMs
from cluster.runtime.background_thread import run_detached
from cluster.runtime.loop import EventLoop
from cluster.runtime.web_documents import fetch_document

log = logging.getLogger(__name__)


class Authentication:
    """One per broker, used by its thread. Lifecycle: `load_secret`, then `follower`'s, `close`."""

    def __init__(
        self,
        store: StoreSession,
        loop: EventLoop,
        wall_ms: Callable[[], WallMs],
        settings: LiveSettings,
        token_rules: TokenRules,
        counters: BrokerCounters | None,
    ) -> None:
        """Raises SettingError."""
        self._store = store
        self.credentials = UserCredentials(store, loop, wall_ms)
        self.tokens = DelegationTokens(store, loop, wall_ms, token_rules)
        self.follower = FollowerGroup([self.credentials.follower, self.tokens.follower])
        self._options = LoginOptions(
            ScramNames(self.credentials.credential, self.tokens.known, self.credentials.forms),
            lambda rules: KeySet(rules, loop, partial(run_detached, "key-fetcher"), fetch_document),
        )
        self.logins = Logins(
            self._options.of(settings.now),
            loop,
            wall_ms,
            lambda: settings[keys.CONNECTION_FAILED_AUTHENTICATION_DELAY_MS],
            counters,
        )
        settings.subscribe(self._on_settings_changed)

    def _on_settings_changed(self, settings: Settings) -> None:
        try:
            self.logins.replace_listeners(self._options.of(settings))
        except SettingError as error:
            log.warning(
                "kept the current login settings, because the new ones are invalid: %s", error
            )

    def load_secret(self) -> None:
        """Load the secret from which the salts of unknown users are derived; blocks."""
        options = self._options
        options.secret = self._store.call(lambda store: store.ids.login_secret(options.secret))

    def close(self) -> None:
        """Stop fetching keys."""
        self._options.end()
