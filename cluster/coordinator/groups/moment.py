"""The time of an event, by both clocks."""

from typing import NamedTuple

from cluster.model.clocks import MonotonicMs, WallMs


class Moment(NamedTuple):
    """When something happens: deadlines go by the first, what is stored or shown by the second."""

    now_ms: MonotonicMs
    wall_ms: WallMs
