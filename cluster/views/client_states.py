"""Reads every broker's stats file: each client's use of its quotas, per broker, highest first.

It sends no requests, so it works while a broker is saturated, and after its death.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster.datadir.paths import DataDir
from cluster.datadir.supervisor_socket import NotRunning
from cluster.metrics.stats_layout import QUOTAS, OtherLayout, QuotaRow, unpack_row
from cluster.metrics.stats_reader import Stats, Unpack, read_stats
from cluster.model.clocks import MonotonicMs
from cluster.model.errors import UserError
from cluster.model.quota_usage import SUMMED

ALIVE: Final = "alive"
SILENT: Final = "silent"
DEAD: Final = "dead"

_SILENT_AFTER_MS: Final = 1_500
"""A broker writes four times a second; one that has missed six writes hangs or is paused."""


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """One broker's file; its state is `alive`, `silent` (has not written for a while) or `dead`."""

    broker: int
    state: str
    age_ms: int
    """Milliseconds since the broker last wrote."""
    stats: Stats

    @property
    def is_dead(self) -> bool:
        """Whether its process has ended, so that its file only shows its last state."""
        return self.state == DEAD


@dataclass(frozen=True, slots=True)
class ClientState:
    """One client under one quota on one broker."""

    source: BrokerStats
    row: QuotaRow
    muted_left_ms: int

    @property
    def is_active(self) -> bool:
        """Whether the client used some of its quota within the window, or is muted now."""
        return self.row.rate > 0 or self.muted_left_ms > 0

    def to_json(self) -> dict[str, Any]:
        """The fields that `--json` prints."""
        row = self.row
        return {
            "broker": self.source.broker,
            "state": self.source.state,
            "age_ms": self.source.age_ms,
            "rule": row.rule,
            "limit": row.limit,
            "rate": row.rate,
            "utilisation": row.utilization,
            "delay_ms": row.delay_ms,
            "muted_left_ms": self.muted_left_ms,
            "muted_channels": row.muted_channels if self.muted_left_ms else 0,
            **{name: getattr(row, name) for name in SUMMED},
            "connections": row.connections,
            "software": row.software or None,
            "pauses": {
                **row.pauses._asdict(),
                "honours_throttling": row.pauses.honors_throttling,
            },
        }

    def windows(self) -> list[dict[str, float]]:
        """The windows of its rate, oldest first: the age of each, and its usage."""
        written_ms = self.source.stats.written_ms
        return [
            {"began_ms_ago": max(0, written_ms - begin_ms), "usage": usage}
            for begin_ms, usage in self.row.samples
        ]


def read_brokers(
    data_dir: DataDir,
    on_other_layout: "Callable[[str], None] | None" = None,
    unpack: Unpack = unpack_row,
) -> list[BrokerStats]:
    """Every broker with a stats file, by id; a broken file is left out.

    `on_other_layout` is called with a line about each file that another version of this software
    wrote. `unpack`: see `read_stats`.
    """
    found = []
    for path in sorted(data_dir.run.glob("broker-*.stats")):
        number = path.stem.removeprefix("broker-")
        try:
            stats = read_stats(path, unpack)
        except OtherLayout as error:
            if on_other_layout is not None:
                on_other_layout(
                    f"{path.name} {error}: restart broker {number} with this version of the"
                    " software to see its figures"
                )
            continue
        except (OSError, ValueError):
            continue
        if number.isdecimal():
            age_ms = 0  # the broker has just made it, and writes the first figures soon
            if stats.written_ms:
                age_ms = _now_ms() - stats.written_ms  # not the time before: the file may be newer
            found.append(BrokerStats(int(number), _state(stats, age_ms), max(0, age_ms), stats))
    return sorted(found, key=lambda broker: broker.broker)


def read_running(data_dir: DataDir) -> list[BrokerStats]:
    """Read the brokers. Raises NotRunning if none is alive.

    Files of another layout are named on stderr, or by the UserError if there are no others.
    """
    unread: list[str] = []
    brokers = read_brokers(data_dir, unread.append)
    if all(broker.is_dead for broker in brokers):
        if unread:
            raise UserError(unread[0])
        raise NotRunning(data_dir.path)
    for line in unread:
        print(f"warning: {line}", file=sys.stderr)
    return brokers


def client_states(brokers: Iterable[BrokerStats]) -> list[ClientState]:
    """Every row of every broker; remaining mute times count from now."""
    now_ms = _now_ms()
    return [
        ClientState(broker, row, 0 if broker.is_dead else row.muted_left_ms(now_ms))
        for broker in brokers
        for row in broker.stats.rows
    ]


def by_client(found: Iterable[ClientState]) -> dict[tuple[str, str, str], list[ClientState]]:
    """Client states by user, client id and quota; in each group live brokers and high use first."""
    groups: dict[tuple[str, str, str], list[ClientState]] = {}
    for state in found:
        row = state.row
        groups.setdefault((row.user, row.client_id, row.quota), []).append(state)
    for group in groups.values():
        group.sort(key=_badness, reverse=True)
    ordered = sorted(groups, key=lambda key: (key[0], key[1], QUOTAS.index(key[2])))
    return {key: groups[key] for key in ordered}


def _badness(state: ClientState) -> tuple[bool, float, float]:
    utilization = state.row.utilization
    return (
        not state.source.is_dead,
        -1.0 if utilization is None else utilization,
        state.row.rate,
    )


def _state(stats: Stats, age_ms: int) -> str:
    # A negative age means that the machine was rebooted after the file was written.
    if age_ms < 0 or stats.pid <= 0 or not _is_running(stats.pid):
        return DEAD
    return SILENT if age_ms > _SILENT_AFTER_MS else ALIVE


def _now_ms() -> MonotonicMs:
    return MonotonicMs(time.monotonic_ns() // 1_000_000)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    status = Path(f"/proc/{pid}/stat")
    try:
        return b") Z" not in status.read_bytes()
    except OSError:
        return True  # not Linux: a process that accepts a signal counts as running
