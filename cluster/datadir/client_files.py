"""Files with which clients connect to a secure cluster, or log in to its registry, in
`DATA_DIR/clients`, of mode 0600.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from cluster.config.jaas import LOGIN_MODULES
from cluster.config.properties_file import read_properties_file, render_properties
from cluster.coordinator.registry.client.registry_access import RegistryAccess
from cluster.datadir.paths import REGISTRY_JAAS, REGISTRY_PROPERTIES, DataDir
from cluster.datadir.security_files import ADMIN, MECHANISM, SecurityFiles, remember_password
from cluster.runtime.private_files import private_directory, write_private

_LOGIN_MODULE: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"


class _Facts(NamedTuple):
    """What the files say."""

    bootstrap: str
    password: str
    trust_store_password: str


def write_client_files(directory: Path, bootstrap: str, security: SecurityFiles) -> None:
    """Write all files for the brokers at `bootstrap`. Raises OSError."""
    private_directory(directory)
    write_private(directory / "ca.pem", security.ca_pem)
    write_private(directory / "truststore.p12", security.trust_store)
    facts = _Facts(bootstrap, security.admin_password, security.trust_store_password)
    _write_logins(directory, facts)


def write_registry_files(
    directory: Path, access: RegistryAccess, security: SecurityFiles | None
) -> None:
    """Write how ZooKeeper's clients log in to a registry, for Java, and where it has TLS, how they
    reach it; or remove what it does not have. Raises OSError.
    """
    if access.scheme is None:
        (directory / REGISTRY_JAAS).unlink(missing_ok=True)
    else:
        private_directory(directory)
        login = f"username={_quoted(access.user)} password={_quoted(access.password)}"
        jaas = f"Client {{ {_LOGIN_MODULE} required {login}; }};\n"
        write_private(directory / REGISTRY_JAAS, jaas)
    if access.tls is None or security is None:
        (directory / REGISTRY_PROPERTIES).unlink(missing_ok=True)
        return
    reached = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(directory / "truststore.p12"),
        "zookeeper.ssl.truststore.type": "PKCS12",
        "zookeeper.ssl.truststore.password": security.trust_store_password,
    }
    write_private(directory / REGISTRY_PROPERTIES, render_properties(reached))


def change_password(files: DataDir, password: str) -> None:
    """Give all files another password, and keep it for the next start. Raises OSError."""
    remember_password(files.security, password)
    java = read_properties_file(files.java_properties).texts
    facts = _Facts(java["bootstrap.servers"], password, java["ssl.truststore.password"])
    _write_logins(files.clients, facts)


def change_bootstrap(files: DataDir, bootstrap: str) -> None:
    """Let all files name other addresses of the same cluster. Raises OSError."""
    java = read_properties_file(files.java_properties).texts
    password = read_properties_file(files.tools_properties).texts["sasl.password"]
    _write_logins(files.clients, _Facts(bootstrap, password, java["ssl.truststore.password"]))


def _write_logins(directory: Path, facts: _Facts) -> None:
    ca, trust_store = directory / "ca.pem", directory / "truststore.p12"
    librdkafka = {
        "bootstrap.servers": facts.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(ca),
        "sasl.mechanism": MECHANISM.value,
        "sasl.username": ADMIN,
        "sasl.password": facts.password,
    }
    java = {
        "bootstrap.servers": facts.bootstrap,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PKCS12",
        "ssl.truststore.location": str(trust_store),
        "ssl.truststore.password": facts.trust_store_password,
        "sasl.mechanism": MECHANISM.value,
        "sasl.jaas.config": jaas_text(ADMIN, facts.password),
    }
    kafka_python = {
        "bootstrap_servers": facts.bootstrap.split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(ca),
        "sasl_mechanism": MECHANISM.value,
        "sasl_plain_username": ADMIN,
        "sasl_plain_password": facts.password,
    }
    write_private(directory / "java.properties", render_properties(java))
    write_private(directory / "kafka-python.json", json.dumps(kafka_python, indent=2) + "\n")
    write_private(directory / "kcat.conf", _plain_lines(librdkafka))
    write_private(directory / "librdkafka.properties", _plain_lines(librdkafka))


def jaas_text(user: str, password: str) -> str:
    """The `sasl.jaas.config` of a Java client that logs in by SCRAM."""
    module = LOGIN_MODULES[MECHANISM]
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _plain_lines(settings: Mapping[str, str]) -> str:
    """`key=value` without escapes, which librdkafka's programs do not know."""
    return "".join(f"{key}={value}\n" for key, value in settings.items())
