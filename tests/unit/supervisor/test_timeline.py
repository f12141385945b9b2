"""The newest events of a cluster, and no more than so many."""

from cluster.model.clocks import WallMs
from cluster.supervisor.timeline import Timeline


def test_newest_event_evicts_the_oldest():
    timeline = Timeline(at_most=2)
    for number in range(3):
        timeline.add(WallMs(number), "broker 0", f"event {number}")
    assert timeline.to_json() == [
        {"ts": 1, "process": "broker 0", "text": "event 1"},
        {"ts": 2, "process": "broker 0", "text": "event 2"},
    ]
