"""DescribeConfigs entries, derived from the snapshot of a broker, topic or group (KIP-226)."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cluster.config.dynamic import is_changeable, texts_at
from cluster.config.kafka_definitions import KAFKA_DEFINITIONS
from cluster.config.setting import LISTENER_PREFIX, Scope, Setting
from cluster.config.snapshot import Given, Settings, Source
from cluster.config.value_type import TypeCode


class Synonym(NamedTuple):
    """One possible source of a value; an entry lists them in order of precedence."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """One line of a DescribeConfigs response; a sensitive value is None."""

    name: str
    value: str | None
    source: Source
    is_default: bool
    read_only: bool
    sensitive: bool
    type: TypeCode
    documentation: str
    synonyms: tuple[Synonym, ...]


def describe(settings: Settings) -> list[Entry]:
    """Every setting of a snapshot, sorted by name.

    This includes aliases and the own values of listeners and mechanisms.
    """
    entries = [
        _entry(settings, setting, name)
        for setting in settings.table
        if setting.is_listed or settings.given(setting)
        for name in setting.names
    ]
    narrowed = {
        name
        for layer in settings.layers
        for name in layer.texts
        if name.startswith(LISTENER_PREFIX)
    }
    return sorted([*entries, *(_narrowed_entry(settings, name) for name in narrowed)])


def describe_level(settings: Settings, level: Source) -> list[Entry]:
    """The values of a broker's settings at one level, sorted by name."""
    return [
        Entry(
            name=name,
            value=shown,
            source=level,
            is_default=False,
            read_only=False,
            sensitive=_is_secret(setting),
            type=_type_of(setting, name),
            documentation=setting.documentation,
            synonyms=(Synonym(name, shown, level),),
        )
        for name, text in sorted(texts_at(settings, level).items())
        for setting in [settings.table.find(name)]
        for shown in [None if _is_secret(setting) else text]
    ]


def describe_group(settings: Settings, level: Source = Source.DYNAMIC_GROUP) -> list[Entry]:
    """Every setting of a group, or of a resource of another `level`, sorted by name.

    As in Kafka, the broker's value is the default of a group without its own.
    """
    entries = []
    for setting in settings.table:
        is_own = any(each.source is level for each in settings.given(setting))
        source = level if is_own else Source.DEFAULT
        value = setting.render(settings[setting])
        entries.append(
            Entry(
                name=setting.name,
                value=value,
                source=source,
                is_default=not is_own,
                read_only=False,
                sensitive=False,
                type=setting.type.code,
                documentation=setting.documentation,
                synonyms=(Synonym(setting.name, value, source),),
            )
        )
    return sorted(entries)


def _entry(settings: Settings, setting: Setting[Any], name: str) -> Entry:
    given = settings.given(setting)
    if name != setting.name:  # only the setting's own name can change at run time
        given = tuple(each for each in given if each.source is Source.STATIC_BROKER)
    value = given[0].value if given else setting.default
    source = given[0].source if given else Source.DEFAULT
    sensitive = _is_secret(setting)
    # AdminClient regards a topic's value that comes from its broker as the default.
    is_default = source != Source.DYNAMIC_TOPIC if setting.scope is Scope.TOPIC else not given
    return Entry(
        name=name,
        value=None if sensitive else setting.render_as(name, value),
        source=source,
        is_default=is_default,
        read_only=setting.scope is not Scope.TOPIC and not is_changeable(name),
        sensitive=sensitive,
        type=_type_of(setting, name),
        documentation=setting.documentation,
        synonyms=tuple(_synonyms(setting, given, sensitive=sensitive)),
    )


def _narrowed_entry(settings: Settings, name: str) -> Entry:
    """A value of one listener, followed by the broker's (Kafka: `configSynonyms`)."""
    setting = settings.table.find(name)
    sensitive = _is_secret(setting)
    given = [
        Given(name, layer.texts[name], None, layer.source)
        for layer in settings.layers
        if name in layer.texts
    ]
    return Entry(
        name=name,
        value=None if sensitive else given[0].text,
        source=given[0].source,
        is_default=False,
        read_only=not is_changeable(name),
        sensitive=sensitive,
        type=_type_of(setting, setting.name),
        documentation=setting.documentation,
        synonyms=tuple(_synonyms(setting, [*given, *settings.given(setting)], sensitive=sensitive)),
    )


def _type_of(setting: Setting[Any], name: str) -> TypeCode:
    """The type that Kafka states, which is less exact in places; our own settings have their own
    type.
    """
    of_kafka = KAFKA_DEFINITIONS.get(name) if setting.scope is not Scope.TOPIC else None
    return setting.type.code if of_kafka is None else of_kafka.type.code


def _is_secret(setting: Setting[Any]) -> bool:
    return setting.type.code is TypeCode.PASSWORD


def _synonyms(
    setting: Setting[Any], given: Iterable[Given], *, sensitive: bool
) -> Iterator[Synonym]:
    for each in given:
        yield Synonym(each.name, None if sensitive else each.text, each.source)
    origin = setting.broker_setting or setting
    default = origin.render(origin.default)
    if default is not None:
        yield Synonym(origin.name, None if sensitive else default, Source.DEFAULT)
