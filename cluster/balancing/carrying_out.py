"""Carries out a plan: some partitions at a time, throttled, and leaders elected at the end."""

import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final, NamedTuple, TypeVar

from cluster.balancing.replica_layout import Layout, Moves
from cluster.balancing.replication_throttles import (
    clear_throttles,
    moves_of,
    set_throttle,
    throttled_topics,
)
from cluster.client.admin import Admin
from cluster.client.election_requests import elect_leaders
from cluster.client.reassignment_requests import alter_reassignments, list_reassignments
from cluster.client.refusals import reason_of
from cluster.client.socket_client import SocketClient
from cluster.client.topic_requests import Place
from cluster.model.errors import UserError
from cluster.model.ids import BrokerId, TopicPartition

Reply = TypeVar("Reply")

_POLL_S: Final = 0.1
_AT_ONCE: Final = 1_000
"""Partitions of one request, where nothing is copied."""
_STALE_S: Final = 3.0
"""How long a broker may tell of replicas that are gone already."""


class Progress(NamedTuple):
    """How far it is."""

    done: int
    """Partitions."""
    moving: int
    total: int
    left_bytes: int
    """Those of partitions that are moving count in full."""
    down: tuple[BrokerId, ...] = ()
    """Brokers that get replicas, if nothing has moved for seconds since they are not alive."""


class Outcome(NamedTuple):
    """What came of a plan."""

    completed: int
    failed: dict[TopicPartition, str]
    """Why the others are where they were."""
    still_throttled: list[int]
    """Brokers that were not reached when the throttle was removed."""


def carry_out(
    admin: Admin,
    layout: Layout,
    moves: Moves,
    *,
    at_once: int,
    throttle_bytes: int | None,
    report: Callable[[Progress], None],
) -> Outcome:
    """Move partitions, at most `at_once` at a time; returns when the last has moved.

    `throttle_bytes` are per second and broker; the throttle is removed at the end. `report` is
    called after each look at the cluster. Raises Refused and UserError, and leaves what has begun
    in progress then.
    """
    copied = [p for p, held in moves.items() if set(held) != set(layout.replicas[p])]
    reordered = [p for p, held in moves.items() if set(held) == set(layout.replicas[p])]
    work = _Work(admin, layout, moves, report)
    if throttle_bytes is not None and copied:
        present = {Place(*p): layout.replicas[p] for p in copied}
        asked = moves_of({}, {Place(*p): moves[p] for p in copied}, present)
        set_throttle(admin, asked, throttle_bytes)
    work.run(reordered, _AT_ONCE)
    work.run(copied, at_once)
    work.judge()
    missed = [] if throttle_bytes is None else _remove_throttle(admin, layout)
    _elect(admin, [p for p in moves if p not in work.failed])
    return Outcome(len(moves) - len(work.failed), work.failed, missed)


def _remove_throttle(admin: Admin, layout: Layout) -> list[int]:
    """Remove the throttle of this plan, and of one that was interrupted before.

    Returns the brokers that were not reached.
    """
    facts = admin.facts()
    brokers = layout.loads().keys() | facts.brokers.keys()
    return clear_throttles(admin, brokers, throttled_topics(admin, facts))


class _Work:
    """Partitions that have moved, that are moving, and that could not."""

    def __init__(
        self, admin: Admin, layout: Layout, moves: Moves, report: Callable[[Progress], None]
    ) -> None:
        self._admin = admin
        self._layout = layout
        self._moves = moves
        self._report = report
        self._done = 0
        self._left_bytes = layout.copied_bytes(moves)
        self.failed: dict[TopicPartition, str] = {}

    def run(self, partitions: Sequence[TopicPartition], at_once: int) -> None:
        """Move these; returns when none is in progress."""
        waiting = list(reversed(partitions))
        moving: set[TopicPartition] = set()
        advanced = time.monotonic()
        down: tuple[BrokerId, ...] = ()
        while waiting or moving:
            begun = [waiting.pop() for _ in range(min(at_once - len(moving), len(waiting)))]
            if begun:
                moving |= self._begin(begun)
            over = moving - self._in_progress()
            moving -= over
            self._count(over)
            if begun or over:
                advanced, down = time.monotonic(), ()
            elif time.monotonic() - advanced > _STALE_S:
                advanced, down = time.monotonic(), self._brokers_down(moving)
            self._report(
                Progress(self._done, len(moving), len(self._moves), self._left_bytes, down)
            )
            if not over:
                time.sleep(_POLL_S)

    def judge(self) -> None:
        """Find out which partitions have not become what they should, and why."""
        unclear = self._moves.keys() - self.failed.keys()
        deadline = time.monotonic() + _STALE_S
        while unclear:
            present = self._admin.facts().replicas()
            unclear = {p for p in unclear if present.get(Place(*p)) != self._moves[p]}
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        for partition in sorted(unclear):
            is_there = Place(*partition) in present
            self.failed[partition] = (
                "its reassignment was canceled or replaced" if is_there else "it was deleted"
            )

    def _begin(self, partitions: Sequence[TopicPartition]) -> set[TopicPartition]:
        """Ask for the moves of these; returns those that the controller accepted."""
        targets = {Place(*partition): self._moves[partition] for partition in partitions}
        answers = _of_controller(
            self._admin, partial(alter_reassignments, targets=targets, may_change_factor=False)
        )
        refused = {
            TopicPartition(*place): reason_of(problem)
            for place, problem in answers.items()
            if problem is not None
        }
        self._count(refused.keys())
        self.failed |= refused
        return set(partitions) - refused.keys()

    def _in_progress(self) -> set[TopicPartition]:
        listed = _of_controller(self._admin, list_reassignments)
        return {TopicPartition(*place) for place in listed}

    def _brokers_down(self, partitions: Collection[TopicPartition]) -> tuple[BrokerId, ...]:
        """The brokers that these wait for."""
        targets = {broker for partition in partitions for broker in self._moves[partition]}
        return tuple(sorted(targets - self._admin.facts().brokers.keys()))

    def _count(self, partitions: Collection[TopicPartition]) -> None:
        self._done += len(partitions)
        over = {partition: self._moves[partition] for partition in partitions}
        self._left_bytes -= self._layout.copied_bytes(over)


def _elect(admin: Admin, partitions: Sequence[TopicPartition]) -> None:
    """Have preferred replicas lead. Those that cannot yet do so when they are in sync."""
    for first in range(0, len(partitions), _AT_ONCE):
        places = [Place(*partition) for partition in partitions[first : first + _AT_ONCE]]
        _of_controller(admin, partial(elect_leaders, election_type="preferred", places=places))


def _of_controller(admin: Admin, ask: Callable[[SocketClient], Reply]) -> Reply:
    """The controller's answer to a question that may be asked twice, as when it dies meanwhile."""
    try:
        return admin.controller(ask)
    except UserError:  # the connection broke; another one finds the next controller
        return admin.controller(ask)
