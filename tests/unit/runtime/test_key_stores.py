"""Key stores in every format, and the error line for each defect."""

import os
import re
import subprocess
from dataclasses import replace

import pytest

from cluster.model.errors import UserError
from cluster.runtime.certificates import name_of, trust_store_pkcs12
from cluster.runtime.key_stores import read_key_store, read_trust_store
from cluster.runtime.tls_options import StoreSource
from tests.support.tls import PASSWORD, as_texts, authority, pem_store, trusting


@pytest.fixture(scope="module")
def server():
    between = authority().issue_authority(name_of("Between"), authority_time())
    return between.issue_server(name_of("broker"), ["localhost"], authority_time())


def authority_time():
    return authority().identity.certificate.not_valid_before_utc.replace(microsecond=0)


def chain_of(identity):
    return (identity.certificate, *identity.issuers)


def written(path, data: bytes, mode: int = 0o600) -> str:
    path.write_bytes(data)
    path.chmod(mode)
    return str(path)


def holds(source: StoreSource, identity) -> bool:
    store = read_key_store(source)
    return (
        store.certificates == chain_of(identity)
        and store.key.public_key() == identity.key.public_key()
    )


def test_a_pem_file(server, tmp_path):
    assert holds(pem_store(server, tmp_path / "store.pem"), server)


def test_a_pem_file_with_a_password_and_certificates_in_any_order(server, tmp_path):
    own, *issuers = [each.public_bytes(encoding_pem()) for each in chain_of(server)]
    data = own + b"".join(reversed(issuers)) + server.key_pem(PASSWORD)
    source = StoreSource("keystore", "PEM", written(tmp_path / "store.pem", data))
    assert holds(replace(source, key_password=PASSWORD), server)
    with pytest.raises(UserError, match=r"set ssl\.key\.password"):
        read_key_store(source)
    with pytest.raises(UserError, match=r"ssl\.key\.password is wrong"):
        read_key_store(replace(source, key_password="another"))


def encoding_pem():
    from cryptography.hazmat.primitives.serialization import Encoding

    return Encoding.PEM


def test_texts_of_pem_also_with_spaces_for_line_ends(server):
    source = as_texts(server)
    assert holds(source, server)
    in_one_line = replace(
        source,
        key_text=source.key_text.replace("\n", " "),
        certificates_text=source.certificates_text.replace("\n", " "),
    )
    assert holds(in_one_line, server)


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])  # Java reads it under both names
def test_a_pkcs12_store(server, tmp_path, kind):
    location = written(tmp_path / "store.p12", server.pkcs12("broker", PASSWORD))
    source = StoreSource("keystore", kind, location, PASSWORD)
    assert holds(source, server)
    for wrong in ("another", None):
        with pytest.raises(UserError, match=r"ssl\.keystore\.password is wrong"):
            read_key_store(replace(source, password=wrong))


def test_trust_stores(tmp_path):
    other = authority("Another CA")
    both = [authority().identity.certificate, other.identity.certificate]
    p12 = written(tmp_path / "trust.p12", trust_store_pkcs12(both, PASSWORD), 0o644)
    assert set(read_trust_store(StoreSource("truststore", "PKCS12", p12, PASSWORD))) == set(both)
    assert read_trust_store(trusting(other)) == (other.identity.certificate,)
    pem = written(tmp_path / "trust.pem", other.identity.certificate_pem(), 0o644)
    assert read_trust_store(StoreSource("truststore", "PEM", pem)) == (other.identity.certificate,)
    assert read_trust_store(StoreSource("truststore")) == ()


@pytest.mark.parametrize(
    ("mode", "who"), [(0o644, "everybody"), (0o604, "everybody"), (0o640, "its group")]
)
@pytest.mark.parametrize("kind", ["PEM", "PKCS12"])
def test_a_private_key_that_others_can_read_is_refused(server, tmp_path, kind, mode, who):
    data = server.key_pem() + server.chain_pem() if kind == "PEM" else server.pkcs12("b", PASSWORD)
    location = written(tmp_path / "store", data, mode)
    said = rf"^{who} can read the private key in .*/store \(mode {mode:04o}\): run `chmod 600 .*`$"
    with pytest.raises(UserError, match=said):
        read_key_store(StoreSource("keystore", kind, location, PASSWORD))


def test_a_group_may_read_the_key_of_another_owner_who_lets_this_process_read_so(
    server, tmp_path, monkeypatch
):
    location = written(tmp_path / "store", server.key_pem() + server.chain_pem(), 0o640)
    monkeypatch.setattr("os.geteuid", lambda: os.getuid() + 1)
    assert holds(StoreSource("keystore", "PEM", location), server)


def test_a_jks_store_is_refused_with_the_command_that_converts_it(tmp_path):
    location = written(tmp_path / "store.jks", b"\xfe\xed\xfe\xed" + bytes(100))
    with pytest.raises(UserError, match=r"`keytool -importkeystore .* -deststoretype PKCS12`"):
        read_key_store(StoreSource("keystore", "JKS", location, PASSWORD))


@pytest.mark.parametrize(
    ("kind", "data", "said"),
    [
        ("PKCS12", b"-----BEGIN CERTIFICATE-----", r"is a PEM file: set ssl\.keystore\.type=PEM"),
        ("PEM", b"\x30\x82", r"is not a PEM file"),
        ("PEM", b"-----BEGIN \xff", r"is not a PEM file"),
        ("BCFKS", b"", r"ssl\.keystore\.type=BCFKS is not supported"),
        ("PKCS12", b"\x30\x82junk", r"it is not a PKCS12 store"),
        ("PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "no private key"),
        (
            "PEM",
            b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----",
            "no certificate in PEM",
        ),
    ],
)
def test_key_store_error_names_a_file_of_another_type(tmp_path, kind, data, said):
    location = written(tmp_path / "store", data)
    with pytest.raises(UserError, match=said) as raised:
        read_key_store(StoreSource("keystore", kind, location, PASSWORD))
    assert "\n" not in str(raised.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=re.escape("ssl.keystore.location")):
        read_key_store(StoreSource("keystore", "PEM", str(tmp_path / "nothing")))
    with pytest.raises(UserError, match=r"set ssl\.keystore\.location"):
        read_key_store(StoreSource("keystore"))


def test_no_secret_is_in_the_text_of_a_source():
    source = StoreSource("keystore", "PEM", "f", PASSWORD, PASSWORD, PASSWORD, PASSWORD)
    assert PASSWORD not in repr(source)


def test_cipher_suites_have_openssl_s_names():
    from cluster.runtime.tls_context import openssl_suite

    listed = subprocess.run(
        ["openssl", "ciphers", "-stdname", "-tls1_2", "ALL:@SECLEVEL=0"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    known = re.compile(
        r"TLS_((ECDHE|DHE)_)?(RSA|ECDSA)_WITH_(AES_\d+_(CBC|GCM)|CHACHA20_POLY1305)_SHA\d*"
    )
    compared = 0
    for line in listed.splitlines():
        standard, name = line.split()[0], line.split()[2]
        if known.fullmatch(standard):
            assert openssl_suite(standard) == name
            compared += 1
    assert compared > 15
