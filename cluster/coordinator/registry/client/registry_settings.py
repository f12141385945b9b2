"""The options of a broker's connection to the registry, from Kafka's settings."""

from cluster.config import broker
from cluster.config.snapshot import Settings
from cluster.coordinator.registry.client.registry_access import RegistryAccess
from cluster.runtime.tls_options import StoreSource, TlsClientOptions


def access_of(settings: Settings) -> RegistryAccess:
    """The identity of a broker at the registry. Raises ValueError, whose text holds no secret."""
    return RegistryAccess.parse(settings[broker.REGISTRY_AUTH], tls_of(settings))


def tls_of(settings: Settings) -> TlsClientOptions | None:
    """The TLS options from Kafka's settings for ZooKeeper (KIP-515)."""
    if not settings[broker.ZOOKEEPER_SSL_CLIENT_ENABLE]:
        return None
    own = StoreSource(
        "keystore",
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_TYPE],
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_LOCATION],
        settings[broker.ZOOKEEPER_SSL_KEYSTORE_PASSWORD],
    )
    trusted = StoreSource(
        "truststore",
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_TYPE],
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_LOCATION],
        settings[broker.ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD],
    )
    return TlsClientOptions(
        trusted,
        own if own.is_given else None,
        protocols=settings[broker.ZOOKEEPER_SSL_ENABLED_PROTOCOLS]
        or (settings[broker.ZOOKEEPER_SSL_PROTOCOL],),
        cipher_suites=settings[broker.ZOOKEEPER_SSL_CIPHER_SUITES],
        verifies_host=settings[broker.ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION] == "HTTPS",
    )
