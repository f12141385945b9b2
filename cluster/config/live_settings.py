"""A running broker's settings: read each time they are needed, since some change meanwhile."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cluster.config.setting import Setting
from cluster.config.settings import topic_settings
from cluster.config.snapshot import Settings

T = TypeVar("T")


class LiveSettings:
    """Owned by the broker's thread. `now` is a snapshot, replaced as a whole by each change.

    A part that keeps a value, or something made of values, takes it anew in a listener; a part that
    reads `live[setting]` where it uses the value needs none.
    """

    def __init__(self, started: Settings) -> None:
        self.started: Final = started
        """From file, command line and defaults only."""
        self.now = started
        """What is in force."""
        self.listeners: list[Callable[[Settings], None]] = []
        """Called in order with the new settings, after `now` has them. They may not raise, and do
        long work in slices."""

    def __getitem__(self, setting: Setting[T]) -> T:
        """The value in force."""
        return self.now[setting]

    def of_topic(self, overrides: Mapping[str, str]) -> Settings:
        """A topic's settings over those in force. Raises Refused(invalid_config)."""
        return topic_settings(self.now, overrides)

    def replace(self, settings: Settings) -> None:
        """Put new settings in force and tell the listeners."""
        self.now = settings
        for listener in self.listeners:
            listener(settings)
