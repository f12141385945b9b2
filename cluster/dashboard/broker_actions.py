"""The page's actions on brokers, and the command line that does the same. Pure."""

import signal
from typing import Any, Final

SIGNALS: Final = {
    "kill": signal.SIGKILL,
    "pause": signal.SIGSTOP,
    "resume": signal.SIGCONT,
}
ACTIONS: Final = (*SIGNALS, "restart")


def action_command(program: str, broker: int, action: str) -> str:
    """`program` is the launcher with its data directory, quoted for a shell."""
    if action == "restart":
        return f"{program} restart {broker}"
    return f"{program} kill {broker} --signal {SIGNALS[action].name.removeprefix('SIG')}"


def action_request(broker: int, action: str) -> dict[str, Any]:
    """The request to the supervisor."""
    if action == "restart":
        return {"command": "restart", "id": broker}
    number = int(SIGNALS[action])
    return {"command": "kill", "id": broker, "signal": number, "stay_down": False}
