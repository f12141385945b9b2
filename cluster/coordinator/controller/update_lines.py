"""A queue of updates for each broker, sent part by part, in slices, in the order of plans."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from cluster.coordinator.controller.control_link import ControlLink
from cluster.coordinator.controller.update_parts import parts_of
from cluster.model.cluster import BrokerRegistration
from cluster.model.ids import BrokerEpoch, BrokerId
from cluster.protocol.peer.control import Acknowledged, ClusterUpdate, Refusal
from cluster.runtime.slices import Slices

_STEPS_AT_ONCE: Final = 2
"""One part of an update is being sent when `send` returns."""


@dataclass(frozen=True, slots=True)
class Sending:
    """An update to one broker."""

    update: ClusterUpdate
    timeout_ms: int
    """For each part, from the time at which it is sent."""
    is_current: Callable[[], bool]
    """Whether to continue: this broker is still the controller, and the receiver is registered."""
    on_reply: Callable[[Acknowledged | Refusal | None], None]
    """Called once with the answer to the last part, or None if there is none."""
    on_part_reply: Callable[[Acknowledged | Refusal | None], None]
    """Called with the answers to the earlier parts."""
    after: "Gate | None" = None
    """Neither this update nor later ones to the same broker are sent before the gate is open."""


class Gate:
    """Opens once, and then calls what waits for it."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: list[Callable[[], None]] = []

    def when_open(self, call: Callable[[], None]) -> None:
        """Call when the gate opens; it is not open yet."""
        self._waiting.append(call)

    def open(self) -> None:
        """Open the gate; does nothing if it is open."""
        self.is_open = True
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()


class UpdateLines:
    """Invariant: no part of an update is sent before the last part of the update before it."""

    def __init__(self, link: ControlLink, slices: Slices) -> None:
        self._link = link
        self._slices = slices
        self._lines: dict[tuple[BrokerId, BrokerEpoch], deque[Sending]] = {}

    def send(self, broker: BrokerRegistration, sending: Sending) -> None:
        """Send an update to a broker after its earlier updates."""
        life = broker.id, broker.epoch
        line = self._lines.get(life)
        if line is not None:
            line.append(sending)
            return
        self._lines[life] = deque([sending])
        self._start(life, broker.control_endpoint)

    def _start(self, life: tuple[BrokerId, BrokerEpoch], endpoint: str) -> None:
        self._slices.start(self._send_all(life, endpoint), _STEPS_AT_ONCE)

    def _send_all(self, life: tuple[BrokerId, BrokerEpoch], endpoint: str) -> Iterator[None]:
        line = self._lines[life]
        while line:
            gate = line[0].after
            if gate is not None and not gate.is_open:
                gate.when_open(lambda: self._start(life, endpoint))
                return
            yield from self._send_parts(endpoint, line[0])
            line.popleft()
        del self._lines[life]

    def _send_parts(self, endpoint: str, sending: Sending) -> Iterator[None]:
        for part in parts_of(sending.update):
            if not sending.is_current():
                sending.on_reply(None)
                return
            self._link.ask(
                endpoint,
                part,
                sending.on_reply if part.is_last else sending.on_part_reply,
                sending.timeout_ms,
            )
            yield
