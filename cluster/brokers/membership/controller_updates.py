"""Applies the controller's updates: to the copy of the cluster's state, then to the roles."""

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Final

from cluster.brokers.membership.metadata_cache import MetadataCache
from cluster.brokers.membership.registration import Registration
from cluster.brokers.replication.role_changes import RoleChanges
from cluster.coordinator.controller.control_link import Reply
from cluster.coordinator.controller.update_parts import UpdateParts
from cluster.model.errors import ErrorCode
from cluster.protocol.peer.control import Acknowledged, ClusterUpdate
from cluster.runtime.loop import EventLoop

log = logging.getLogger(__name__)

_ACKNOWLEDGE_WITHIN_MS: Final = 1_000


class ControllerUpdates:
    """Owned by the broker's thread."""

    def __init__(
        self,
        loop: EventLoop,
        metadata: MetadataCache,
        changes: RoleChanges,
        registration: Registration,
        before_update: Sequence[Callable[[ClusterUpdate], None]],
        on_topics_gone: Callable[[Collection[str]], None],
    ) -> None:
        """`before_update` are called in order with every update, before the state changes;
        `on_topics_gone` with the topics that an update deletes, even if it recreates them.
        """
        self._loop = loop
        self._metadata = metadata
        self._changes = changes
        self._registration = registration
        self._parts = UpdateParts()
        self._before_update = before_update
        self._on_topics_gone = on_topics_gone

    def on_update(self, update: ClusterUpdate, reply: Reply) -> None:
        """Apply an update, unless its controller epoch is old or it is meant for another
        registration.
        """
        if update.controller_epoch < self._metadata.controller_epoch:
            reply(Acknowledged(ErrorCode.stale_controller_epoch))
            return
        if self._registration.epoch < 0:
            # It may be for the registration whose epoch is not known yet, and will be resent.
            log.info("not registered yet: did not acknowledge an update from the controller")
            return
        if update.broker_epoch != self._registration.epoch:
            reply(Acknowledged(ErrorCode.stale_broker_epoch))
            return
        whole = self._parts.add(update)
        if whole is None:
            if self._parts.is_incomplete:
                reply(Acknowledged(ErrorCode.none))
            return
        update = whole
        for listener in self._before_update:
            listener(update)
        brokers = dict(self._metadata.brokers)
        gone = self._metadata.apply(update)
        if gone:
            self._on_topics_gone(gone)
        self._changes.on_update(
            update.topics,
            gone,
            is_full=update.is_full,
            have_brokers_changed=brokers != self._metadata.brokers,
            on_done=self._acknowledgement(reply),
        )

    def _acknowledgement(self, reply: Reply) -> Callable[[], None]:
        """A function that acknowledges the update, to be called when every role has been adopted.

        After `_ACKNOWLEDGE_WITHIN_MS` the update is acknowledged anyway: it is not lost, and
        sending it again would not make it faster.
        """
        is_due = True

        def acknowledge() -> None:
            nonlocal is_due
            if is_due:
                is_due = False
                timer.cancel()
                reply(Acknowledged(ErrorCode.none))

        timer = self._loop.call_after(_ACKNOWLEDGE_WITHIN_MS, acknowledge)
        return acknowledge
