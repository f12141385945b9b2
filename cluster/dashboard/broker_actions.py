"""The page's actions on brokers: their names, texts and commands, and the request of each. Pure."""

from typing import Any, Final

from cluster.views.process_orders import (
    KEEP_DOWN,
    KILL,
    PAUSE,
    RESTART,
    RESUME,
    SIGNALS,
    command_line,
    confirmation,
)

ACTIONS: Final = {
    KILL: "Kill",
    KEEP_DOWN: "Kill and keep down",
    PAUSE: "Pause",
    RESUME: "Resume",
    RESTART: "Restart",
}
"""The names in addresses, and those on buttons."""


def action_row(program: str, broker: dict[str, Any], action: str) -> dict[str, Any]:
    """One action for the page. `program` is the launcher with its data directory."""
    return {
        "broker": broker["id"],
        "action": action,
        "label": ACTIONS[action],
        "confirm": confirmation(broker["id"], action, broker),
        "command": command_line(program, broker["id"], action),
    }


def action_request(broker: int, action: str) -> dict[str, Any]:
    """The request to the supervisor."""
    if action == RESTART:
        return {"command": "restart", "id": broker}
    return {
        "command": "kill",
        "id": broker,
        "signal": int(SIGNALS[action]),
        "stay_down": action == KEEP_DOWN,
    }


def action_done(broker: int, action: str) -> str:
    """What was ordered, once the supervisor has accepted it."""
    match action:
        case "restart":
            return f"Broker {broker} is being restarted."
        case "kill-and-keep-down":
            return f"Broker {broker} was sent SIGKILL and stays down until it is restarted."
        case _:
            return f"Broker {broker} was sent {SIGNALS[action].name}."
