"""The server-side assignors of the newer consumer protocol (KIP-848). Pure."""

from typing import Final

from cluster.coordinator.groups.assignors.range import assign_range
from cluster.coordinator.groups.assignors.subscription import Assign
from cluster.coordinator.groups.assignors.uniform import assign_uniform

ASSIGNORS: Final[dict[str, Assign]] = {"uniform": assign_uniform, "range": assign_range}
"""The assignors by Kafka's names."""
