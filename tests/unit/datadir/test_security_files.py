"""Keys, certificates and passwords of a secure cluster, and the files that its clients get."""

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from cluster.client.security_properties import client_security
from cluster.config.properties_file import read_properties_file
from cluster.datadir.client_files import write_client_files
from cluster.datadir.paths import CLIENT_FILES
from cluster.datadir.security_files import SecurityFiles, prepare_security
from cluster.model.errors import UserError
from cluster.model.scram import credential_of, parse_credential
from cluster.model.security import SaslMechanism, SecurityProtocol

NOW = datetime(2026, 11, 22, tzinfo=UTC)
HOSTS = ["localhost", "127.0.0.1", "::1", "kafka.example", "0.0.0.0"]
BOOTSTRAP = "127.0.0.1:9092,127.0.0.1:9093"


def prepared(path: Path, now: datetime = NOW, hosts: list[str] | None = None) -> SecurityFiles:
    return prepare_security(path / "security", range(2), HOSTS if hosts is None else hosts, now)


def certificate(security: SecurityFiles, broker: int = 0) -> x509.Certificate:
    return x509.load_pem_x509_certificates(security.key_store(broker).read_bytes())[0]


def names_in(found: x509.Certificate) -> set[str]:
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {
        *names.get_values_for_type(x509.DNSName),
        *map(str, names.get_values_for_type(x509.IPAddress)),
    }


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_the_owner_may_read_the_files(tmp_path):
    security = prepared(tmp_path)
    write_client_files(tmp_path / "clients", BOOTSTRAP, security)
    for directory in (security.directory, tmp_path / "clients"):
        assert mode(directory) == 0o700
        assert {mode(path) for path in directory.iterdir()} == {0o600}


@pytest.mark.parametrize("name", ["passwords.json", "ca.key", "broker-1.pem"])
def test_a_file_that_others_can_read_is_refused_in_one_line(tmp_path, name):
    path = prepared(tmp_path).directory / name
    path.chmod(0o640)
    with pytest.raises(UserError, match=rf"^its group can read .* `chmod 600 {path}`$"):
        prepared(tmp_path)
    path.chmod(0o600)
    prepared(tmp_path)


def test_certificates_name_every_host_that_a_client_may_use(tmp_path):
    security = prepared(tmp_path)
    assert names_in(certificate(security)) == {"localhost", "127.0.0.1", "::1", "kafka.example"}
    assert certificate(security, 0).public_key() != certificate(security, 1).public_key()


def test_a_later_start_keeps_everything(tmp_path):
    first = prepared(tmp_path)
    before = {path: path.read_bytes() for path in first.directory.iterdir()}
    second = prepared(tmp_path, NOW + timedelta(days=1), HOSTS[:2])
    assert {path: path.read_bytes() for path in first.directory.iterdir()} == before
    assert (second.ca_pem, second.admin_password) == (first.ca_pem, first.admin_password)


def test_a_new_host_makes_new_certificates_of_the_same_authority(tmp_path):
    first = prepared(tmp_path)
    second = prepared(tmp_path, hosts=[*HOSTS, "10.1.2.3"])
    assert "10.1.2.3" in names_in(certificate(second))
    assert second.ca_pem == first.ca_pem


def test_certificates_that_end_within_a_year_are_renewed(tmp_path):
    first = prepared(tmp_path)
    serial = certificate(first).serial_number
    later = NOW + timedelta(days=9 * 365 + 30)
    second = prepared(tmp_path, later)
    assert certificate(second).serial_number != serial
    assert certificate(second).not_valid_after_utc > later + timedelta(days=9 * 365)
    assert second.ca_pem != first.ca_pem


def test_the_registry_is_given_a_credential_and_not_a_password(tmp_path):
    security = prepared(tmp_path)
    text = security.first_user.read_text()
    assert security.admin_password not in text
    first = json.loads(text)
    stored = parse_credential(first["credentials"]["SCRAM-SHA-512"])
    mechanism = SaslMechanism.SCRAM_SHA_512
    assert stored == credential_of(mechanism, security.admin_password, stored.salt)


def test_the_first_user_is_given_until_the_cluster_was_up_once(tmp_path):
    security = prepared(tmp_path)
    assert prepared(tmp_path).first_user.exists()
    security.confirm()
    assert not prepared(tmp_path).first_user.exists()


def test_no_password_is_in_the_text_of_the_files(tmp_path):
    security = prepared(tmp_path)
    assert security.admin_password not in repr(security)
    assert security.trust_store_password not in repr(security)


def test_damaged_files_are_named_in_one_line(tmp_path):
    security = prepared(tmp_path)
    (security.directory / "ca.key").write_text("-----BEGIN")
    with pytest.raises(UserError, match=rf"^cannot use the files in {security.directory}: "):
        prepared(tmp_path)


def test_every_file_for_clients_says_the_same(tmp_path):
    security = prepared(tmp_path)
    clients = tmp_path / "clients"
    write_client_files(clients, BOOTSTRAP, security)
    assert {path.name for path in clients.iterdir()} == {
        *CLIENT_FILES,
        "ca.pem",
        "truststore.p12",
    }
    read = {
        name: read_properties_file(clients / name).texts
        for name in ("librdkafka.properties", "java.properties", "kcat.conf")
    }
    assert {texts["bootstrap.servers"] for texts in read.values()} == {BOOTSTRAP}
    found = [client_security(texts) for texts in read.values()]
    assert found[0].protocol is SecurityProtocol.SASL_SSL
    assert (found[0].username, found[0].password) == ("admin", security.admin_password)
    assert found[0].ca_pem == security.ca_pem.decode()
    assert found.count(found[0]) == len(found)
    python = json.loads((clients / "kafka-python.json").read_text())
    assert python["bootstrap_servers"] == BOOTSTRAP.split(",")
    assert python["sasl_plain_password"] == security.admin_password
    assert Path(python["ssl_cafile"]).read_bytes() == security.ca_pem
