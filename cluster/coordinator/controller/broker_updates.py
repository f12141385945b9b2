"""Sends every live broker the controller's changes until the broker acknowledges them."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from cluster.coordinator.controller.controller import Controller
from cluster.coordinator.controller.update_lines import Gate, Sending, UpdateLines
from cluster.model.cluster import BrokerRegistration, TopicState
from cluster.model.errors import ErrorCode
from cluster.model.ids import BrokerEpoch, BrokerId
from cluster.model.plan import Plan
from cluster.protocol.peer.control import Acknowledged, ClusterUpdate, Refusal

log = logging.getLogger(__name__)

UPDATE_TIMEOUT_MS: Final = 5_000
"""A live broker that does not acknowledge an update within this time is sent the full state again.
"""
_NEW_LEADERS_FIRST_MS: Final = 1_000
"""The other brokers wait no longer than this for a new leader to acknowledge its role."""
_NEW_LEADERS_FIRST_MAX: Final = 300
"""If more leaderships move, the first ones are not delayed until the last new leader is ready."""


def _nothing(_do_all_know: bool) -> None:
    return


class BrokerUpdates:
    """The updates that this broker sends while it is the controller.

    Invariant: at most one full state is being resent to a broker that is behind. `active` returns
    the controller while this broker is it; `on_deposed` is called when a broker knows a newer
    controller.
    """

    def __init__(
        self,
        local_id: BrokerId,
        lines: UpdateLines,
        call_after: Callable[[int, Callable[[], None]], object],
        active: Callable[[], Controller | None],
        on_deposed: Callable[[], None],
    ) -> None:
        self._local_id = local_id
        self._lines = lines
        self._call_after = call_after
        self._active = active
        self._on_deposed = on_deposed
        self._behind: set[tuple[BrokerId, BrokerEpoch]] = set()
        """Brokers that did not acknowledge an update and are being sent the full state."""

    def tell_everyone(
        self,
        plan: Plan,
        full_to: set[BrokerId],
        done: Callable[[bool], None] = _nothing,
        timeout_ms: int = UPDATE_TIMEOUT_MS,
    ) -> None:
        """Send the changes to every live broker. `done` is called when all have answered or timed
        out, with False if a broker that is still registered has not answered.

        If a leadership moves between live brokers the new leader is told first, so that clients
        which the others redirect to it find a leader.
        """
        controller = self._active()
        if controller is None:
            done(True)
            return
        receivers = [b for b in controller.state.brokers.values() if b.control_endpoint]
        touched = _as_they_are(plan.touched_topics(controller.state))
        waiting = {broker.id for broker in receivers}
        is_anyone_late = False

        def on_settled(broker: BrokerRegistration, has_answered: bool) -> None:
            nonlocal is_anyone_late
            is_anyone_late |= not has_answered and _is_there(controller, broker)
            if broker.id in waiting:
                waiting.discard(broker.id)
                if not waiting:
                    done(not is_anyone_late)

        if not receivers:
            done(True)
        timeout_ms = max(1, min(timeout_ms, UPDATE_TIMEOUT_MS))
        gate = self._tell_new_leaders(
            controller, plan, {b.id: b for b in receivers}, min(timeout_ms, _NEW_LEADERS_FIRST_MS)
        )
        for broker in receivers:
            self._send(
                controller,
                broker,
                touched,
                tuple(plan.deleted),
                is_full=broker.id in full_to,
                timeout_ms=timeout_ms,
                on_settled=partial(on_settled, broker),
                after=gate,
            )

    def _tell_new_leaders(
        self,
        controller: Controller,
        plan: Plan,
        receivers: Mapping[BrokerId, BrokerRegistration],
        patience_ms: int,
    ) -> Gate | None:
        """Tell each new leader that replaces a live one. Returns the gate that opens when all have
        answered or after `patience_ms`; None if there is no such leader, or if too many leaderships
        move."""
        taken: dict[BrokerId, Plan] = {}
        for partition, old_leader in plan.moved.items():
            new_state = plan.changed[partition]
            if old_leader in receivers and new_state.leader in receivers:
                own = taken.setdefault(new_state.leader, Plan())
                own.changed[partition] = new_state
        count = sum(len(own.changed) for own in taken.values())
        if not 0 < count <= _NEW_LEADERS_FIRST_MAX:
            return None
        gate = Gate()
        waiting = set(taken)

        def on_settled(broker: BrokerId, _has_answered: bool) -> None:
            waiting.discard(broker)
            if not waiting:
                gate.open()

        self._call_after(patience_ms, gate.open)
        for broker, own in taken.items():
            self._send(
                controller,
                receivers[broker],
                tuple(own.touched_topics(controller.state)),
                (),
                is_full=False,
                timeout_ms=UPDATE_TIMEOUT_MS,
                on_settled=partial(on_settled, broker),
            )
        return gate

    def _send(
        self,
        controller: Controller,
        broker: BrokerRegistration,
        touched: tuple[TopicState, ...],
        deleted: tuple[str, ...],
        *,
        is_full: bool,
        timeout_ms: int,
        on_settled: Callable[[bool], None],
        after: Gate | None = None,
    ) -> None:
        state = controller.state
        update = ClusterUpdate(
            self._local_id,
            controller.epoch,
            broker.epoch,
            is_full,
            tuple(state.brokers.values()),
            _as_they_are(state.topics.values()) if is_full else touched,
            () if is_full else deleted,
            offline=state.offline,
            full=state.full.all,
            full_brokers=tuple(sorted(state.full_brokers)),
        )

        def on_part_reply(reply: Acknowledged | Refusal | None) -> None:
            if (
                isinstance(reply, Acknowledged)
                and reply.code is ErrorCode.stale_controller_epoch
                and self._active() is controller
            ):
                self._on_deposed()

        def on_reply(reply: Acknowledged | Refusal | None) -> None:
            on_settled(isinstance(reply, Acknowledged))
            if self._active() is not controller:
                return
            if reply is None:
                self._resend(controller, broker)
            elif isinstance(reply, Refusal):
                # An immediate retry would be refused in an endless loop.
                self._call_after(UPDATE_TIMEOUT_MS, lambda: self._resend(controller, broker))
            else:
                on_part_reply(reply)

        def is_current() -> bool:
            return self._active() is controller and _is_there(controller, broker)

        self._lines.send(
            broker, Sending(update, timeout_ms, is_current, on_reply, on_part_reply, after)
        )

    def _resend(self, controller: Controller, broker: BrokerRegistration) -> None:
        """Send the full state repeatedly until the broker has it or is not registered."""
        life = broker.id, broker.epoch
        if self._active() is not controller:
            return
        if not _is_there(controller, broker) or life in self._behind:
            return
        log.warning("broker %d did not acknowledge an update; resending all", broker.id)
        self._behind.add(life)
        self._send(
            controller,
            broker,
            (),
            (),
            is_full=True,
            timeout_ms=UPDATE_TIMEOUT_MS,
            on_settled=lambda _has_answered: self._behind.discard(life),
        )


def _as_they_are(topics: Iterable[TopicState]) -> tuple[TopicState, ...]:
    """Copies: an update that is sent in slices must not change meanwhile."""
    return tuple(replace(topic, partitions=dict(topic.partitions)) for topic in topics)


def _is_there(controller: Controller, broker: BrokerRegistration) -> bool:
    current = controller.state.brokers.get(broker.id)
    return current is not None and current.epoch == broker.epoch
