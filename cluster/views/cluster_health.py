"""Whether a cluster is up, degraded or down, and its problems: the only definition. Pure.

`status`, the dashboard and Prometheus show it; docs/status.md explains each kind.

    up        every broker serves, and there is no problem
    degraded  at least one broker serves, and there is a problem
    down      no broker serves

While the supervisor starts or stops the cluster, the state is `starting`, `stopping` or `stopped`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from cluster.metrics.broker_metrics import BY_KEY
from cluster.model.sizes import size_text
from cluster.views.client_states import ALIVE, SILENT, BrokerStats

UP: Final = "up"
DEGRADED: Final = "degraded"
DOWN: Final = "down"
STATES: Final = (UP, DEGRADED, DOWN, "starting", "stopping", "stopped")

KINDS: Final = {
    "broker_down": "a broker's process is not running, or is not serving yet",
    "broker_paused": "a broker's process is paused, or has stopped updating its stats file",
    "registry_down": "the registry's process is not running",
    "registry_disk_full": "the registry has so little disk space that it refuses large writes",
    "no_controller": "no broker is the controller",
    "partitions_offline": "partitions have no leader",
    "below_min_isr": "partitions have fewer in-sync replicas than min.insync.replicas",
    "log_dir_failed": "log directories have failed",
    "log_dir_full": "log directories are full",
}
"""The kinds of problems, as Prometheus names them."""

_SILENT_MS: Final = 3_000
"""A broker writes its figures four times a second; a busy machine may delay that."""


class Disk(NamedTuple):
    """The space of the file system under a directory, in bytes; `device` identifies it."""

    free_bytes: int
    total_bytes: int
    device: int = 0


class Problem(NamedTuple):
    """One problem: its kind, a line for a person, and the broker concerned."""

    kind: str
    text: str
    broker: int | None = None


class Health(NamedTuple):
    """The state of a cluster."""

    state: str
    serving: int
    """The number of brokers that serve."""
    brokers: int
    problems: tuple[Problem, ...]

    @property
    def text(self) -> str:
        """The number of serving brokers and the problems, in one line."""
        head = f"{self.serving} of {self.brokers} brokers serve"
        return "; ".join([head, *(problem.text for problem in self.problems)])

    def to_json(self) -> dict[str, Any]:
        """The form in `status --json` and in the dashboard."""
        return {
            "state": self.state,
            "text": self.text,
            "brokers_serving": self.serving,
            "brokers": self.brokers,
            "problems": [problem._asdict() for problem in self.problems],
        }


NOT_RUNNING: Final = Health(DOWN, 0, 0, (Problem("broker_down", "the cluster does not run"),))


def cluster_health(
    state: Mapping[str, Any] | None, stats: Iterable[BrokerStats], disks: Mapping[str, Disk]
) -> Health:
    """The health of the cluster, from the supervisor's answer to `status` (None: not running).

    `stats` are the brokers' figures, as far as they write some, `disks` the space under log
    directories and the registry's, by path.
    """
    if state is None:
        return NOT_RUNNING
    by_broker = {each.broker: each for each in stats}
    of_brokers = [_of_process(each, by_broker.get(each["id"])) for each in state["brokers"]]
    serving = of_brokers.count(None)
    problems = [problem for problem in of_brokers if problem is not None]
    problems += _of_registry(state, disks)
    if state.get("controller") is None:
        problems.append(Problem("no_controller", "no broker is the controller"))
    alive = [each for each in by_broker.values() if each.state == ALIVE]
    problems += _of_partitions(alive)
    problems += _of_disks(state["brokers"], {each.broker: each for each in alive}, disks)
    phase = str(state["state"])
    if phase == UP and problems:
        phase = DEGRADED if serving else DOWN
    return Health(phase, serving, len(of_brokers), tuple(problems))


def _of_process(broker: Mapping[str, Any], stats: BrokerStats | None) -> Problem | None:
    number, process = broker["id"], str(broker["state"])
    if process == "paused":
        return Problem("broker_paused", f"broker {number} is paused", number)
    if process != "running":
        return Problem("broker_down", f"broker {number} is {process}", number)
    if stats is not None and stats.state == SILENT and stats.age_ms > _SILENT_MS:
        seconds = stats.age_ms // 1_000
        text = f"broker {number} is paused or stuck: no figures for {seconds} s"
        return Problem("broker_paused", text, number)
    return None


def _of_registry(state: Mapping[str, Any], disks: Mapping[str, Disk]) -> Iterator[Problem]:
    process = state.get("registry_process")
    if process is None:
        return
    if process["state"] not in ("running", "paused"):
        yield Problem("registry_down", f"the registry is {process['state']}")
    elif process["state"] == "paused":
        yield Problem("registry_down", "the registry is paused")
    path = registry_directory(state)
    disk = disks.get(path)
    if disk is not None and disk.free_bytes < registry_least(disk.total_bytes):
        yield Problem("registry_disk_full", f"the registry's disk is full: {_room(path, disk)}")


def _of_partitions(alive: Sequence[BrokerStats]) -> Iterator[Problem]:
    offline = _sum(alive, "OfflinePartitionsCount")
    if offline:
        text = f"{offline} partition{'s have' if offline > 1 else ' has'} no leader"
        yield Problem("partitions_offline", text)
    below = _sum(alive, "UnderMinIsrPartitionCount")
    if below:
        text = f"{below} partition{'s are' if below > 1 else ' is'} below min.insync.replicas"
        yield Problem("below_min_isr", text)


def _of_disks(
    brokers: Iterable[Mapping[str, Any]],
    alive: Mapping[int, BrokerStats],
    disks: Mapping[str, Disk],
) -> Iterator[Problem]:
    """A problem for each broker with a failed directory, and for each full disk."""
    full: dict[int, list[tuple[int, str]]] = {}
    for broker in brokers:
        number = broker["id"]
        if number not in alive:
            continue
        failed = _sum([alive[number]], "OfflineLogDirectoryCount")
        if failed:
            text = f"{failed} log director{'ies' if failed > 1 else 'y'} of broker {number} failed"
            yield Problem("log_dir_failed", text, number)
        count = _sum([alive[number]], "FullLogDirectoryCount")
        known = [path for path in broker.get("log_dirs", ()) if path in disks]
        for path in sorted(known, key=lambda each: disks[each].free_bytes)[:count]:
            full.setdefault(disks[path].device, []).append((number, path))
    for found in full.values():
        yield _full_disk(found, disks)


def _full_disk(found: Sequence[tuple[int, str]], disks: Mapping[str, Disk]) -> Problem:
    (first, path), *others = found
    room = _room(path, disks[path])
    numbers = sorted({number for number, _ in found})
    if len(numbers) == 1:
        return Problem("log_dir_full", f"a log directory of broker {first} is full: {room}", first)
    whose = f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"
    text = f"log directories of brokers {whose} are full: {room} and {len(others)} more"
    return Problem("log_dir_full", text)


def registry_directory(state: Mapping[str, Any]) -> str:
    """The directory of the built-in registry's journal."""
    return f"{state['data_dir']}/registry"


def registry_least(total_bytes: int) -> int:
    """With less space than this the registry refuses writes that need much (decision 048)."""
    return min(4 << 20, total_bytes // 32)


def _room(path: str, disk: Disk) -> str:
    return f"{size_text(disk.free_bytes)} of {size_text(disk.total_bytes)} are free in {path}"


def _sum(brokers: Iterable[BrokerStats], key: str) -> int:
    name = BY_KEY[key].name
    return sum(int(broker.stats.values.get(name, 0)) for broker in brokers)
