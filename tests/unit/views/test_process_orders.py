"""What follows an order to a process, in words."""

from typing import Any

from cluster.views.event_text import event_line
from cluster.views.process_orders import pause_effect, process_of, resume_effect

BROKER: dict[str, Any] = {"id": 1, "session_timeout_ms": 18_000}


def paused(at_ms: int, process: str = "broker 1") -> dict[str, Any]:
    return {"ts": at_ms, "kind": "pause", "process": process, "text": "is paused"}


def test_a_pause_is_noticed_when_the_session_times_out():
    assert "times out after 18 s" in pause_effect(1, BROKER)
    assert "producers may have to wait" in pause_effect("registry", {})
    assert pause_effect("dashboard", {}) == "The page does not answer until it is resumed."


def test_resume_compares_the_pause_with_the_session_timeout():
    events = [paused(1_000), paused(50_000), paused(60_000, "broker 2")]
    assert resume_effect(1, BROKER, events, 52_500) == (
        "It was paused for 2.5 s, less than its session timeout of 18 s: it goes on."
    )
    assert "longer than its session timeout of 18 s" in resume_effect(1, BROKER, events, 70_000)
    assert resume_effect("registry", {}, [paused(0, "registry")], 500) == (
        "It was paused for 500 ms."
    )
    assert resume_effect(1, BROKER, [], 0) == "It runs again."


def test_a_process_is_found_by_its_number_or_name():
    state = {"brokers": [BROKER], "registry_process": {"pid": 5}, "dashboard_process": None}
    assert process_of(state, 1) == BROKER
    assert process_of(state, 2) is None
    assert process_of(state, "registry") == {"pid": 5}
    assert process_of(state, "dashboard") is None


def test_a_line_of_an_event_has_its_cause_unless_the_text_says_it():
    event = {"ts": 1_500, "kind": "death", "subject": "broker 1", "text": "was killed by SIGKILL"}
    assert event_line({**event, "cause": "SIGKILL sent by a command"}).endswith(
        ".500  death       broker 1   was killed by SIGKILL (SIGKILL sent by a command)"
    )
    told = {**event, "text": "is paused by a command (SIGSTOP)", "cause": "command"}
    assert event_line(told, with_day=False).endswith("is paused by a command (SIGSTOP)")
