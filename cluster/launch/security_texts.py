"""The settings that a secure cluster (`start --secure`) has beside those of the user. Pure."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.config.broker import (
    REGISTRY_AUTH,
    ZOOKEEPER_SSL_CLIENT_ENABLE,
    ZOOKEEPER_SSL_PROTOCOL,
    ZOOKEEPER_SSL_TRUSTSTORE_LOCATION,
    ZOOKEEPER_SSL_TRUSTSTORE_TYPE,
)

if TYPE_CHECKING:
    from cluster.datadir.security_files import SecurityFiles


def security_texts(
    security: "SecurityFiles | None", broker: int, given: Mapping[str, str]
) -> dict[str, str]:
    """The settings of a secure cluster; of the user's, those that do not undo them stay."""
    if security is None:
        return {}
    from cluster.datadir.security_files import ADMIN, MECHANISM

    users = [f"User:{ADMIN}", *filter(None, [given.get("super.users")])]
    mechanisms = given.get("sasl.enabled.mechanisms", f"{MECHANISM},SCRAM-SHA-256")
    if MECHANISM not in [each.strip() for each in mechanisms.split(",")]:
        mechanisms = f"{mechanisms},{MECHANISM}"
    usual = {
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    }
    if "zookeeper.connect" not in given or REGISTRY_AUTH.name in given:
        usual["zookeeper.set.acl"] = "true"  # only who logs in there can
    return {
        **{key: text for key, text in usual.items() if key not in given},
        "sasl.enabled.mechanisms": mechanisms,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(security.key_store(broker)),
        "super.users": ";".join(users),
    }


def registry_tls_texts(security: "SecurityFiles") -> dict[str, str]:
    """How brokers, and the supervisor, reach a registry that speaks TLS."""
    return {
        ZOOKEEPER_SSL_CLIENT_ENABLE.name: "true",
        ZOOKEEPER_SSL_PROTOCOL.name: "TLSv1.3",
        ZOOKEEPER_SSL_TRUSTSTORE_LOCATION.name: str(security.authority),
        ZOOKEEPER_SSL_TRUSTSTORE_TYPE.name: "PEM",
    }
