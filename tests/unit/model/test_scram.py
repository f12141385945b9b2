"""SCRAM against the examples of its RFCs, and against itself."""

import base64
import hashlib
import hmac
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.model.scram import (
    DEFAULT_ITERATIONS,
    MECHANISMS,
    CredentialForm,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramServer,
    credential_of,
    credential_text,
    form_of,
    forms_in_use,
    made_up_credential,
    parse_client_first,
    parse_credential,
    salted_password,
)
from cluster.model.security import SaslMechanism

SHA_256 = SaslMechanism.SCRAM_SHA_256
_RFC_7677_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
_RFC_7677_CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)


def _rfc_7677_server() -> ScramServer:
    first = parse_client_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    credential = credential_of(SHA_256, "pencil", _RFC_7677_SALT, 4096)
    return ScramServer(SHA_256, first, credential, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")


def test_server_reproduces_the_exchange_of_rfc_7677() -> None:
    server = _rfc_7677_server()
    assert server.first_message == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    final = server.final_message(_RFC_7677_CLIENT_FINAL)
    assert final == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_client_reproduces_the_exchange_of_rfc_7677() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.first_message() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.final_message(_rfc_7677_server().first_message) == _RFC_7677_CLIENT_FINAL
    client.check_server_final(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")
    with pytest.raises(ScramError, match="did not prove"):
        client.check_server_final(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


_names = st.text(st.characters(min_codepoint=1, max_codepoint=0x7F), min_size=1, max_size=12)


@given(st.sampled_from(MECHANISMS), _names, st.text(max_size=12), st.text(max_size=12))
def test_server_accepts_only_the_right_password(
    mechanism: SaslMechanism, name: str, password: str, tried: str
) -> None:
    credential = credential_of(mechanism, password, b"salt", DEFAULT_ITERATIONS)
    client = ScramClient(mechanism, name, tried, "abc")
    first = parse_client_first(client.first_message())
    assert first.name == name
    server = ScramServer(mechanism, first, credential, "def")
    proof = client.final_message(server.first_message)
    if tried == password:
        client.check_server_final(server.final_message(proof))
    else:
        with pytest.raises(ScramError, match="invalid client credentials"):
            server.final_message(proof)


def test_the_final_nonce_of_old_librdkafka_is_accepted() -> None:
    # librdkafka before 2.6.1 sent its own nonce, then the one that it had been sent.
    server = _rfc_7677_server()
    said = f"n=user,r=rOprNGfwEbeRWgbNEkqO,{server.first_message.decode()}"
    nonce = said.rpartition("r=")[2].partition(",")[0]
    unproved = f"c=biws,r=rOprNGfwEbeRWgbNEkqO{nonce}"
    salted = salted_password(SHA_256, "pencil", _RFC_7677_SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    signature = hmac.digest(stored_key, f"{said},{unproved}".encode(), "sha256")
    proof = base64.b64encode(bytes(map(operator.xor, client_key, signature)))
    assert server.final_message(f"{unproved},p=".encode() + proof).startswith(b"v=")


def test_server_refuses_a_replayed_proof() -> None:
    first = parse_client_first(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    credential = credential_of(SHA_256, "pencil", _RFC_7677_SALT, 4096)
    later = ScramServer(SHA_256, first, credential, "another nonce")
    with pytest.raises(ScramError, match="nonce"):
        later.final_message(_RFC_7677_CLIENT_FINAL)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"y,,n=user,r=x",
        b"p=tls-unique,,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=user,r=",
        b"n,,n=us\xc3\xa9r,r=x",
        b"n,,n=user,r=x,y",
    ],
)
def test_other_first_messages_are_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        parse_client_first(message)


@given(st.binary(max_size=80))
def test_garbage_raises_only_scram_errors(message: bytes) -> None:
    server = _rfc_7677_server()
    with pytest.raises(ScramError):
        server.final_message(message)
    client = ScramClient(SHA_256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    with pytest.raises(ScramError):
        client.final_message(message)
    with pytest.raises(ScramError):
        client.check_server_final(message)


def test_first_message_contains_the_user() -> None:
    first = parse_client_first(b"n,a=a=2Cb,n=a=2Cb=3D2C,r=x,tokenauth=true,other=1")
    assert (first.name, first.authorization_id) == ("a,b=2C", "a,b")
    assert first.has_token
    assert first.extensions["other"] == "1"
    assert not parse_client_first(b"n,,n=user,r=x").has_token


def test_too_few_iterations_are_refused_by_the_client() -> None:
    client = ScramClient(SHA_256, "user", "pencil", "abc")
    with pytest.raises(ScramError, match="4095 iterations"):
        client.final_message(b"r=abcdef,s=c2FsdA==,i=4095")


@given(st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), st.integers(1, 1 << 31)))
def test_a_stored_credential_is_read_as_it_was(credential: ScramCredential) -> None:
    assert parse_credential(credential_text(credential)) == credential


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=,stored_key=,server_key=",
        "salt=,stored_key=,server_key=,iterations=x",
        "salt=,stored_key=,server_key=,iterations=0",
        "salt=?,stored_key=,server_key=,iterations=4096",
        "salt=,stored_key=,server_key=,iterations=4096,more=1",
    ],
)
def test_parse_credential_raises_for_other_texts(text: str) -> None:
    with pytest.raises(ValueError, match="a SCRAM credential has"):
        parse_credential(text)


def test_an_unknown_user_has_the_same_salt_each_time() -> None:
    one = made_up_credential(SHA_256, b"secret", "nobody")
    assert one == made_up_credential(SHA_256, b"secret", "nobody")
    assert one.salt != made_up_credential(SHA_256, b"secret", "someone").salt
    assert one.salt != made_up_credential(SHA_256, b"another", "nobody").salt
    assert "salt" not in repr(one)


KAFKA_SALT = b"1dh1l5gwxnbx1zkbb3o8gv7ubv"


@pytest.mark.parametrize(
    ("salt", "salt_bytes"),
    [
        (KAFKA_SALT, None),
        (b"zzzzzzzzzzzzzzzzzzzzzzzzzz", 26),  # above 130 bits
        (b"short", 5),
        (bytes(64), 64),
        (b"", 0),
    ],
)
def test_the_form_of_a_credential_is_its_iterations_and_its_salts(
    salt: bytes, salt_bytes: int | None
) -> None:
    credential = credential_of(SHA_256, "secret", salt, 8192)
    assert form_of(credential) == (8192, salt_bytes)
    made = made_up_credential(SHA_256, b"secret", "nobody", forms_in_use([credential]))
    assert form_of(made) == form_of(credential)


def test_forms_of_unknown_users_are_as_frequent_as_those_of_users() -> None:
    forms = ((CredentialForm(4096, 26), 3), (CredentialForm(8192, None), 1))
    names = [f"user-{number}" for number in range(2_000)]

    def made(secret: bytes, of: Any) -> list[CredentialForm]:
        return [form_of(made_up_credential(SHA_256, secret, name, of)) for name in names]

    first = made(b"secret", forms)
    assert 0.7 < first.count(CredentialForm(4096, 26)) / len(names) < 0.8
    more = ((CredentialForm(4096, 26), 4), (CredentialForm(8192, None), 1))
    changed = sum(old != new for old, new in zip(first, made(b"secret", more), strict=True))
    assert changed < 0.1 * len(names)  # and not half of them
    assert made(b"another", forms) != first


def test_forms_in_use_are_bounded() -> None:
    many = [credential_of(SHA_256, "secret", bytes(n), 4096) for n in range(40)]
    weak = credential_of(SHA_256, "secret", bytes(50), 4095)
    forms = forms_in_use([*many, many[7], weak, weak])
    assert len(forms) == 32
    assert forms[0] == (CredentialForm(4096, 7), 2)
    assert all(form.iterations == 4096 for form, _ in forms)
