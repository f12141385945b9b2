"""The settings of one listener, and of one SASL mechanism of it, over those of the broker."""

import pytest

from cluster.config import broker
from cluster.config.broker import BROKER_SETTINGS
from cluster.config.dynamic import OWN, applied
from cluster.config.listeners import ListenerConfig, client_listeners, of_listener, of_mechanism
from cluster.config.remarks import remarks_on
from cluster.config.setting import NarrowedKey
from cluster.config.settings import broker_settings
from cluster.model.errors import UserError
from cluster.model.security import SecurityProtocol


@pytest.mark.parametrize(
    ("key", "found"),
    [
        ("listener.name.a.ssl.client.auth", NarrowedKey("a", None, "ssl.client.auth")),
        ("listener.name.a.b.ssl.client.auth", NarrowedKey("a.b", None, "ssl.client.auth")),
        ("listener.name.a.plain.sasl.jaas.config", NarrowedKey("a", "plain", "sasl.jaas.config")),
        ("listener.name.plain.sasl.jaas.config", NarrowedKey("plain", None, "sasl.jaas.config")),
        (
            "listener.name.a.scram-sha-256.connections.max.reauth.ms",
            NarrowedKey("a", "scram-sha-256", "connections.max.reauth.ms"),
        ),
        ("listener.name.a.plain.ssl.client.auth", NarrowedKey("a.plain", None, "ssl.client.auth")),
        ("listener.name.ssl.client.auth", None),
        ("listener.name.a.broker.id", None),
        ("listener.name.a.nope", None),
        ("ssl.client.auth", None),
    ],
)
def test_the_key_of_a_listeners_own_value_is_taken_apart(key, found):
    assert BROKER_SETTINGS.narrowed_key(key) == found
    assert (key in BROKER_SETTINGS) is (found is not None or key == "ssl.client.auth")


def test_a_listeners_own_value_stands_over_the_brokers():
    settings = broker_settings(
        {"ssl.client.auth": "requested", "listener.name.clients.ssl.client.auth": "required"}
    )
    assert settings[broker.SSL_CLIENT_AUTH] == "requested"
    assert of_listener(settings, "CLIENTS")[broker.SSL_CLIENT_AUTH] == "required"
    assert of_listener(settings, "OTHERS")[broker.SSL_CLIENT_AUTH] == "requested"


def test_a_mechanisms_own_value_stands_over_the_listeners():
    settings = broker_settings(
        {
            "connections.max.reauth.ms": "1",
            "listener.name.a.connections.max.reauth.ms": "2",
            "listener.name.a.plain.connections.max.reauth.ms": "3",
        }
    )

    def found(listener: str, mechanism: str) -> int:
        return of_mechanism(settings, listener, mechanism)[broker.CONNECTIONS_MAX_REAUTH_MS]

    assert [found("A", "PLAIN"), found("A", "OAUTHBEARER"), found("B", "PLAIN")] == [3, 2, 1]


def test_a_listeners_value_in_the_file_stands_over_the_brokers_that_is_changed_in_use():
    started = broker_settings({"listener.name.a.ssl.keystore.location": "of a"})
    stored = {"ssl.keystore.location": "new", "listener.name.b.ssl.keystore.location": "of b"}
    settings, problems = applied(started, {OWN: stored})
    assert problems == ()
    locations = [
        of_listener(settings, name)[broker.SSL_KEYSTORE_LOCATION] for name in ("A", "B", "C")
    ]
    assert locations == ["of a", "of b", "new"]


def test_a_listeners_own_value_is_checked_like_the_brokers():
    with pytest.raises(UserError, match=r"^listener.name.a.ssl.client.auth=maybe is not valid"):
        broker_settings({"listener.name.a.ssl.client.auth": "maybe"})
    with pytest.raises(UserError, match=r"Unknown broker setting listener.name.a.broker.id"):
        broker_settings({"listener.name.a.broker.id": "1"})


def test_listeners_are_given_with_their_protocols():
    settings = broker_settings(
        {
            "listeners": "a://:1,SSL://h:2",
            "advertised.listeners": "A://h:1",
            "listener.security.protocol.map": "A:SASL_PLAINTEXT,SSL:SSL",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "ssl.keystore.location": "a.pem",
        }
    )
    assert client_listeners(settings) == (
        ListenerConfig("A", "", 1, SecurityProtocol.SASL_PLAINTEXT),
        ListenerConfig("SSL", "h", 2, SecurityProtocol.SSL),
    )


WITH_SASL = {
    "listeners": "SSL://h:1,SASL_SSL://h:2",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.keystore.location": "a.pem",
    "ssl.client.auth": "required",
}


def test_the_brokers_client_auth_is_not_for_listeners_with_sasl():
    settings = broker_settings(WITH_SASL)
    found = [of_listener(settings, name)[broker.SSL_CLIENT_AUTH] for name in ("SSL", "SASL_SSL")]
    assert found == ["required", "none"]
    assert remarks_on(settings, broker.BROKER_SETTINGS) == [
        "Warning: ssl.client.auth is not for listeners with SASL (SASL_SSL):"
        " set listener.name.sasl_ssl.ssl.client.auth for that."
    ]


def test_keys_of_an_unknown_listener_are_named():
    given = {
        "listener.name.a.max.connections": "5",
        "listener.name.other.max.connections": "5",
        "listener.name.A.ssl.client.auth": "none",
    }
    own = {"listeners": "A://h:1", "listener.security.protocol.map": "A:PLAINTEXT"}
    assert remarks_on(broker_settings({**own, **given})) == [
        "Warning: listener.name.A.ssl.client.auth, listener.name.other.max.connections: no listener"
        " has that name; there are A, which are written in lower case there."
    ]


JWKS_URL = broker.SASL_OAUTHBEARER_JWKS_ENDPOINT_URL


@pytest.mark.parametrize("url", ["http://h/keys", "https://h:1/", "file:///keys.json"])
def test_keys_for_tokens_are_at_a_url(url):
    assert broker_settings({JWKS_URL.name: url})[JWKS_URL] == url
    assert broker_settings({JWKS_URL.name: ""})[JWKS_URL] is None


@pytest.mark.parametrize("url", ["ftp://h/keys", "/keys.json", "http:/keys", "file:", "http://["])
def test_keys_for_tokens_are_nowhere_else(url):
    with pytest.raises(UserError, match="a URL that begins with http://, https:// or file://"):
        broker_settings({JWKS_URL.name: url})


def test_a_listener_with_sasl_may_have_client_auth_of_its_own():
    key = "listener.name.sasl_ssl.ssl.client.auth"
    settings = broker_settings({**WITH_SASL, key: "requested"})
    assert of_listener(settings, "SASL_SSL")[broker.SSL_CLIENT_AUTH] == "requested"
    assert remarks_on(settings, broker.BROKER_SETTINGS) == []
