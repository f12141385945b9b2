"""One broker's view of the cluster, which it reports to its supervisor."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class ClusterView(NamedTuple):
    """A controller of -1 means that there is none."""

    cluster_id: str
    controller: int
    brokers: frozenset[int]

    def to_json(self) -> dict[str, Any]:
        """The fields of a report."""
        return {**self._asdict(), "brokers": sorted(self.brokers)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "ClusterView":
        """Parse the fields of a report. Raises TypeError, KeyError and ValueError."""
        brokers = frozenset(map(int, fields["brokers"]))
        return cls(str(fields["cluster_id"]), int(fields["controller"]), brokers)
