"""Settings of brokers that change in use in Kafka, and not here."""

from typing import Final

FIXED_HERE: Final = {
    "advertised.listeners",
    "listener.security.protocol.map",
    "listeners",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "ssl.cipher.suites",
    "ssl.client.auth",
    "ssl.enabled.protocols",
}
"""Kafka lets one broker change these too, for listeners that it adds (`DynamicListenerConfig`);
here the listeners are those that it started with."""
