"""One setting is one statement: name, type, default, scope, update, other names, meaning, effect.

Parsing, hints, DescribeConfigs and the sample file are derived from these and never retyped.
"""

import difflib
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from cluster.config.effect import EFFECTIVE, Effect, documentation
from cluster.config.value_type import TypeCode, ValueType
from cluster.model.errors import ensure

T = TypeVar("T")


class Scope(enum.Enum):
    """Whose value it is."""

    CLUSTER = "cluster"
    """All brokers must agree."""
    BROKER = "broker"
    """Brokers may differ."""
    TOPIC = "topic"
    """One topic's own; without one, the broker setting it follows."""


class Update(enum.Enum):
    """How a value may change while the broker runs (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Alias(NamedTuple):
    """Another name for the same setting, in a unit `factor` times as large."""

    name: str
    factor: int


class SettingError(ValueError):
    """A key or value that a table refuses; the message is one line with key, value and range."""

    def __init__(self, reason: str, name: str | None = None) -> None:
        """`name`: the one key that is wrong; None where several contradict each other."""
        super().__init__(reason)
        self.name = name


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A typed handle: `settings[handle]` is a T."""

    name: str
    type: ValueType[T]
    default: T
    scope: Scope
    update: Update
    doc: str
    aliases: tuple[Alias, ...] = ()
    """In order of precedence, after the name itself."""
    broker_setting: "Setting[T] | None" = None
    """For a topic setting: where its default comes from."""
    effect: Effect = EFFECTIVE
    sample: T | None = None
    """For a default that depends on the machine: the value that written files show."""

    @property
    def shown_default(self) -> str | None:
        """The text of the default in files that are the same on every machine."""
        return self.render(self.default if self.sample is None else self.sample)

    @property
    def names(self) -> tuple[str, ...]:
        """Every name it may be given under, strongest first."""
        return (self.name, *(alias.name for alias in self.aliases))

    @property
    def documentation(self) -> str:
        """What it means, and a remark where it does not do that yet."""
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
        """The text of a value; None is null."""
        return self.type.render(value)

    def render_as(self, name: str, value: T) -> str | None:
        """The text under one of its names; None where that unit cannot express it."""
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
    """All settings of one kind of entity, in the order of their statements."""

    def __init__(self, entity: str) -> None:
        self.entity = entity
        """`broker` or `topic`, as an error message names it."""
        self._by_any_name: dict[str, Setting[Any]] = {}
        self._settings: list[Setting[Any]] = []

    def add(self, setting: Setting[T]) -> Setting[T]:
        """Take a setting in; each name may be taken once."""
        for name in setting.names:
            ensure(name not in self._by_any_name, f"{name} is defined twice")
            self._by_any_name[name] = setting
        self._settings.append(setting)
        return setting

    def find(self, name: str) -> Setting[Any]:
        """The setting with that name or alias. Raises SettingError with the closest name."""
        found = self._by_any_name.get(name)
        if found is None:
            close = difflib.get_close_matches(name, self._by_any_name, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise SettingError(f"Unknown {self.entity} setting {name}{hint}", name)
        return found

    def __contains__(self, name: object) -> bool:
        """Whether a setting has that name or alias."""
        return name in self._by_any_name

    def __iter__(self) -> Iterator[Setting[Any]]:
        """Every setting once."""
        return iter(self._settings)

    def __len__(self) -> int:
        """How many settings there are."""
        return len(self._settings)
