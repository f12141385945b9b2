"""Rate-limits the log lines of each kind, in total and per peer. Pure.

Anybody who can make a process log a line could fill its logs. Every kind of line (a logger and its
unformatted message) therefore has a token bucket, plus one for each peer that causes it, plus a
small one for each subject of the line, so that one repeated event hides no others. A line that
finds a bucket empty is counted instead of written.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final, NamedTuple

from cluster.model.kept_names import kept_name


class Allowance(NamedTuple):
    """A bucket holds `burst` lines and gains `per_s` more each second."""

    burst: int
    per_s: float


PER_PEER: Final = Allowance(300, 2.0)
"""A peer is a host: all clients of one machine share it."""
PER_SUBJECT: Final = Allowance(10, 0.1)
"""A subject is what a peer's line is about, such as who was denied what."""
PER_KIND: Final = Allowance(1_000, 20.0)
"""Of all peers together, and of a kind that has none."""
SUMMARY_EVERY_S: Final = 10.0
_REMEMBERED_MAX: Final = 2_048
_SUMMARIES_MAX: Final = 20


class Kind(NamedTuple):
    """The identity of a kind of line."""

    logger: str
    template: str


class LeftOut(NamedTuple):
    """The number of lines left out during a number of seconds.

    `peer` is None if unknown or if there are several, and so is `subject`; `kind` is None if there
    are too many to name.
    """

    kind: Kind | None
    peer: str | None
    lines: int
    seconds: float
    subject: str | None = None

    def __str__(self) -> str:
        like = "of further kinds and peers" if self.kind is None else f'like "{self.kind.template}"'
        cause = "" if self.peer is None else f" because of {self.peer}"
        cause += "" if self.subject is None else f", each about {self.subject},"
        return f"left out {self.lines} more lines {like}{cause} within {self.seconds:.0f} s"


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float

    def is_filled(self, allowance: Allowance, now_s: float) -> bool:
        """Whether the bucket holds a token, after adding those gained since the last call."""
        earned = max(0.0, now_s - self.at_s) * allowance.per_s
        self.tokens = min(float(allowance.burst), self.tokens + earned)
        self.at_s = now_s
        return self.tokens >= 1


@dataclass(slots=True)
class _Tally:
    since_s: float
    count: int = 0


_Key = tuple[Kind, str | None, str | None]
"""Kind, peer and subject."""


class LineLimiter:
    """The buckets of recent kinds and peers, and the lines left out of each.

    Invariant: every line is either admitted or counted in exactly one `LeftOut`.
    """

    def __init__(
        self,
        per_peer: Allowance = PER_PEER,
        per_kind: Allowance = PER_KIND,
        per_subject: Allowance = PER_SUBJECT,
    ) -> None:
        self._per_subject = per_subject
        self._per_peer = per_peer
        self._per_kind = per_kind
        self._buckets: OrderedDict[_Key, _Bucket] = OrderedDict()
        self._tallies: dict[_Key, _Tally] = {}

    def admits(
        self, kind: Kind, peer: str | None, now_s: float, subject: str | None = None
    ) -> bool:
        """Whether to write this line. `now_s` is monotonic."""
        buckets = self._filled(kind, peer, now_s, subject)
        for bucket in buckets:
            bucket.tokens -= 1
        return bool(buckets)

    def leaves_out(
        self, kind: Kind, peer: str | None, now_s: float, subject: str | None = None
    ) -> bool:
        """Whether `admits` would reject the line, which is then counted and need not be
        formatted."""
        return not self._filled(kind, peer, now_s, subject)

    def _filled(
        self, kind: Kind, peer: str | None, now_s: float, subject: str | None
    ) -> list[_Bucket]:
        """The buckets for this line, if each has a token; otherwise empty, and the line is
        counted."""
        levels: list[tuple[_Key, Allowance]] = [((kind, None, None), self._per_kind)]
        # Both are untrusted texts of any length, of which thousands are kept.
        peer = None if peer is None else kept_name(peer)
        subject = None if subject is None else kept_name(subject)
        if peer is not None:
            levels.append(((kind, peer, None), self._per_peer))
        if subject is not None:
            levels.append(((kind, peer, subject), self._per_subject))
        buckets = []
        for key, allowance in reversed(levels):
            bucket = self._bucket(key, allowance, now_s)
            if not bucket.is_filled(allowance, now_s):
                self._leave_out(key, now_s)
                return []
            buckets.append(bucket)
        return buckets

    def take_left_out(self, now_s: float, *, everything: bool = False) -> list[LeftOut]:
        """Return and clear the counts of lines left out, largest first, if they are old enough."""
        due = [
            key
            for key, tally in self._tallies.items()
            if everything or now_s - tally.since_s >= SUMMARY_EVERY_S
        ]
        told = []
        for kind, peer, subject in due:
            tally = self._tallies.pop((kind, peer, subject))
            told.append(LeftOut(kind, peer, tally.count, now_s - tally.since_s, subject))
        told.sort(key=lambda one: -one.lines)
        rest = told[_SUMMARIES_MAX:]
        if not rest:
            return told
        count, seconds = sum(one.lines for one in rest), max(one.seconds for one in rest)
        return [*told[:_SUMMARIES_MAX], LeftOut(None, None, count, seconds)]

    def _bucket(self, key: _Key, allowance: Allowance, now_s: float) -> _Bucket:
        bucket = self._buckets.get(key)
        if bucket is not None:
            self._buckets.move_to_end(key)
            return bucket
        if len(self._buckets) >= _REMEMBERED_MAX:
            self._buckets.popitem(last=False)
        bucket = self._buckets[key] = _Bucket(float(allowance.burst), now_s)
        return bucket

    def _leave_out(self, key: _Key, now_s: float) -> None:
        if key not in self._tallies and len(self._tallies) >= _REMEMBERED_MAX:
            key = (key[0], None, None)
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = _Tally(now_s)
        tally.count += 1
