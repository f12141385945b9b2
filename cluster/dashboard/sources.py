"""What the dashboard shows and does, as its routes see it."""

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
    """What was done and what will follow, in a sentence."""
    command: str
    """The command line that does the same."""


class Reading(NamedTuple):
    """One reading for all pages."""

    rows: Mapping[Key, Cells]
    """The cells of `live_rows.COLUMNS` of each client and quota."""
    sections: Json
    """All else, by name."""


class Sources(Protocol):
    """Blocking calls, made on threads. Each raises UserError with one line for the user."""

    def live(self) -> Reading:
        """What changes every second: rows of clients; the cluster, its brokers, groups, events."""
        ...

    def found(self, search: str) -> Reading:
        """Rows of clients whose user or client id contains the text, in any case."""
        ...

    def now(self, search: str | None = None) -> Json:
        """The same in full: each client's quotas on each broker, brokers, groups, events.

        With `search` only clients whose user or client id contains it, in any case.
        """
        ...

    def client(self, user: str, client_id: str) -> Json:
        """One client: which rules match, the arithmetic of its delay, its samples."""
        ...

    def cluster(self) -> Json:
        """Brokers, partitions, topics with configs, disk."""
        ...

    def topic(self, name: str) -> Json:
        """The partitions of a topic as the last `cluster` has found them, see `topic_view`."""
        ...

    def history(self, user: str, client_id: str, since_ms: int) -> Json:
        """Windows of the rollup about one client."""
        ...

    def capacity(self) -> Json:
        """What the rollup's history says of capacity, see `capacity_view`."""
        ...

    def what_if(self, scenario: Scenario) -> Json:
        """What another size would have done, see `what_if_view`."""
        ...

    def alter_quota(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> Done:
        """Set quotas by Kafka's keys, or remove those whose value is None.

        `entity` has `user`, `client-id` or `ip`, each a name or None for the default.
        """
        ...

    def quota_command(
        self, entity: Mapping[str, str | None], changes: Mapping[str, float | None]
    ) -> str:
        """The command line that does what `alter_quota` would."""
        ...

    def quotas(self) -> Json:
        """The quotas that are set, see `quota_list`."""
        ...

    def actions(self) -> Json:
        """`actions`: what `act` may be asked, each with the command line that does the same."""
        ...

    def act(self, broker: int, action: str) -> Done:
        """`kill`, `pause`, `resume` or `restart` a broker."""
        ...

    def exposition(self, broker: int | None, *, openmetrics: bool) -> bytes:
        """What Prometheus scrapes, of one broker or of all."""
        ...
