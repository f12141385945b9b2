"""The kinds of events that a cluster reports about itself."""

import enum
from typing import Final


class EventKind(enum.StrEnum):
    """What has happened to a process."""

    START = "start"
    """It serves, for the first time or again."""
    DEATH = "death"
    """It ended by a signal or with an error, whether or not a command had sent the signal."""
    STOP = "stop"
    """It ended cleanly."""
    FAILURE = "failure"
    """It could not start, did not start or stop in time, or is not started again."""
    PAUSE = "pause"
    RESUME = "resume"
    SIGNAL = "signal"
    """A command sends it another signal."""
    RESTART = "restart"
    """A command stops and starts it."""
    ADD = "add"
    """A command adds the broker."""
    REMOVE = "remove"
    """A command removes the broker."""
    CONTROLLER = "controller"
    """The broker has become the controller."""


BY_COMMAND: Final = "command"
"""The cause of what a command or the page has ordered."""
