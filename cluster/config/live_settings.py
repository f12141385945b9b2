"""A running broker's settings, to be read whenever they are needed, since some change."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from cluster.config.setting import Setting
from cluster.config.settings import topic_settings
from cluster.config.snapshot import Settings

T = TypeVar("T")


class LiveSettings:
    """Owned by the broker's thread. `now` is a snapshot that each change replaces as a whole.

    A part that caches a value, or something derived from values, subscribes to renew it; a part
    that reads `live[setting]` at each use need not.
    """

    def __init__(self, started: Settings) -> None:
        self.started: Final = started
        """The settings from file, command line and defaults only."""
        self.now = started
        """The settings in force."""
        self._listeners: list[Callable[[Settings], None]] = []

    def __getitem__(self, setting: Setting[T]) -> T:
        """The value in force."""
        return self.now[setting]

    def subscribe(self, listener: Callable[[Settings], None]) -> None:
        """Have a function called with the new settings from now on, after `now` has them.

        It must not raise, and does long work in slices. Subscribers are called in order.
        """
        self._listeners.append(listener)

    def of_topic(self, overrides: Mapping[str, str]) -> Settings:
        """A topic's settings over the current ones. Raises Refused(invalid_config)."""
        return topic_settings(self.now, overrides)

    def replace(self, settings: Settings) -> None:
        """Replace the settings and call the subscribers."""
        self.now = settings
        for listener in self._listeners:
            listener(settings)
