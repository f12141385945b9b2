"""A broker's interfaces to the outside world; production, simulation and tests each
provide their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from cluster.brokers.metrics.counters import BrokerCounters
from cluster.brokers.metrics.publisher import ClientConnections
from cluster.brokers.replication.partition_table import OnOpened, nobody_waits
from cluster.config.settings import Settings
from cluster.coordinator.cluster_store import StoreSession
from cluster.coordinator.controller.control_link import ControlLink
from cluster.log.log_directory import LogDirectory
from cluster.model.cluster_view import ClusterView
from cluster.model.errors import StorageFailed
from cluster.runtime.background_thread import Background
from cluster.runtime.clock import Clock
from cluster.runtime.helper_process import HelperStarter
from cluster.runtime.loop import EventLoop
from cluster.runtime.peer_sockets import LocalSockets, PeerSockets


def _ignore(_value: object) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """Clock, loop, store, links, directories and clients of a broker."""

    cluster_id: str
    machine: str
    """Identifies the machine: brokers on the same machine can read each other's files."""
    boot_id: str
    """Identifies the boot of the machine: data that was not synced is lost with it."""
    clock: Clock
    loop: EventLoop
    random: Random
    store: StoreSession
    control_link: ControlLink
    sockets: PeerSockets
    local_sockets: LocalSockets
    directories: list[LogDirectory]
    background: Callable[[str, float], Background]
    """A new thread of that name, limited to that share of a CPU."""
    helpers: HelperStarter
    """Starts a process for a long computation."""
    counters: BrokerCounters | None
    """None if metrics are disabled."""
    clients: ClientConnections
    give_up: Callable[[StorageFailed], None]
    """Stops the broker, because all of its log directories have failed."""
    on_view: Callable[[ClusterView], None] = _ignore
    """Called when the live brokers or the controller have changed."""
    before_logs_are_opened: Callable[[Settings], None] = _ignore
    """Called with the current settings before the logs are opened; may repair them, which
    can take long.
    """
    on_logs_opened: OnOpened = nobody_waits
    """Called with the number of open logs while they are being opened."""
