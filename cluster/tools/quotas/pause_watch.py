"""A client's reaction to throttle times, as seen between it and the broker. Pure.

The proxy reports requests, responses and times. A throttled response asks for a pause (KIP-219);
the next request of the same API on that connection ends it. Requests that were sent before the
response arrived are no violation: the client has sent ahead. One that crosses the response looks
like a violation; `Pauses` allows for that.
"""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from cluster.model.quota_pauses import Pauses
from cluster.model.quotas import QuotaKind
from cluster.protocol.api import ApiKey
from cluster.views.quantities import duration, rate, usage

WATCHED: Final = {ApiKey.PRODUCE: QuotaKind.PRODUCE, ApiKey.FETCH: QuotaKind.FETCH}
"""The requests that are charged by their bytes."""
_KEPT_SHARE: Final = 0.9
"""A pause of at least this share of the throttle time counts as kept: clocks and timers differ."""
_TOLD_MS: Final = 10
"""Shorter throttle times are not judged."""
_LEAVING_MS: Final = 1_000
"""A client that ends closes its connections, whatever it was told."""
_UNANSWERED_MAX: Final = 100_000
_PAUSES_MAX: Final = 100_000


class Pause(NamedTuple):
    """The pause that a response asked for, and the time until the next request."""

    asked_ms: int
    kept_ms: float

    @property
    def is_kept(self) -> bool:
        """Whether it was long enough."""
        return self.kept_ms >= _KEPT_SHARE * self.asked_ms


@dataclass(slots=True)
class _Connection:
    unanswered: dict[int, tuple[int, int]] = field(default_factory=dict)
    """API key and size of requests without a response, by correlation id."""
    asked: dict[QuotaKind, list[tuple[float, int]]] = field(default_factory=dict)
    """The time and length of each pause since the last request of this kind."""
    paused: set[QuotaKind] = field(default_factory=set)
    broke: set[QuotaKind] = field(default_factory=set)


@dataclass(slots=True)
class Finding:
    """The observations of one kind of request."""

    kind: QuotaKind
    requests: int = 0
    bytes: int = 0
    """Of produce requests, or of responses to fetches."""
    throttled: int = 0
    asked_ms: int = 0
    """The sum of all throttle times."""
    asked_ms_max: int = 0
    pauses: list[Pause] = field(default_factory=list)
    connections: int = 0
    early_connections: int = 0
    ahead_max: int = 0
    """Requests in flight on the same connection when a throttled response left."""
    first_ms: float | None = None
    last_ms: float = 0.0

    @property
    def behavior(self) -> Pauses:
        """The numbers of pauses that were kept and that were not."""
        kept = sum(pause.is_kept for pause in self.pauses)
        early = len(self.pauses) - kept
        return Pauses(kept, early, self.connections, self.early_connections)

    @property
    def seconds(self) -> float:
        """The time from the first to the last request or response."""
        return 0.0 if self.first_ms is None else (self.last_ms - self.first_ms) / 1_000

    @property
    def asked_median_ms(self) -> float:
        """The median of the pauses that ended with a request."""
        return statistics.median(pause.asked_ms for pause in self.pauses) if self.pauses else 0.0

    @property
    def kept_median_ms(self) -> float:
        """The median of their actual lengths."""
        return statistics.median(pause.kept_ms for pause in self.pauses) if self.pauses else 0.0

    @property
    def word(self) -> str:
        """The verdict in a word: `pauses`, `does not pause`, `sends ahead`, ..."""
        if not self.throttled:
            return "not throttled"
        honors = self.behavior.honors_throttling
        if honors is not None:
            return "pauses" if honors else "does not pause"
        if self.ahead_max and not self.pauses:
            return "sends ahead"
        return "pauses sometimes" if len(self.pauses) >= 3 else "too little to tell"

    def verdict(self) -> str:
        """The verdict for a person, in a line."""
        ahead = (
            f"; it sends requests ahead, up to {self.ahead_max} were on their way when it was told"
            if self.ahead_max
            else ""
        )
        counts = f"{self.behavior.quiet} of {len(self.pauses)} pauses were as long as asked"
        medians = f"asked {duration(self.asked_median_ms)}, kept {duration(self.kept_median_ms)}"
        texts = {
            "not throttled": f"not throttled: {usage(self.kind, self.bytes)} were too little",
            "sends ahead": (
                f"it sends requests ahead: up to {self.ahead_max} were on their way when it was"
                " told to pause and it sent none later, so that a pause could not be seen"
            ),
            "too little to tell": f"too few throttled requests to tell: {self.throttled}{ahead}",
            "pauses": f"it pauses: {counts} (median: {medians}){ahead}",
            "pauses sometimes": f"it pauses sometimes: {counts} (median: {medians}){ahead}",
            "does not pause": f"it does not pause: {counts} (median: {medians}){ahead}",
        }
        return texts[self.word]

    def cost(self, limit: float) -> str:
        """The cost of throttling for the client, in a line."""
        seconds = self.seconds
        speed = self.bytes / seconds if seconds else 0.0
        return (
            f"{usage(self.kind, self.bytes)} in {duration(1_000 * seconds)}:"
            f" {rate(self.kind, speed)} where the limit is {rate(self.kind, limit)};"
            f" {self.throttled} of {self.requests} requests were throttled, the longest for"
            f" {duration(self.asked_ms_max)}"
        )


class PauseWatch:
    """One run of a client: all traffic between it and the broker."""

    def __init__(self) -> None:
        self._connections: dict[int, _Connection] = {}
        self._findings = {kind: Finding(kind) for kind in WATCHED.values()}
        self._given_up_ms: list[float] = []
        """When the client closed a connection while it waited for a response."""

    def on_connected(self, number: int) -> None:
        """Note a new connection."""
        self._connections[number] = _Connection()

    def on_request(
        self, number: int, api_key: int, correlation_id: int, size_bytes: int, now_ms: float
    ) -> None:
        """Note that a request has begun to arrive from the client."""
        connection = self._connections[number]
        unanswered = connection.unanswered
        if len(unanswered) >= _UNANSWERED_MAX:  # acks=0: there are no responses
            del unanswered[next(iter(unanswered))]
        unanswered[correlation_id] = (api_key, size_bytes)
        finding = self._finding(api_key)
        if finding is None:
            return
        finding.requests += 1
        self._note_time(finding, now_ms)
        for asked_at_ms, asked_ms in connection.asked.pop(finding.kind, ()):
            self._end_pause(connection, finding, Pause(asked_ms, now_ms - asked_at_ms))

    def on_answer(
        self, number: int, correlation_id: int, throttle_ms: int, size_bytes: int, now_ms: float
    ) -> None:
        """Note that a whole response is on its way to the client."""
        connection = self._connections[number]
        api_key, request_bytes = connection.unanswered.pop(correlation_id, (-1, 0))
        finding = self._finding(api_key)
        if finding is None:
            return
        self._note_time(finding, now_ms)
        finding.bytes += request_bytes if finding.kind is QuotaKind.PRODUCE else size_bytes
        if not throttle_ms:
            return
        finding.throttled += 1
        finding.asked_ms += throttle_ms
        finding.asked_ms_max = max(finding.asked_ms_max, throttle_ms)
        ahead = sum(key == api_key for key, _ in connection.unanswered.values())
        finding.ahead_max = max(finding.ahead_max, ahead)
        if throttle_ms >= _TOLD_MS:
            connection.asked.setdefault(finding.kind, []).append((now_ms, throttle_ms))

    def on_disconnected(self, number: int, now_ms: float, *, by_client: bool) -> None:
        """Note a closed connection."""
        connection = self._connections.pop(number)
        if by_client and any(key in WATCHED for key, _ in connection.unanswered.values()):
            self._given_up_ms.append(now_ms)

    def given_up(self, end_ms: float) -> int:
        """Connections that the client closed while it waited, except at its end."""
        return sum(at_ms < end_ms - _LEAVING_MS for at_ms in self._given_up_ms)

    def findings(self) -> Iterator[Finding]:
        """The findings of each kind of request."""
        return (finding for finding in self._findings.values() if finding.requests)

    def answer_kind(self, number: int, correlation_id: int) -> int | None:
        """The API key of a response's request; None if there was none."""
        found = self._connections[number].unanswered.get(correlation_id)
        return None if found is None else found[0]

    def _finding(self, api_key: int) -> Finding | None:
        return self._findings[WATCHED[ApiKey(api_key)]] if api_key in WATCHED else None

    def _note_time(self, finding: Finding, now_ms: float) -> None:
        if finding.first_ms is None:
            finding.first_ms = now_ms
        finding.last_ms = now_ms

    def _end_pause(self, connection: _Connection, finding: Finding, pause: Pause) -> None:
        if len(finding.pauses) < _PAUSES_MAX:
            finding.pauses.append(pause)
        kind = finding.kind
        if kind not in connection.paused:
            connection.paused.add(kind)
            finding.connections += 1
        if not pause.is_kept and kind not in connection.broke:
            connection.broke.add(kind)
            finding.early_connections += 1
