"""Settings that change while a broker runs: follows the stored ones and changes them for clients.

Values for one broker are checked and written by that broker, values for all brokers by the broker
that is asked, as in Kafka. Every broker watches its own record and the record for all brokers.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from cluster.brokers.stored.config_changes import Change, Texts, change_config
from cluster.brokers.stored.document_follower import DocumentFollower, FollowerGroup
from cluster.brokers.stored.stored_passwords import stored_passwords
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.dynamic import CLUSTER_WIDE, OWN, applied, check_change, texts_at
from cluster.config.live_settings import LiveSettings
from cluster.config.remarks import lines_by_reason
from cluster.config.setting import LISTENER_PREFIX
from cluster.config.snapshot import Settings, Source
from cluster.coordinator.cluster_store import (
    ClusterStore,
    ConfigOwner,
    StoredConfig,
    StoreSession,
    broker_config,
)
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)


class SettingChanges:
    """One per broker, used by its thread."""

    def __init__(
        self,
        broker: BrokerId,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        live: LiveSettings,
    ) -> None:
        self._store = store
        self._clock = clock
        self._live = live
        self._owners: Final = {OWN: broker_config(broker), CLUSTER_WIDE: broker_config(None)}
        self._followers = {
            level: self._follower(loop, level, owner) for level, owner in self._owners.items()
        }
        self.follower = FollowerGroup(list(self._followers.values()))
        self._stored: dict[Source, Texts] = {}
        """With plain passwords; in the store they are encrypted."""
        self._encrypted_before: dict[Source, StoredConfig] = {}
        """Records with passwords that are encrypted with the old secret."""
        self._passwords = stored_passwords(live.started)
        self._unreadable: dict[Source, tuple[str, ...]] = {}
        self._problems: tuple[str, ...] = ()
        """The problems that were logged last; they are not logged again after each change."""

    def _follower(
        self, loop: EventLoop, level: Source, owner: ConfigOwner
    ) -> DocumentFollower[StoredConfig]:
        return DocumentFollower(
            self._store,
            loop,
            "the settings that were changed in use",
            lambda stores, on_change: stores.configs.load(owner, on_change),
            partial(self._take, level),
        )

    def load_at_start(self) -> None:
        """Load and apply the settings; blocks. Before the logs are opened."""
        self.follower.load_at_start()
        for level, stored in self._encrypted_before.items():
            self._store.call(partial(self._reencrypt, level, stored))

    def _reencrypt(self, level: Source, stored: StoredConfig, store: ClusterStore) -> None:
        """The secret was changed. If the record changes meanwhile, it is left to the next start."""
        texts = self._passwords.reencrypted(stored.texts)
        if store.configs.write(self._owners[level], texts, stored.version, self._clock.wall_ms()):
            log.info("passwords changed in use are encrypted with the new secret")

    def _take(self, level: Source, stored: StoredConfig) -> None:
        readable = self._passwords.readable(stored.texts)
        if readable.are_old:
            self._encrypted_before[level] = stored
        self._stored[level] = readable.texts
        self._unreadable[level] = (*filter(None, [stored.problem]), *readable.problems)
        if self._stored.keys() == self._owners.keys():  # at the start both are loaded first
            self._apply()

    def _apply(self) -> None:
        """Apply the stored values; those that cannot be used are left out."""
        settings, problems = applied(self._live.started, self._stored)
        problems = (*chain.from_iterable(self._unreadable.values()), *problems)
        if problems and problems != self._problems:
            log.warning("ignored settings that were changed in use: %s", "; ".join(problems))
        self._problems = problems
        before = self._live.now
        if any(texts_at(settings, each) != texts_at(before, each) for each in self._owners):
            _log_changes(before, settings)
            self._live.replace(settings)

    def alter(
        self, level: Source, change: Change, on_done: Callable[[Outcome], None], *, is_dry: bool
    ) -> None:
        """Change the values at one level for a client; see `change_config`."""
        change_config(
            self._store,
            self._owners[level],
            self._clock.wall_ms,
            lambda before: self._changed(level, before, change),
            self._followers[level],
            on_done,
            is_dry=is_dry,
        )

    def _changed(self, level: Source, before: Texts, change: Change) -> dict[str, str]:
        plain = {**before, **self._passwords.readable(before).texts}
        after = change(plain)
        changed = [name for name in after if after[name] != plain.get(name)]
        check_change(self._live.started, level, {**self._stored, level: after}, changed)
        return self._passwords.stored(after, before)


def _log_changes(before: Settings, after: Settings) -> None:
    """Log a line with every setting whose value has changed."""
    known = _texts_in_force(before)
    changed = [
        f"{name}=[hidden]" if BROKER_SETTINGS.is_secret(name) else f"{name}={text}"
        for name, text in _texts_in_force(after).items()
        if text != known.get(name)
    ]
    if changed:
        log.info("settings changed in use: %s", ", ".join(changed))
    for line in lines_by_reason("changed in use", _remarks(before, after)):
        log.warning("%s", line)


def _remarks(before: Settings, after: Settings) -> Iterator[tuple[str, str | None]]:
    """The names of settings that were changed in use without effect, each with the reason."""
    for level in (OWN, CLUSTER_WIDE):
        known = texts_at(before, level)
        for name, text in texts_at(after, level).items():
            if text != known.get(name):
                yield name, BROKER_SETTINGS.find(name).effect.remark


def _texts_in_force(settings: Settings) -> dict[str, str | None]:
    """The value of every setting, including the settings of single listeners."""
    texts = {each.name: each.render(settings[each]) for each in settings.table}
    for layer in reversed(settings.layers):
        texts |= {
            name: text for name, text in layer.texts.items() if name.startswith(LISTENER_PREFIX)
        }
    return texts
