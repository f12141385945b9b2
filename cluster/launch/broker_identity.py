"""The id of a broker that is started by itself: from its settings, from its log directories, or a
new one from the registry (Kafka: `KafkaServer.getOrGenerateBrokerId`).
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from cluster.config import broker as keys
from cluster.config.setting import Setting, SettingError
from cluster.datadir.log_dirs import META_PROPERTIES
from cluster.launch.broker_ids import ID_MAX
from cluster.log.checkpoints import read_properties
from cluster.model.errors import UserError

T = TypeVar("T")

ID_KEYS: Final = ("broker.id", "node.id")
"""The first one that is there counts, in settings and in `meta.properties`."""


def largest_id(texts: Mapping[str, str]) -> int:
    """The largest id that may be given. Raises SettingError."""
    reserved = _value(keys.RESERVED_BROKER_MAX_ID, texts)
    return reserved if _value(keys.BROKER_ID_GENERATION_ENABLE, texts) else ID_MAX


def check_id(broker_id: int, texts: Mapping[str, str]) -> None:
    """Raise SettingError for an id that is reserved for brokers without one."""
    largest = largest_id(texts)
    if broker_id > largest:
        raise SettingError(
            f"broker.id={broker_id} must not be greater than reserved.broker.max.id={largest}:"
            " larger ids are generated; raise that, or set broker.id.generation.enable=false",
            ID_KEYS[0],
        )


def identity(
    texts: Mapping[str, str], log_dirs: Iterable[Path], generate: Callable[[int], int]
) -> int:
    """The broker's id; `generate` makes one above its argument if there is none yet.

    Raises SettingError, and UserError if directories belong to several brokers, or to another one.
    """
    given = _given(texts)
    if given is not None:
        check_id(given, texts)
    found = {path: owner for path in log_dirs if (owner := _owner(path)) is not None}
    if len(set(found.values())) > 1:
        listed = ", ".join(f"{path} of broker {owner}" for path, owner in found.items())
        raise UserError(f"log.dirs belong to several brokers: {listed}")
    known = next(iter(found.values()), None)
    if known is not None and given not in (None, known):
        path = next(iter(found))
        raise UserError(
            f"broker.id={given}, but {path / META_PROPERTIES} says {known}: use that id, or other"
            " log.dirs"
        )
    if known is not None:
        return known
    if given is not None:
        return given
    if not _value(keys.BROKER_ID_GENERATION_ENABLE, texts):
        raise UserError("broker.id is missing, and broker.id.generation.enable=false: set one")
    return generate(_value(keys.RESERVED_BROKER_MAX_ID, texts))


def _given(texts: Mapping[str, str]) -> int | None:
    """None for no id and for -1, Kafka's default. Raises SettingError."""
    key = next((each for each in ID_KEYS if each in texts), None)
    if key is None:
        return None
    try:
        number = int(texts[key])
    except ValueError:
        raise SettingError(f"{key}={texts[key]} is not a number", key) from None
    if not -1 <= number <= ID_MAX:
        raise SettingError(f"{key}={number} must be from 0 to {ID_MAX}, or -1 for any", key)
    return None if number < 0 else number


def _owner(path: Path) -> int | None:
    """The broker that a log directory belongs to; None if it is new."""
    found = read_properties(path / META_PROPERTIES) or {}
    text = next((found[key] for key in ID_KEYS if key in found), "")
    return int(text) if text.isdecimal() else None


def _value(setting: Setting[T], texts: Mapping[str, str]) -> T:
    text = texts.get(setting.name)
    return setting.default if text is None else setting.parse(setting.name, text)
