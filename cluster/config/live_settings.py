"""A running broker's settings, to be read whenever they are needed, since some change."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cluster.config.setting import Setting
from cluster.config.settings import topic_settings
from cluster.config.snapshot import Settings

T = TypeVar("T")


class LiveSettings:
    """Owned by the broker's thread. `now` is a snapshot that each change replaces as a whole.

    A part that caches a value, or something derived from values, renews it in a listener; a part
    that reads `live[setting]` at each use needs none.
    """

    def __init__(self, started: Settings) -> None:
        self.started: Final = started
        """The settings from file, command line and defaults only."""
        self.now = started
        """The settings in force."""
        self.listeners: list[Callable[[Settings], None]] = []
        """Called in order with the new settings, after `now` has them. They must not raise, and do
        long work in slices."""

    def __getitem__(self, setting: Setting[T]) -> T:
        """The value in force."""
        return self.now[setting]

    def of_topic(self, overrides: Mapping[str, str]) -> Settings:
        """A topic's settings over the current ones. Raises Refused(invalid_config)."""
        return topic_settings(self.now, overrides)

    def replace(self, settings: Settings) -> None:
        """Replace the settings and call the listeners."""
        self.now = settings
        for listener in self.listeners:
            listener(settings)
