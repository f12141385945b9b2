"""What one broker uses of the world outside; production, simulation and tests make their own."""

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
from cluster.runtime.peer_sockets import PeerSockets


def _ignore(_value: object) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPorts:
    """What a broker uses of the world outside: clock, loop, store, links, directories, clients."""

    cluster_id: str
    machine: str
    """Names the machine: brokers of one machine can read each other's files."""
    boot_id: str
    """Names the boot of the machine: what was not synced is lost with it."""
    clock: Clock
    loop: EventLoop
    random: Random
    store: StoreSession
    control_link: ControlLink
    sockets: PeerSockets
    directories: list[LogDirectory]
    background: Callable[[str, float], Background]
    """A new thread of that name, which takes at most that share of a processor."""
    helpers: HelperStarter
    """Starts a process for a long computation."""
    counters: BrokerCounters | None
    """None where nothing is counted."""
    clients: ClientConnections
    give_up: Callable[[StorageFailed], None]
    """Stops the broker, as all of its log directories have failed."""
    on_view: Callable[[ClusterView], None] = _ignore
    """Called when the live brokers or the controller have changed."""
    before_logs_are_opened: Callable[[Settings], None] = _ignore
    """May take its time to repair them, with the settings in force."""
    on_logs_opened: OnOpened = nobody_waits
    """Told how many of the logs are open, while they are being opened."""
