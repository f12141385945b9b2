"""Broker settings that change while brokers run (KIP-226). Pure.

A value has one of two levels: one broker, or all brokers without their own. Both take precedence
over a broker's file. `Setting.update` says which settings may change and at which level; they are
known by their own names only, not by aliases (Kafka: `DynamicBrokerConfig`).
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from cluster.config import relations
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.setting import SettingError, Update
from cluster.config.snapshot import Layer, Settings, Source
from cluster.model.errors import ErrorCode, Refused

Texts = Mapping[str, str]
OWN: Final = Source.DYNAMIC_BROKER
CLUSTER_WIDE: Final = Source.DYNAMIC_DEFAULT_BROKER
_LEVELS: Final = (OWN, CLUSTER_WIDE)
"""The first that has a value takes precedence."""
_NONE: Final[Texts] = MappingProxyType({})


class Applied(NamedTuple):
    """The effective settings, and the reasons why some stored values were ignored."""

    settings: Settings
    problems: tuple[str, ...]


def applied(started: Settings, stored: Mapping[Source, Texts]) -> Applied:
    """The effect of the values stored at each level on a broker that started with these settings.

    The broker continues whatever was stored: a value is ignored if its key is unknown or cannot
    change at run time, if it is invalid, or if it contradicts one of higher precedence.
    """
    problems: list[str] = []
    usable = {level: _usable(level, stored.get(level, _NONE), problems) for level in _LEVELS}
    try:
        settings = _layered(started, usable)
    except SettingError:
        settings = _without_contradictions(started, usable, problems)
    return Applied(settings, tuple(problems))


def check_change(
    started: Settings, level: Source, stored: Mapping[Source, Texts], changed: Iterable[str]
) -> None:
    """Raise Refused unless a client may change the values of these names to those in `stored`.

    `stored` has the future values of each level; a changed name that is not in it is removed, which
    is always allowed. Codes are those of Kafka 3.9 in ZooKeeper mode, except that unknown names,
    which Kafka stores silently, are refused, since nothing would use them.
    """
    here = stored[level]
    given = [name for name in changed if name in here]
    _check_names(level, given)
    problems: list[str] = []
    try:
        for name in given:
            BROKER_SETTINGS.find(name).parse(name, here[name])
        _layered(started, {at: _usable(at, texts, problems) for at, texts in stored.items()})
    except SettingError as problem:
        raise Refused(ErrorCode.invalid_request, str(problem)) from None


def texts_at(settings: Settings, level: Source) -> Texts:
    """The values at one level of a broker's settings, including overridden ones."""
    return next((each.texts for each in settings.layers if each.source is level), _NONE)


def is_changeable(name: str) -> bool:
    """Whether a broker setting may be changed under that name while brokers run."""
    return _update(name) is not Update.READ_ONLY


def _check_names(level: Source, names: list[str]) -> None:
    for name in names:
        if name not in BROKER_SETTINGS:
            raise _unknown(name)
    fixed = [name for name in names if not is_changeable(name)]
    if fixed:
        raise Refused(
            ErrorCode.invalid_request,
            f"Cannot update these configs dynamically: Set({', '.join(fixed)})",
        )
    of_one = [name for name in names if _update(name) is Update.PER_BROKER]
    if of_one and level is CLUSTER_WIDE:
        raise Refused(
            ErrorCode.invalid_request,
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" Set({', '.join(of_one)})",
        )


def _unknown(name: str) -> Refused:
    try:
        BROKER_SETTINGS.find(name)
    except SettingError as problem:
        return Refused(ErrorCode.invalid_config, str(problem))
    raise AssertionError(name)


def _update(name: str) -> Update:
    setting = BROKER_SETTINGS.find(name)
    narrowed = BROKER_SETTINGS.narrowed_key(name)
    own_name = narrowed.name if narrowed else name
    return setting.update if own_name == setting.name else Update.READ_ONLY


def _usable(level: Source, texts: Texts, problems: list[str]) -> dict[str, str]:
    """The values that are valid by themselves, and a line for each of the others."""
    usable = {}
    for name, text in texts.items():
        try:
            _check_names(level, [name])
            BROKER_SETTINGS.find(name).parse(name, text)
        except Refused as refused:
            problems.append(refused.detail)
        except SettingError as problem:
            problems.append(str(problem))
        else:
            usable[name] = text
    return usable


def _without_contradictions(
    started: Settings, usable: Mapping[Source, Texts], problems: list[str]
) -> Settings:
    """Add one value after the other, leaving out those that contradict earlier ones."""
    kept: dict[Source, dict[str, str]] = {level: {} for level in _LEVELS}
    settings = _layered(started, kept)
    for level in _LEVELS:
        for name, text in usable[level].items():
            kept[level][name] = text
            try:
                settings = _layered(started, kept)
            except SettingError as problem:
                problems.append(str(problem))
                del kept[level][name]
    return settings


def _layered(started: Settings, stored: Mapping[Source, Texts]) -> Settings:
    """Raises SettingError if values contradict each other."""
    layers = [Layer(level, dict(stored.get(level, _NONE))) for level in _LEVELS]
    settings = Settings(BROKER_SETTINGS, [*layers, *started.layers])
    relations.check_broker(settings)
    return settings
