"""An immutable snapshot of settings, with the source of each value."""

import enum
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

from cluster.config.setting import Setting, SettingTable

T = TypeVar("T")


class Source(enum.IntEnum):
    """The source codes of DescribeConfigs responses (KIP-226, KIP-412, KIP-714, KIP-1043)."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class Layer(NamedTuple):
    """The texts from one source, by setting name or alias."""

    source: Source
    texts: Mapping[str, str]


class Given(NamedTuple):
    """One value from one source, effective or overridden by a stronger one."""

    name: str
    text: str
    value: Any
    source: Source


class Settings:
    """Values of one broker, topic or group; `settings[setting]` has the setting's type.

    Invariant: all given texts were parsed, so overridden values are valid, too.
    """

    __slots__ = ("_given", "_values", "layers", "table")

    def __init__(
        self, table: SettingTable, layers: Iterable[Layer], below: "Settings | None" = None
    ) -> None:
        """`layers` are in order of precedence; all precede `below`, the broker's settings for
        topics and groups.

        Raises SettingError.
        """
        self.table: Final = table
        self.layers: Final = tuple(layers)
        for layer in self.layers:
            for name, text in layer.texts.items():
                setting = table.find(name)
                if name not in setting.names:  # for one listener, see `listeners.of_listener`
                    setting.parse(name, text)
        self._given: Final = MappingProxyType(
            {setting.name: _all_given(setting, self.layers, below) for setting in table}
        )
        self._values: Final = MappingProxyType(
            {
                setting.name: given[0].value if given else setting.default
                for setting, given in zip(table, self._given.values(), strict=True)
            }
        )

    def __getitem__(self, setting: Setting[T]) -> T:
        """The effective value."""
        value: T = self._values[setting.name]
        return value

    def given(self, setting: Setting[Any]) -> tuple[Given, ...]:
        """The given values in order of precedence; empty if the default applies."""
        return self._given[setting.name]


def _all_given(
    setting: Setting[Any], layers: tuple[Layer, ...], below: Settings | None
) -> tuple[Given, ...]:
    here = tuple(
        Given(name, layer.texts[name], setting.parse(name, layer.texts[name]), layer.source)
        for layer in layers
        for name in setting.names
        if name in layer.texts
    )
    if below is None or setting.broker_setting is None:
        return here
    return here + below.given(setting.broker_setting)
