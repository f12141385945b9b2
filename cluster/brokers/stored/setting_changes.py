"""Keeps this broker's settings what the store says while it runs, and has them changed there.

Values for one broker are checked and written by that broker, values for all by the broker that is
asked, as in Kafka. Every broker watches the two records that concern it, so a change reaches it
within a round trip to the store, whoever has made it.
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from cluster.brokers.stored.stored_configs import DONE, Change, Texts, change_stored, failed
from cluster.brokers.stored.stored_passwords import stored_passwords
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.dynamic import CLUSTER_WIDE, OWN, applied, check_change, texts_at
from cluster.config.live_settings import LiveSettings
from cluster.config.remarks import lines_by_reason
from cluster.config.setting import LISTENER_PREFIX
from cluster.config.snapshot import Settings, Source
from cluster.coordinator.cluster_store import (
    ClusterStore,
    StoredConfig,
    StoreSession,
    broker_config,
)
from cluster.model.ids import BrokerId
from cluster.model.plan import Outcome
from cluster.runtime.clock import Clock
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_RETRY_MS: Final = 500


class SettingChanges:
    """One per broker, used by its thread; the store's operations run on its own.

    Invariant: while the session lives, a watch of each record is set that was set before it was
    read, or it is being read again.
    """

    def __init__(
        self,
        broker: BrokerId,
        store: StoreSession,
        loop: EventLoop,
        clock: Clock,
        live: LiveSettings,
    ) -> None:
        self._store = store
        self._loop = loop
        self._clock = clock
        self._live = live
        self._whose: Final = {OWN: broker_config(broker), CLUSTER_WIDE: broker_config(None)}
        self._stored: dict[Source, Texts] = {OWN: {}, CLUSTER_WIDE: {}}
        """With plain passwords; in the store they are encrypted."""
        self._passwords = stored_passwords(live.started)
        self._unreadable: dict[Source, tuple[str, ...]] = {}
        self._problems: tuple[str, ...] = ()
        """Those that were logged last: other brokers' changes do not repeat them."""

    # -- what the store says -----------------------------------------------------------------------

    def load_at_start(self) -> None:
        """Blocking: before the logs are opened."""
        for level in self._whose:
            stored = self._store.call(self._read_and_watch(level))
            self._remember(level, stored)
            if self._passwords.readable(stored.texts).are_old:
                self._store.call(partial(self._encrypt_anew, level, stored))
        self._apply()

    def _encrypt_anew(self, level: Source, stored: StoredConfig, store: ClusterStore) -> None:
        """The secret was changed. If the record changes meanwhile, it is left to the next start."""
        texts = self._passwords.encrypted_anew(stored.texts)
        wall_ms = self._clock.wall_ms()
        if store.configs.write(self._whose[level], texts, stored.version, wall_ms):
            log.info("passwords changed in use are encrypted with the new secret")

    def reload(self) -> None:
        """Read both records and watch them: in a new session nothing is watched yet."""
        for level in self._whose:
            self._reload(level)

    def _reload(self, level: Source) -> None:
        def on_failed(error: Exception) -> None:
            log.warning("cannot load the settings that were changed in use: %r", error)
            self._loop.call_after(_RETRY_MS, lambda: self._reload(level))

        self._store.submit(
            self._read_and_watch(level), lambda stored: self._take(level, stored), on_failed
        )

    def _read_and_watch(self, level: Source) -> Callable[[ClusterStore], StoredConfig]:
        whose = self._whose[level]
        return lambda store: store.configs.load(whose, lambda: self._reload(level))

    def _take(self, level: Source, stored: StoredConfig) -> None:
        self._remember(level, stored)
        self._apply()

    def _remember(self, level: Source, stored: StoredConfig) -> None:
        readable = self._passwords.readable(stored.texts)
        self._stored[level] = readable.texts
        self._unreadable[level] = (*filter(None, [stored.problem]), *readable.problems)

    def _apply(self) -> None:
        """Put in force what is stored, as far as it can be used."""
        settings, problems = applied(self._live.started, self._stored)
        problems = (*chain.from_iterable(self._unreadable.values()), *problems)
        if problems and problems != self._problems:
            log.warning("settings changed in use are left out: %s", "; ".join(problems))
        self._problems = problems
        before = self._live.now
        if any(texts_at(settings, each) != texts_at(before, each) for each in self._whose):
            _log_changes(before, settings)
            self._live.replace(settings)

    # -- asked by clients --------------------------------------------------------------------------

    def alter(
        self, level: Source, change: Change, on_done: Callable[[Outcome], None], *, is_dry: bool
    ) -> None:
        """Change the values at one level, unless `is_dry`; calls back once.

        When the outcome is `none`, this broker applies them; others are being notified.
        """

        def on_written() -> None:
            self._store.submit(
                lambda store: store.configs.load(self._whose[level]),
                on_reloaded,
                failed(on_done),
            )

        def on_reloaded(stored: StoredConfig) -> None:
            self._take(level, stored)
            on_done(DONE)

        change_stored(
            self._store,
            lambda store: store.configs.load(self._whose[level]),
            lambda store, texts, version: store.configs.write(
                self._whose[level], texts, version, self._clock.wall_ms()
            ),
            lambda before: self._changed(level, before, change),
            on_written,
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
    """One line with every setting that has another value now."""
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
    """Names of settings that were given a value in use and lack effect, with the remark on it."""
    for level in (OWN, CLUSTER_WIDE):
        known = texts_at(before, level)
        for name, text in texts_at(after, level).items():
            if text != known.get(name):
                yield name, BROKER_SETTINGS.find(name).effect.remark


def _texts_in_force(settings: Settings) -> dict[str, str | None]:
    """The value of every setting, and those that listeners have of their own."""
    texts = {each.name: each.render(settings[each]) for each in settings.table}
    for layer in reversed(settings.layers):
        texts |= {
            name: text for name, text in layer.texts.items() if name.startswith(LISTENER_PREFIX)
        }
    return texts
