"""How a broker's settings say that the registry is reached."""

import ssl

import pytest

from cluster.config.broker import BROKER_SETTINGS
from cluster.config.snapshot import Layer, Settings, Source
from cluster.coordinator.registry.client.registry_settings import tls_of
from cluster.model.errors import UserError
from cluster.runtime.tls_context import client_context

SUITE = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


def context(**texts: str) -> ssl.SSLContext:
    """What `zookeeper.ssl.*` settings come to, with TLS on."""
    named = {f"zookeeper.ssl.{name.replace('_', '.')}": text for name, text in texts.items()}
    named["zookeeper.ssl.client.enable"] = "true"
    options = tls_of(Settings(BROKER_SETTINGS, [Layer(Source.STATIC_BROKER, named)]))
    assert options is not None
    return client_context(options)


@pytest.mark.parametrize(
    ("texts", "versions"),
    [
        ({}, (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)),
        ({"protocol": "TLSv1.3"}, (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_3)),
        (
            {"protocol": "TLSv1.3", "enabled_protocols": "TLSv1.3,TLSv1.2"},
            (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3),
        ),
    ],
)
def test_versions_are_those_enabled_or_else_the_protocol(texts, versions):
    made = context(**texts)
    assert (made.minimum_version, made.maximum_version) == versions


def test_cipher_suites_are_limited():
    old = {each["name"] for each in context(cipher_suites=SUITE).get_ciphers()}
    assert {name for name in old if not name.startswith("TLS_")} == {
        "ECDHE-ECDSA-AES128-GCM-SHA256"
    }
    with pytest.raises(UserError, match="TLS_NONE"):
        context(cipher_suites="TLS_NONE")


def test_tls_is_off_unless_it_is_enabled():
    assert tls_of(Settings(BROKER_SETTINGS, [])) is None
