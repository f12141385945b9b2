"""The listeners of a broker, and its settings as one listener or SASL mechanism has them. Pure.

A key `listener.name.NAME.KEY` takes precedence over `KEY` for that listener (KIP-103), and
`listener.name.NAME.MECHANISM.KEY` over both for one SASL mechanism of it (KIP-86); both names are
in lower case.
"""

from typing import Final, NamedTuple

from cluster.config import broker
from cluster.config.setting import LISTENER_PREFIX, NarrowedKey
from cluster.config.snapshot import Layer, Settings, Source
from cluster.model.security import SecurityProtocol

_WITH_SASL: Final = (
    Layer(Source.DEFAULT, {broker.SSL_CLIENT_AUTH.name: broker.SSL_CLIENT_AUTH.default}),
)


class ListenerConfig(NamedTuple):
    """One listener for clients."""

    name: str
    """In upper case."""
    host: str
    """The address to listen on; empty for every address."""
    port: int
    """0 for any free port."""
    protocol: SecurityProtocol


def client_listeners(settings: Settings) -> tuple[ListenerConfig, ...]:
    """The listeners in the order of `listeners`."""
    protocols = settings[broker.LISTENER_SECURITY_PROTOCOL_MAP]
    return tuple(
        ListenerConfig(each.name, each.host, each.port, protocols[each.name])
        for each in settings[broker.LISTENERS]
    )


def of_listener(settings: Settings, name: str) -> Settings:
    """A broker's settings as the listener of that name has them.

    A listener's own value takes precedence over the broker's, whatever the sources (Kafka:
    `AbstractConfig.valuesWithPrefixOverride`). The broker's ssl.client.auth does not apply to
    listeners with SASL (Kafka: `ChannelBuilders`), whose clients log in anyway.
    """
    own = (NarrowedKey(name.lower(), None, ""),)
    protocol = settings[broker.LISTENER_SECURITY_PROTOCOL_MAP].get(name.upper())
    return _narrowed(settings, own, _WITH_SASL if protocol is SecurityProtocol.SASL_SSL else ())


def without_client_auth(settings: Settings) -> list[str]:
    """The listeners with SASL, to which the broker's ssl.client.auth does not apply, and without
    their own.
    """
    setting = broker.SSL_CLIENT_AUTH
    if settings[setting] == setting.default:
        return []
    given = {key for layer in settings.layers for key in layer.texts}
    return [
        each.name
        for each in client_listeners(settings)
        if each.protocol is SecurityProtocol.SASL_SSL
        and f"{LISTENER_PREFIX}{each.name.lower()}.{setting.name}" not in given
    ]


def keys_of_other_listeners(settings: Settings) -> list[str]:
    """Keys for an unknown listener, or for one whose name is not in lower case."""
    names = {each.name.lower() for each in client_listeners(settings)}
    given = {key for layer in settings.layers for key in layer.texts}
    return sorted(
        key
        for key in given
        if (found := settings.table.narrowed_key(key)) is not None and found.listener not in names
    )


def of_mechanism(settings: Settings, listener_name: str, mechanism: str) -> Settings:
    """A broker's settings as one SASL mechanism of a listener has them.

    `settings` are those of the broker, not of the listener.
    """
    listener = listener_name.lower()
    return _narrowed(
        settings,
        (NarrowedKey(listener, mechanism.lower(), ""), NarrowedKey(listener, None, "")),
    )


def _narrowed(
    settings: Settings, strongest_first: tuple[NarrowedKey, ...], default: tuple[Layer, ...] = ()
) -> Settings:
    laid_over = []
    for wanted in strongest_first:
        for layer in settings.layers:
            texts = {}
            for key, text in layer.texts.items():
                found = settings.table.narrowed_key(key)
                if found is not None and found._replace(name="") == wanted:
                    texts[found.name] = text
            if texts:
                laid_over.append(Layer(layer.source, texts))
    return Settings(settings.table, [*laid_over, *default, *settings.layers])
