"""The newest events of a cluster, and no more than so many."""

from cluster.model.clocks import WallMs
from cluster.model.event_kinds import EventKind
from cluster.supervisor.timeline import Timeline


def test_newest_event_evicts_the_oldest():
    timeline = Timeline(at_most=2)
    for number in range(3):
        timeline.add(WallMs(number), EventKind.DEATH, "broker 0", f"event {number}", "a test")
    assert [each["text"] for each in timeline.to_json()] == ["event 1", "event 2"]
    assert timeline.to_json()[-1] == {
        "number": 3,
        "ts": 2,
        "kind": "death",
        "subject": "broker 0",
        "process": "broker 0",
        "text": "event 2",
        "cause": "a test",
    }
