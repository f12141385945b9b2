"""Public keys for signed tokens, fetched periodically from a URL (JWKS, RFC 7517).

A fetch runs on its own thread; neither clients nor the broker's shutdown wait for it. Kafka:
`RefreshingHttpsJwks`.
"""

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cluster.brokers.network.purgatory import Cancellable
from cluster.model.clocks import MonotonicMs

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

ASKED_FOR_AGAIN_MS: Final = 10_000
"""A missing key triggers a fetch at once, but at most one in this time."""

Fetch = Callable[[str], bytes]
"""Fetches the document at a URL; blocks. Raises OSError or ValueError."""


class KeySetRules(NamedTuple):
    """The URL of a key set, and how often it is fetched; times in milliseconds."""

    url: str
    refresh_ms: int
    retry_ms: int
    """The delay after the first failed fetch; it doubles with each further one."""
    retry_max_ms: int


class Timers(Protocol):
    """The part of the event loop that is used here."""

    now_ms: MonotonicMs

    def call_after(self, delay_ms: int, callback: Callable[[], None]) -> Cancellable:
        """Run `callback` after a while."""
        ...

    def call_from_thread(self, callback: Callable[[], None]) -> None:
        """Thread-safe: run `callback` on the loop's thread."""
        ...


class KeySet:
    """Used by the broker's thread. Lifecycle: `begin`, any number of `find`, `end`."""

    def __init__(
        self,
        rules: KeySetRules,
        timers: Timers,
        run: Callable[[Callable[[], None]], None],
        fetch: Fetch,
    ) -> None:
        """`run` makes a blocking call on another thread and may abandon it when the process
        ends.
        """
        self.rules = rules
        self._timers = timers
        self._run = run
        self._fetch = fetch
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._only_key: jwt.PyJWK | None = None
        self._timer: Cancellable | None = None
        self._is_fetching = False
        self._has_ended = False
        self._last_fetch_ms: MonotonicMs | None = None
        self._failures = 0
        self._last_failure = ""

    def begin(self) -> None:
        """Start the first fetch; there are no keys until it is done."""
        self._fetch_now()

    def end(self) -> None:
        """Stop fetching."""
        self._has_ended = True
        if self._timer is not None:
            self._timer.cancel()

    def find(self, key_id: str | None) -> "jwt.PyJWK | None":
        """The key with that id, or the only key if no id is given; None if there is none."""
        key = self._only_key if key_id is None else self._keys.get(key_id)
        last_ms = self._last_fetch_ms
        if key is None and (last_ms is None or self._timers.now_ms - last_ms >= ASKED_FOR_AGAIN_MS):
            self._fetch_now()
        return key

    def _fetch_now(self) -> None:
        if self._is_fetching or self._has_ended:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._is_fetching = True
        self._last_fetch_ms = self._timers.now_ms
        url, fetch, post = self.rules.url, self._fetch, self._timers.call_from_thread

        def work() -> None:
            try:
                keys = _parsed(fetch(url))
            except (OSError, ValueError) as error:
                failure = error
                post(lambda: self._on_failed(failure))
            else:
                post(lambda: self._on_fetched(keys))

        self._run(work)

    def _on_fetched(self, keys: "list[jwt.PyJWK]") -> None:
        by_id = {key.key_id: key for key in keys}
        if by_id.keys() != self._keys.keys() or self._failures:
            log.info("fetched %d keys for tokens from %s", len(keys), self.rules.url)
        self._keys = by_id
        self._only_key = keys[0] if len(keys) == 1 else None
        self._failures, self._last_failure = 0, ""
        self._wait(self.rules.refresh_ms)

    def _on_failed(self, error: Exception) -> None:
        self._failures += 1
        failure = str(error)
        if failure != self._last_failure:  # retried until it succeeds
            log.warning("cannot fetch the keys for tokens from %s: %s", self.rules.url, failure)
            self._last_failure = failure
        doubled_ms = self.rules.retry_ms << min(self._failures - 1, 30)
        self._wait(min(doubled_ms, self.rules.retry_max_ms))

    def _wait(self, delay_ms: int) -> None:
        self._is_fetching = False
        if not self._has_ended:
            self._timer = self._timers.call_after(max(1, delay_ms), self._fetch_now)


def _parsed(document: bytes) -> "list[jwt.PyJWK]":
    """The usable keys of a document. Raises ValueError."""
    # imported on demand: most clusters use no tokens, and the import takes long
    import jwt

    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        raise ValueError("the document is not JSON") from None
    listed = found.get("keys") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise ValueError("the document is not a JSON object with a list of keys")  # noqa: TRY004 - callers expect ValueError
    keys = []
    for each in listed:
        try:
            keys.append(jwt.PyJWK.from_dict(each))
        except Exception:  # noqa: BLE001 - PyJWT raises whatever its parsers raise
            continue
    if not keys:
        raise ValueError(f"none of the document's {len(listed)} keys can be used")
    return keys
