"""The definition of one setting: name, type, default, scope, aliases, meaning, effect.

Parsing, error hints, DescribeConfigs and the sample file are all derived from these definitions.
"""

import difflib
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

from cluster.config.effect import EFFECTIVE, Effect, documentation
from cluster.config.value_type import TypeCode, ValueType
from cluster.model.errors import ensure
from cluster.model.security import SaslMechanism

T = TypeVar("T")

LISTENER_PREFIX: Final = "listener.name."
"""The beginning of keys for one listener only."""
_SIMILAR: Final = 0.75
_SAME_WORD: Final = 0.7
"""The ratio of difflib from which words count as the same; 1 for equal texts."""
_MECHANISMS: Final = frozenset(mechanism.lower() for mechanism in SaslMechanism)


class Scope(enum.Enum):
    """What a value of the setting applies to."""

    CLUSTER = "cluster"
    """All brokers must have the same value."""
    BROKER = "broker"
    """Each broker may have its own value."""
    TOPIC = "topic"
    """Each topic may have its own value; otherwise the corresponding broker setting applies."""
    GROUP = "group"
    """Each group may have its own value."""
    CLIENT_METRICS = "client metrics"
    """Each client metrics subscription may have its own value."""


class Update(enum.Enum):
    """How a value may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Narrowed(enum.Enum):
    """The parts of a broker for which a setting may have its own value (KIP-103, KIP-86)."""

    NEVER = "broker"
    LISTENER = "listener"
    """For one listener, under `listener.name.LISTENER.`, the name in lower case."""
    MECHANISM = "mechanism"
    """Also for one SASL mechanism of a listener, under `listener.name.LISTENER.MECHANISM.`."""


class NarrowedKey(NamedTuple):
    """The meaning of a key that begins with `listener.name.`."""

    listener: str
    """In lower case."""
    mechanism: str | None
    """In lower case; None if the key applies to every mechanism."""
    name: str
    """The setting's own name, or an alias."""


class Alias(NamedTuple):
    """Another name for the same setting, in a unit `factor` times as large."""

    name: str
    factor: int


class SettingError(ValueError):
    """An invalid key or value; the message is one line with key, value and allowed range."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        """`name` is the invalid key; None if several contradict each other."""
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One setting, which is also the typed key of its value: `settings[setting]` is a T."""

    name: str
    type: ValueType[T]
    default: T
    scope: Scope
    update: Update
    doc: str
    aliases: tuple[Alias, ...] = ()
    """Other names in order of precedence; the name itself precedes them."""
    broker_setting: "Setting[T] | None" = None
    """For a setting of topics or groups, the broker setting that is its default."""
    effect: Effect = EFFECTIVE
    sample: T | None = None
    """The value shown in generated files, if the default depends on the machine."""

    narrowed: Narrowed = Narrowed.NEVER
    is_listed: bool = True
    """Whether DescribeConfigs lists it while it has its default."""

    @property
    def shown_default(self) -> str | None:
        """The text of the default in generated files, which are the same on every machine."""
        return self.render(self.default if self.sample is None else self.sample)

    @property
    def names(self) -> tuple[str, ...]:
        """The name and all aliases, in order of precedence."""
        return (self.name, *(alias.name for alias in self.aliases))

    @property
    def documentation(self) -> str:
        """The meaning, and a remark if the setting lacks a part of its effect."""
        return documentation(self.doc, self.effect)

    def parse(self, name: str, text: str) -> T:
        """The value of `text` given under `name` (its own or an alias). Raises SettingError."""
        try:
            return self.type.parse(self._in_own_unit(name, text.strip()))
        except ValueError:
            shown = "[hidden]" if self.type.code is TypeCode.PASSWORD else text
            raise SettingError(
                f"{name}={shown} is not valid: it must be {self._allowed(name)}", name
            ) from None

    def render(self, value: T) -> str | None:
        """The text of a value; None for Kafka's null."""
        return self.type.render(value)

    def render_as(self, name: str, value: T) -> str | None:
        """The text under one of its names; None if that unit cannot express it."""
        factor = self._factor(name)
        if factor == 1 or not isinstance(value, int):
            return self.type.render(value)
        if value < 0:
            return "-1"
        return str(value // factor) if value % factor == 0 else None

    def _factor(self, name: str) -> int:
        return next((alias.factor for alias in self.aliases if alias.name == name), 1)

    def _in_own_unit(self, name: str, text: str) -> str:
        factor = self._factor(name)
        if factor == 1:
            return text
        count = int(text)
        return str(count * factor if count >= 0 else -1)  # a negative count means "no limit"

    def _allowed(self, name: str) -> str:
        return self.type.allowed if self._factor(name) == 1 else "a whole number in that unit"


class SettingTable:
    """All settings of brokers, of topics or of groups, in the order of their definitions."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        """`broker`, `topic` or `group`, for error messages."""
        self._by_any_name: dict[str, Setting[Any]] = {}
        self._settings: list[Setting[Any]] = []

    def add(self, setting: Setting[T]) -> Setting[T]:
        """Add a setting; none of its names may be in the table already."""
        for name in setting.names:
            ensure(name not in self._by_any_name, f"{name} is defined twice")
            self._by_any_name[name] = setting
        self._settings.append(setting)
        return setting

    def find(self, name: str) -> Setting[Any]:
        """The setting with that name or alias, also for one listener.

        Raises SettingError with the closest name.
        """
        narrowed = self.narrowed_key(name)
        found = self._by_any_name.get(narrowed.name if narrowed else name)
        if found is None:
            close = self.closest(name)
            hint = f"; did you mean {close}?" if close else ""
            raise SettingError(f"Unknown {self.entity} setting {name}{hint}", name)
        return found

    def closest(self, name: str) -> str | None:
        """The known name that an unknown name probably means; None without one.

        It contains each word of the unknown name, or one with a similar spelling.
        """
        candidates: list[str] = difflib.get_close_matches(
            name, self._by_any_name, n=5, cutoff=_SIMILAR
        )
        words = name.split(".")
        for candidate in candidates:
            theirs = candidate.split(".")
            if all(difflib.get_close_matches(word, theirs, 1, _SAME_WORD) for word in words):
                return candidate
        return None

    def narrowed_key(self, key: str) -> NarrowedKey | None:
        """The meaning of the key of a listener's or mechanism's own value; None for other keys."""
        if not key.startswith(LISTENER_PREFIX):
            return None
        prefix, dot, name = "", "", key.removeprefix(LISTENER_PREFIX)
        while name and name not in self._by_any_name:
            part, dot, name = name.partition(".")
            prefix += part + dot
        setting = self._by_any_name.get(name)
        listener = prefix.removesuffix(".")
        if setting is None or not listener or setting.narrowed is Narrowed.NEVER:
            return None
        before, _, mechanism = listener.rpartition(".")
        if before and mechanism in _MECHANISMS and setting.narrowed is Narrowed.MECHANISM:
            return NarrowedKey(before, mechanism, name)
        return NarrowedKey(listener, None, name)

    def is_secret(self, name: str) -> bool:
        """Whether the name is that of a password, which is neither shown nor logged."""
        return name in self and self.find(name).type.code is TypeCode.PASSWORD

    def __contains__(self, name: object) -> bool:
        """Whether a setting has that name or alias, also for one listener."""
        if name in self._by_any_name:
            return True
        return isinstance(name, str) and self.narrowed_key(name) is not None

    def __iter__(self) -> Iterator[Setting[Any]]:
        """Every setting once."""
        return iter(self._settings)

    def __len__(self) -> int:
        """The number of settings."""
        return len(self._settings)
