"""Warnings about settings that have no effect, or only a part of it. Pure."""

from collections.abc import Container, Iterable
from typing import Final

from cluster.config.broker import SETTINGS_OF_KAFKA
from cluster.config.listeners import client_listeners, keys_of_other_listeners, without_client_auth
from cluster.config.setting import LISTENER_PREFIX
from cluster.config.snapshot import Settings

_OF_KAFKA: Final = frozenset(setting.name for setting in SETTINGS_OF_KAFKA)


def remarks_on(settings: Settings, but_not: Container[str] = ()) -> list[str]:
    """One warning for each reason why settings lack their effect, naming the keys as given.

    Settings whose value is the default are left out, and so are the keys in `but_not`. Reading a
    file warns of settings that only Kafka has (`kafka_file`).
    """
    lines = lines_by_reason(
        "Warning",
        (
            (given.name, setting.effect.remark)
            for setting in settings.table
            if setting.name not in _OF_KAFKA
            for given in settings.given(setting)[:1]
            if given.value != setting.default and given.name not in but_not
        ),
    )
    others = keys_of_other_listeners(settings)
    if others:
        names = ", ".join(each.name for each in client_listeners(settings))
        lines.append(
            f"Warning: {', '.join(others)}: no listener has that name; there are {names}, which"
            " are written in lower case there."
        )
    listeners = without_client_auth(settings)
    if listeners:
        lines.append(
            f"Warning: ssl.client.auth is not for listeners with SASL ({', '.join(listeners)}):"
            f" set {LISTENER_PREFIX}{listeners[0].lower()}.ssl.client.auth for that."
        )
    return lines


def lines_by_reason(heading: str, reasons: Iterable[tuple[str, str | None]]) -> list[str]:
    """A line `heading: key, key (reason).` for each reason; keys with None are left out."""
    keys: dict[str, list[str]] = {}
    for key, reason in reasons:
        if reason is not None:
            keys.setdefault(reason, []).append(key)
    return [f"{heading}: {', '.join(names)} ({reason})." for reason, names in keys.items()]
