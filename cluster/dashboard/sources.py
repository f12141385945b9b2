"""What the dashboard shows and does, as an interface for its routes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from cluster.analytics.capacity.scenario import Scenario
from cluster.dashboard.live_rows import Cells, Key

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Done:
    """A change that was made."""

    text: str
    """What was done and what will follow, as a sentence."""
    command: str
    """The command line that does the same."""


class Reading(NamedTuple):
    """One reading for all pages."""

    rows: Mapping[Key, Cells]
    """The cells of `live_rows.COLUMNS` of each client and quota."""
    sections: Json
    """The other parts, by name."""


class Sources(Protocol):
    """Blocking calls, made on threads. Each raises UserError with one line for the user."""

    def live(self) -> Reading:
        """What changes every second: rows of clients; the cluster, its brokers, groups, events."""
        ...

    def series(self, name: str, since_ms: int, since_event: int) -> Json:
        """The figures of the cluster in a range after that time, and events after that number.

        `name` is one of `recorder.RANGES_S` or `rollup_past.RANGES_S`.
        """
        ...

    def client_series(self, since_ms: int, client: tuple[str, str] | None) -> Json:
        """The last minutes of clients, or of one user and client id, see `ClientPast.to_json`."""
        ...

    def found(self, search: str) -> Reading:
        """Rows of clients whose user or client id contains the text, ignoring case."""
        ...

    def now(self, search: str | None = None) -> Json:
        """The same in full: each client's quotas on each broker, brokers, groups, events.

        With `search` only clients whose user or client id contains it, ignoring case.
        """
        ...

    def client(self, user: str, client_id: str) -> Json:
        """One client: the matching rules, the arithmetic of its delay, its samples."""
        ...

    def cluster(self) -> Json:
        """Brokers, partitions, disk."""
        ...

    def held_back(self) -> Json:
        """What keeps records from read_committed consumers, see `held_view`."""
        ...

    def pushed(self) -> Json:
        """Latencies as clients see them, see `pushed_view`."""
        ...

    def history(self, user: str, client_id: str, since_ms: int) -> Json:
        """The rollup's windows of one client."""
        ...

    def capacity(self) -> Json:
        """The capacity figures from the rollup's history, see `capacity_view`."""
        ...

    def what_if(self, scenario: Scenario) -> Json:
        """The effect of another size, see `what_if_view`."""
        ...

    def alter_quota(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> Done:
        """Set quotas by Kafka's keys; a value of None removes one.

        `entity` has `user`, `client-id` or `ip`, each a name or None for the default.
        """
        ...

    def quota_command(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> str:
        """The command line that does the same as `alter_quota`."""
        ...

    def quotas(self) -> Json:
        """The configured quotas, see `quota_list`."""
        ...

    def actions(self) -> Json:
        """`actions`: the possible arguments of `act`, each with the command line that does the
        same.
        """
        ...

    def act(self, broker: int, action: str) -> Done:
        """`kill`, `pause`, `resume` or `restart` a broker."""
        ...

    def exposition(self, broker: int | None, *, openmetrics: bool) -> bytes:
        """The response to Prometheus, for one broker or for all."""
        ...
