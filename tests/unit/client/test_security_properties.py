"""Security of clients read from properties: Java's names, librdkafka's, files, contradictions."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from cluster.brokers.security.token_claims import ClaimRules
from cluster.brokers.security.unsecured_tokens import UnsecuredTokens
from cluster.client.bearer_tokens import UnsecuredToken, first_message
from cluster.client.security import UNPROTECTED
from cluster.client.security_properties import client_security, completed
from cluster.model.clocks import WallMs
from cluster.model.errors import UserError
from cluster.model.security import SaslMechanism
from cluster.runtime.certificates import (
    CertificateAuthority,
    Identity,
    name_of,
    trust_store_pkcs12,
)

NOW = datetime.now(UTC)
AUTHORITY = CertificateAuthority.make(name_of("test authority"), NOW)
CLIENT = AUTHORITY.issue_client(name_of("alice"), NOW)
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="alice" password="p\\"w;1";'
)


def ca_pem() -> str:
    return AUTHORITY.identity.certificate_pem().decode()


def written(path: Path, content: bytes) -> str:
    path.touch(0o600)
    path.write_bytes(content)
    return str(path)


def is_key_of(key_pem: str | None, identity: Identity) -> bool:
    assert key_pem is not None
    key = load_pem_private_key(key_pem.encode(), None)
    return key.public_key() == identity.key.public_key()


def test_without_any_property_connections_are_not_protected():
    assert client_security({"linger.ms": "5"}) == UNPROTECTED
    assert UNPROTECTED.librdkafka() == {}


def test_a_login_in_javas_words_and_in_librdkafkas_is_the_same():
    java = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
        }
    )
    own = client_security(
        {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": 'p"w;1',
        }
    )
    assert java == own
    assert java.mechanism is SaslMechanism.SCRAM_SHA_512
    assert java.librdkafka() == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 'p"w;1',
    }


def test_neither_passwords_nor_keys_are_in_the_text_of_a_security():
    security = client_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": JAAS,
            "ssl.keystore.key": CLIENT.key_pem().decode(),
            "ssl.keystore.certificate.chain": CLIENT.chain_pem().decode(),
        }
    )
    assert 'p"w' not in repr(security)
    assert "PRIVATE KEY" not in repr(security)


def test_a_delegation_token_is_known_by_its_option():
    text = JAAS.removesuffix(";") + " tokenauth=true;"
    security = client_security(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": text,
        }
    )
    assert security.token_auth
    with pytest.raises(UserError, match="delegation token"):
        security.librdkafka()


@pytest.mark.parametrize("store_type", ["PKCS12", "JKS", None])
def test_a_pkcs12_trust_store_of_java_is_read(tmp_path, store_type):
    store = trust_store_pkcs12([AUTHORITY.identity.certificate], "secret")
    given = {
        "security.protocol": "SSL",
        "ssl.truststore.location": written(tmp_path / "trust.p12", store),
        "ssl.truststore.password": "secret",
    }
    if store_type is not None:
        given["ssl.truststore.type"] = store_type
    security = client_security(given)
    assert security.ca_pem == ca_pem()
    assert len(security.tls_context().get_ca_certs()) == 1


@pytest.mark.parametrize("key", ["ssl.ca.location", "ssl.truststore.location"])
def test_a_pem_file_of_authorities_is_read(tmp_path, key):
    path = written(tmp_path / "ca.pem", b"some text\n" + ca_pem().encode())
    security = client_security({"security.protocol": "ssl", key: path})
    assert security.ca_pem == ca_pem()
    assert security.librdkafka() == {
        "security.protocol": "ssl",
        "ssl.ca.pem": ca_pem(),
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_a_client_certificate_comes_from_a_pkcs12_store(tmp_path):
    path = written(tmp_path / "alice.p12", CLIENT.pkcs12("alice", "secret"))
    security = client_security(
        {
            "security.protocol": "SSL",
            "ssl.keystore.location": path,
            "ssl.keystore.password": "secret",
        }
    )
    assert security.certificate_pem == CLIENT.chain_pem().decode()
    assert is_key_of(security.key_pem, CLIENT)
    assert isinstance(security.tls_context(), ssl.SSLContext)


@pytest.mark.parametrize("key", ["ssl.keystore.location", "ssl.key.location"])
def test_a_private_key_that_others_can_read_is_refused(tmp_path, key):
    store = written(tmp_path / "alice.pem", CLIENT.key_pem() + CLIENT.chain_pem())
    given = {
        "security.protocol": "SSL",
        key: store,
        "ssl.certificate.pem": CLIENT.chain_pem().decode(),
    }
    client_security(given)
    (tmp_path / "alice.pem").chmod(0o644)
    with pytest.raises(UserError, match=r"^everybody can read the private key in .* `chmod 600 "):
        client_security(given)


def test_an_encrypted_key_in_a_pem_file_is_opened_by_its_password(tmp_path):
    path = written(tmp_path / "alice.pem", CLIENT.chain_pem() + CLIENT.key_pem("secret"))
    given = {
        "security.protocol": "SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": path,
    }
    assert is_key_of(client_security({**given, "ssl.key.password": "secret"}).key_pem, CLIENT)
    with pytest.raises(UserError, match=r"^ssl.key.password does not open "):
        client_security({**given, "ssl.key.password": "other"})


def test_librdkafkas_files_of_a_client_certificate_are_read(tmp_path):
    security = client_security(
        {
            "security.protocol": "ssl",
            "ssl.certificate.location": written(tmp_path / "c.pem", CLIENT.chain_pem()),
            "ssl.key.location": written(tmp_path / "k.pem", CLIENT.key_pem()),
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert not security.verifies_host
    assert security.certificate_pem == CLIENT.chain_pem().decode()
    assert is_key_of(security.key_pem, CLIENT)


SSL = {"security.protocol": "SSL"}
SASL = {"security.protocol": "SASL_PLAINTEXT"}
SCRAM = {**SASL, "sasl.mechanism": "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"security.protocol": "TLS"}, "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"sasl.mechanism": "PLAIN"}, "no effect with security.protocol=PLAINTEXT"),
        ({**SSL, "sasl.username": "alice"}, "sasl.username has no effect"),
        ({**SCRAM, "ssl.ca.location": "ca.pem"}, "ssl.ca.location has no effect"),
        (SASL, "sasl.mechanism is not given"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "must be one of PLAIN, SCRAM"),
        (SCRAM, "needs a user"),
        ({**SCRAM, "sasl.jaas.config": "alice"}, "is not valid"),
        ({**SASL, "sasl.mechanism": "PLAIN", "sasl.jaas.config": JAAS}, "which is not for PLAIN"),
        ({**SCRAM, "sasl.jaas.config": JAAS, "sasl.username": "bob"}, "both name a user"),
        ({**SCRAM, "sasl.mechanisms": "PLAIN"}, "contradict each other"),
        ({**SSL, "ssl.ca.location": "/no/such.pem"}, "cannot read /no/such.pem: No such file"),
        ({**SSL, "ssl.ca.pem": "nothing"}, "holds no certificate in PEM form"),
        ({**SSL, "ssl.ca.pem": "x", "ssl.ca.location": "y"}, "as a file and as text"),
        ({**SSL, "ssl.key.pem": "x"}, "needs its private key"),
    ],
)
def test_invalid_properties_are_refused_in_one_line(given, reason):
    with pytest.raises(UserError) as refusal:
        client_security(given)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_jks_file_is_refused_with_the_command_that_converts_it(tmp_path):
    path = written(tmp_path / "trust.jks", b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(UserError, match=r"keytool -importkeystore .*-deststoretype PKCS12"):
        client_security({**SSL, "ssl.truststore.location": path})


def test_a_store_with_another_password_is_refused(tmp_path):
    store = trust_store_pkcs12([AUTHORITY.identity.certificate], "secret")
    path = written(tmp_path / "trust.p12", store)
    with pytest.raises(UserError, match="its password is wrong"):
        client_security(
            {**SSL, "ssl.truststore.location": path, "ssl.truststore.password": "other"}
        )


USUAL = {
    "security.protocol": "SASL_SSL",
    "ssl.ca.location": "ca.pem",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "admin",
    "sasl.password": "secret",
}


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        ({}, USUAL),
        (
            {"sasl.username": "alice", "sasl.password": "p"},
            {**USUAL, "sasl.username": "alice", "sasl.password": "p"},
        ),
        (
            {"sasl.jaas.config": JAAS},
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": "ca.pem",
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": JAAS,
            },
        ),
        ({"security.protocol": "PLAINTEXT"}, {"security.protocol": "PLAINTEXT"}),
    ],
)
def test_given_properties_replace_the_default_login_or_authorities_as_a_whole(given, whole):
    assert completed(given, USUAL) == whole


BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"
NOW_MS = WallMs(1_700_000_000_000)


@pytest.mark.parametrize(
    ("given", "lifetime_s"),
    [
        ({"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="alice";'}, 3_600),
        (
            {
                "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="alice"'
                ' unsecuredLoginLifetimeSeconds="60";'
            },
            60,
        ),
        (
            {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=alice lifeSeconds=60",
            },
            60,
        ),
    ],
)
def test_an_unsecured_token_in_both_clients_words(given, lifetime_s):
    security = client_security({**BEARER, **given})
    assert (
        security.librdkafka_here()
        == security.librdkafka()
        == {
            "security.protocol": "sasl_plaintext",
            "sasl.mechanisms": "OAUTHBEARER",
            "enable.sasl.oauthbearer.unsecure.jwt": "true",
            "sasl.oauthbearer.config": f"principal=alice lifeSeconds={lifetime_s}",
        }
    )
    assert security.token is not None
    token = security.token.token(NOW_MS)
    assert token.ends_at_s == 1_700_000_000 + lifetime_s
    valid = UnsecuredTokens(ClaimRules())(token.text, NOW_MS)
    assert valid == ("alice", 1_000 * token.ends_at_s)
    assert first_message(token).startswith(b"n,,\x01auth=Bearer ey")


def test_a_token_from_a_file_is_read_for_each_login(tmp_path):
    file = tmp_path / "the token"
    security = client_security({**BEARER, URL: file.as_uri()})
    assert security.token is not None
    with pytest.raises(UserError, match=r"cannot read the token in .*: No such file"):
        security.token.token(NOW_MS)
    file.write_text("an.opaque-one\n")
    assert security.token.token(NOW_MS) == ("an.opaque-one", 1_700_000_300)
    unsecured = UnsecuredToken("bob", 60).token(NOW_MS)
    file.write_text(unsecured.text)
    assert security.token.token(NOW_MS) == unsecured
    assert unsecured.text not in repr(security)
    here = security.librdkafka_here()
    assert here["oauth_cb"]("") == unsecured
    with pytest.raises(UserError, match="a token from a file is for this command alone"):
        security.librdkafka()
    for text in ("", "two words", "\x01"):
        file.write_text(text)
        with pytest.raises(UserError, match="holds no token"):
            security.token.token(NOW_MS)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "OAUTHBEARER needs a token: state sasl.oauthbearer.token.endpoint.url=file:///"),
        ({URL: "https://login.example/token"}, "tokens are not asked for at a server here"),
        ({"sasl.oauthbearer.method": "oidc"}, "tokens are not asked for at a server here"),
        ({URL: "file://elsewhere/token"}, "tokens are not asked for at a server here"),
        ({"sasl.username": "alice"}, "sasl.username has no effect with sasl.mechanism=OAUTHBEARER"),
        (
            {URL: "file:///x", "sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="a";'},
            "contradict each other",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} unsecuredLoginListClaim_scope=",a";'},
            "unsecuredLoginListClaim_scope is not known here",
        ),
        ({"enable.sasl.oauthbearer.unsecure.jwt": "true"}, "needs sasl.oauthbearer.config"),
        (
            {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": "principal=a lifeSeconds=soon",
            },
            "must be seconds, not soon",
        ),
        (
            {"sasl.jaas.config": f'{MODULE} unsecuredLoginStringClaim_sub="a b";'},
            "cannot hold spaces",
        ),
    ],
)
def test_a_login_by_token_that_cannot_be_is_said_in_one_line(given, reason):
    with pytest.raises(UserError) as refused:
        client_security({**BEARER, **given})
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_token_properties_are_refused_when_a_password_is_used():
    given = {**USUAL, "security.protocol": "SASL_PLAINTEXT", URL: "file:///x"}
    del given["ssl.ca.location"]
    with pytest.raises(UserError, match=f"{URL} has no effect with sasl.mechanism=SCRAM-SHA-512"):
        client_security(given)
