"""What `configs --describe` prints, in the layout of Kafka's own tool. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cluster.model.printable import one_line

DEFAULT_NAME: Final = ""
"""Names, among brokers, the values for all that have none of their own, as in Kafka's requests."""


_SOURCES: Final = {
    "groups": "DYNAMIC_GROUP_CONFIG",
    "client-metrics": "DYNAMIC_CLIENT_METRICS_CONFIG",
}


class ListedSynonym(NamedTuple):
    """One possible source of a value, e.g. `log.retention.ms` of the broker's file."""

    source: str
    name: str
    value: str | None

    def __str__(self) -> str:
        return f"{self.source}:{self.name}={_shown(self.value)}"


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One setting; `synonyms` begin with the one in effect. The value of a secret is None."""

    name: str
    value: str | None
    source: str
    is_sensitive: bool
    is_read_only: bool
    synonyms: tuple[ListedSynonym, ...]
    remark: str | None = None
    """Why the setting has no effect, or not all of its documented effect; None if it has."""

    @property
    def is_default(self) -> bool:
        """Whether the value is the default, set neither dynamically nor in a file."""
        return self.source == "DEFAULT_CONFIG"

    def __str__(self) -> str:
        synonyms = ", ".join(map(str, self.synonyms))
        sensitive = "true" if self.is_sensitive else "false"
        value = _shown(self.value)
        remark = "" if self.remark is None else f" ({self.remark})"
        return f"{self.name}={value} sensitive={sensitive} synonyms={{{synonyms}}}{remark}"

    def as_json(self) -> dict[str, Any]:
        """The entry as the object that `--json` prints."""
        return {
            "name": self.name,
            "value": self.value,
            "source": self.source,
            "sensitive": self.is_sensitive,
            "read_only": self.is_read_only,
            "synonyms": [synonym._asdict() for synonym in self.synonyms],
            "remark": self.remark,
        }


def selected(
    entity_type: str, name: str, entries: Iterable[ConfigEntry], *, every: bool
) -> list[ConfigEntry]:
    """The entries sorted by name: with `every` all, else only those set for this entity.

    Loggers are always all shown, as in Kafka's tool.
    """
    source = _SOURCES.get(entity_type, "DYNAMIC_TOPIC_CONFIG")
    if entity_type == "brokers":
        is_default = name == DEFAULT_NAME
        source = "DYNAMIC_DEFAULT_BROKER_CONFIG" if is_default else "DYNAMIC_BROKER_CONFIG"
    every = every or entity_type == "broker-loggers"
    chosen = [entry for entry in entries if every or entry.source == source]
    return sorted(chosen, key=lambda entry: entry.name)


def lines(
    entity_type: str, name: str, entries: Iterable[ConfigEntry], *, every: bool
) -> Iterator[str]:
    """The lines to print for one topic, broker or group: a header, then its settings."""
    if name == DEFAULT_NAME:
        yield f"Default configs for {entity_type} in the cluster are:"
    else:
        which = "All" if every else "Dynamic"
        yield f"{which} configs for {entity_type.removesuffix('s')} {one_line(name)} are:"
    for entry in entries:
        yield f"  {entry}"


def _shown(value: str | None) -> str:
    """The value as Kafka's tool prints it: `null` for None."""
    return "null" if value is None else one_line(value, None)


def quota_line(parts: Iterable[tuple[str, str | None]], limits: Mapping[str, float]) -> str:
    """The line for one entity's quotas; `parts` are (type, name) pairs, None is the default."""
    titles = {"user": "user-principal", "client-id": "client-id"}
    who = ", ".join(
        f"the default {titles[entity_type]}"
        if name is None
        else f"{titles[entity_type]} '{one_line(name)}'"
        for entity_type, name in parts
    )
    values = ", ".join(f"{key}={limits[key]}" for key in sorted(limits))
    return f"Quota configs for {who} are {values}"
