"""Where the page of a cluster can be opened, and which events are recent."""

from datetime import timedelta

from cluster.tools.dashboard import why_not_opened
from cluster.tools.events import recent


def test_a_browser_is_opened_in_a_desktop_session_only():
    assert why_not_opened({}, "linux") == "there is no desktop session here"
    assert why_not_opened({"DISPLAY": ""}, "linux") is not None
    assert why_not_opened({"DISPLAY": ":0"}, "linux") is None
    assert why_not_opened({"WAYLAND_DISPLAY": "wayland-0"}, "linux") is None
    assert why_not_opened({}, "darwin") is None


def test_events_since_a_span_are_those_not_older():
    events = [{"ts": 1_000}, {"ts": 2_000}, {"ts": 3_000}]
    assert [each["ts"] for each in recent(events, timedelta(seconds=1), 3_000)] == [2_000, 3_000]
    assert list(recent(events, None, 10_000_000)) == events
