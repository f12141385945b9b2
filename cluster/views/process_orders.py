"""The orders to a process of the cluster (kill, pause, resume, restart): the command line and the
signal of each, and what happens next. Pure.
"""

import signal
from typing import Any, Final

from cluster.model.event_kinds import EventKind
from cluster.views.quantities import duration

KILL: Final = "kill"
KEEP_DOWN: Final = "kill-and-keep-down"
PAUSE: Final = "pause"
RESUME: Final = "resume"
RESTART: Final = "restart"

SIGNALS: Final = {
    KILL: signal.SIGKILL,
    KEEP_DOWN: signal.SIGKILL,
    PAUSE: signal.SIGSTOP,
    RESUME: signal.SIGCONT,
}

_COMMANDS: Final = {
    KILL: "kill {process}",
    KEEP_DOWN: "kill {process} --stay-down",
    PAUSE: "pause {process}",
    RESUME: "resume {process}",
    RESTART: "restart {process}",
}


def command_line(program: str, process: int | str, order: str) -> str:
    """`program` is the launcher with its data directory, quoted for a shell."""
    return f"{program} {_COMMANDS[order].format(process=process)}"


def process_of(state: dict[str, Any], process: int | str) -> dict[str, Any] | None:
    """A broker, by its id, or the registry or dashboard, in the state of a cluster."""
    if isinstance(process, str):
        found: dict[str, Any] | None = state.get(f"{process}_process")
        return found
    return next((each for each in state["brokers"] if each["id"] == process), None)


def pause_effect(process: int | str, found: dict[str, Any]) -> str:
    """What the others notice of a paused process."""
    if process == "registry":
        return (
            "Until it is resumed no topic, leader, quota or ACL can change, and producers may have"
            " to wait."
        )
    if process == "dashboard":
        return "The page does not answer until it is resumed."
    timeout_ms = found.get("session_timeout_ms")
    after = "" if timeout_ms is None else f" after {timeout_ms / 1000:g} s"
    return (
        "It keeps its connections and answers nothing. The others notice when its session times"
        f" out{after}: then its partitions get other leaders."
    )


def resume_effect(
    process: int | str, found: dict[str, Any], events: list[dict[str, Any]], now_ms: int
) -> str:
    """What a process does that was paused until now."""
    label = f"broker {process}" if isinstance(process, int) else process
    paused = [
        each["ts"]
        for each in events
        if each.get("process") == label and each.get("kind") == EventKind.PAUSE
    ]
    if not paused:
        return "It runs again."
    paused_ms = max(0, now_ms - paused[-1])
    text = f"It was paused for {duration(paused_ms)}"
    timeout_ms = found.get("session_timeout_ms")
    if timeout_ms is None:
        return f"{text}."
    if paused_ms < timeout_ms:
        return f"{text}, less than its session timeout of {timeout_ms / 1000:g} s: it goes on."
    return (
        f"{text}, longer than its session timeout of {timeout_ms / 1000:g} s: it registers again"
        " and follows until it has caught up."
    )


def confirmation(broker: int, order: str, found: dict[str, Any]) -> str:
    """What an order to a broker will do, as a question before it is given."""
    match order:
        case "kill":
            return (
                f"Kill broker {broker} with SIGKILL? Its partitions get other leaders at once, and"
                " the supervisor starts it again after 1 s."
            )
        case "kill-and-keep-down":
            return (
                f"Kill broker {broker} with SIGKILL and keep it down? Its partitions get other"
                " leaders at once and have one replica less until it is restarted."
            )
        case "pause":
            return f"Pause broker {broker} with SIGSTOP? {pause_effect(broker, found)}"
        case "resume":
            return f"Resume broker {broker} with SIGCONT?"
        case _:
            return (
                f"Restart broker {broker}? It hands its leadership over, stops cleanly, and is"
                " started at once."
            )
