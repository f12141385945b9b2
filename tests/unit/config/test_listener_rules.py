"""Combinations of listeners that Kafka 3.9 refuses are refused in one line that names the key.

`docs/decisions/027-listeners.md` says where Kafka differs.
"""

import pytest

from cluster.config.settings import broker_settings
from cluster.model.errors import UserError

NAMED = {"listener.security.protocol.map": "A:PLAINTEXT,B:SSL,C:SASL_SSL,D:SASL_PLAINTEXT"}
KEYS = {"ssl.keystore.location": "keys.pem"}
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required user_ann='1';"
SCRAM = {"sasl.enabled.mechanisms": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"listeners": "PLAINTEXT://a:1", "advertised.listeners": "PLAINTEXT://b:2"},
        {"listeners": "PLAINTEXT://127.0.0.1:1,SSL://[::1]:1", **KEYS},
        {"listeners": "PLAINTEXT://a:0,SSL://a:0", **KEYS},
        {"listeners": "a://h:1", "inter.broker.listener.name": "a", **NAMED},
        {"listeners": "A://h:1", **NAMED},
        {"listeners": "SSL://h:1", **KEYS},
        {"listeners": "SSL://h:1", "security.inter.broker.protocol": "SSL", **KEYS},
        {"listeners": "B://h:1", "listener.name.b.ssl.keystore.key": "PEM", **NAMED},
        {"listeners": "A://h:1,D://h:2", "advertised.listeners": "A://h:1", **NAMED, **SCRAM},
        {"listeners": "PLAINTEXT://:1,D://:2", "advertised.listeners": "D://h:2"}
        | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,D:SASL_PLAINTEXT", **SCRAM},
        {"listeners": "PLAINTEXT://a:1,SSL://a:2", **KEYS}
        | {"advertised.listeners": "PLAINTEXT://b:9,SSL://b:9"},
        {"listeners": "D://h:1", "listener.name.d.sasl.enabled.mechanisms": "PLAIN", **NAMED}
        | {"listener.name.d.plain.sasl.jaas.config": JAAS},
        {"listeners": "D://h:1", "inter.broker.listener.name": "D", **NAMED, **SCRAM}
        | {"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512"},
        {"listeners": "D://h:1", "inter.broker.listener.name": "D", **NAMED, **SCRAM},
        {"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "127.0.0.1:5"},
        {"connection.failed.authentication.delay.ms": "9", "connections.max.idle.ms": "-1"},
    ],
)
def test_consistent_listener_settings_are_accepted(texts):
    broker_settings(texts)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"listeners": ""}, "listeners is empty"),
        ({"listeners": "PLAINTEXT:1"}, "listeners=PLAINTEXT:1 is not valid: it must be a comma"),
        ({"listeners": "PLAINTEXT://a:-1"}, "listeners=PLAINTEXT://a:-1 is not valid"),
        ({"listeners": "PLAINTEXT://a:1,SSL://b:1"}, "names the port 1 twice"),
        ({"listeners": "PLAINTEXT://127.0.0.1:1,SSL://127.0.0.2:1"}, "an IPv4 and the other"),
        ({"listeners": "PLAINTEXT://a:1,plaintext://b:2"}, "names PLAINTEXT twice"),
        ({"listeners": "E://a:1"}, "listeners: E://a:1 needs an entry for E in listener.security"),
        ({"listener.security.protocol.map": "A:TLS"}, "map=A:TLS is not valid"),
        ({"listener.security.protocol.map": "A:SSL,A:PLAINTEXT"}, "each name once"),
        ({"listeners": "PLAINTEXT://:1"}, "give advertised.listeners"),
        ({"listeners": "PLAINTEXT://0.0.0.0:1"}, "give advertised.listeners"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "an address a client can connect to"),
        ({"advertised.listeners": "PLAINTEXT://[::]:1"}, "an address a client can connect to"),
        ({"advertised.listeners": "PLAINTEXT://a:0"}, "an address a client can connect to"),
        ({"advertised.listeners": "PLAINTEXT://a:1,PLAINTEXT://b:2"}, "names PLAINTEXT twice"),
        ({"advertised.listeners": "SSL://a:1"}, "not one of the listeners, which are PLAINTEXT"),
        ({"inter.broker.listener.name": "E"}, "needs an entry for E"),
        ({"inter.broker.listener.name": "SSL"}, "advertised listeners, which are PLAINTEXT"),
        ({"security.inter.broker.protocol": "SSL"}, "advertised listeners, which are PLAINTEXT"),
        ({"security.inter.broker.protocol": "TLS"}, "must be PLAINTEXT, SSL, SASL_PLAINTEXT or"),
        (
            {
                "inter.broker.listener.name": "PLAINTEXT",
                "security.inter.broker.protocol": "PLAINTEXT",
            },
            "only one of inter.broker.listener.name and security.inter.broker.protocol",
        ),
        (
            {"listeners": "D://h:1", "inter.broker.listener.name": "D", **NAMED, **SCRAM}
            | {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "protocol=PLAIN must be among sasl.enabled.mechanisms of the listener D",
        ),
        ({"listeners": "SASL_PLAINTEXT://h:1"}, "there is no GSSAPI"),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "sasl.enabled.mechanisms": "PLAIN,GSSAPI"},
            "there is no GSSAPI",
        ),
        ({"sasl.enabled.mechanisms": "NTLM"}, "sasl.enabled.mechanisms=NTLM is not valid"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms= is not valid"),
        (
            {"listeners": "SASL_PLAINTEXT://h:1", "sasl.enabled.mechanisms": "PLAIN"},
            "must stand in listener.name.sasl_plaintext.plain.sasl.jaas.config",
        ),
        (
            {"listeners": "D://h:1", "listener.name.d.plain.sasl.jaas.config": "x", **NAMED}
            | {"sasl.enabled.mechanisms": "PLAIN"},
            "listener.name.d.plain.sasl.jaas.config is not valid: after x must stand",
        ),
        ({"sasl.jaas.config": JAAS}, "sasl.jaas.config must be for one mechanism of one listener"),
        (
            {"listener.name.d.sasl.jaas.config": JAAS},
            "listener.name.d.sasl.jaas.config must be for one mechanism of one listener",
        ),
        ({"listeners": "SSL://h:1"}, "the listener SSL needs a private key and certificates"),
        (
            {"listeners": "B://h:1,C://h:2", "listener.name.c.ssl.keystore.location": "x"}
            | {**NAMED, **SCRAM},
            "the listener B needs a private key and certificates",
        ),
        ({"max.connections.per.ip": "0"}, "only if max.connections.per.ip.overrides is set"),
        ({"max.connections.per.ip.overrides": "127.0.0.1"}, "host:count"),
        ({"connection.failed.authentication.delay.ms": "700000"}, "less than connections.max.idle"),
    ],
)
def test_inconsistent_listener_settings_are_refused(texts, message):
    with pytest.raises(UserError) as refused:
        broker_settings(texts)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
