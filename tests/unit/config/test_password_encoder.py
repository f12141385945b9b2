"""Encrypted passwords of Kafka's PasswordEncoder are decoded, and both directions agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.password_encoder import EncoderOptions, PasswordEncoder
from tests.support.examples import examples

CBC = EncoderOptions("", "AES/CBC/PKCS5Padding", 128, 1024)
GCM = EncoderOptions("PBKDF2WithHmacSHA256", "AES/GCM/NoPadding", 256, 1024)
ENCODER = PasswordEncoder("the-secret", CBC)

# Of org.apache.kafka.security.PasswordEncoder in kafka-server-common 3.9.1, with this secret.
BY_KAFKA = [
    (
        "initializationVector:c2RYKRVdmZoYDpMvb7ziqA==,keyLength:128,salt:mKoDMyoq2N7p3UbVjC0HRpBuY"
        "QA1BSxUWpAVmHIuKsKaVy3tnWmeKdYycnobKGowZvxhUB0T8ez+TlTs8Aee+TJN10Ild5oQ1Q0x+Nzpl1H+//CzptZ"
        "+AKwuKJBOJF8qjZOh4fHVlKjCMm4ALFeBraSEgi2iQDVtpSUqehuNlrSBjWs4O5lzVWN0Twu5NTbiEOwJB+YUKzp29"
        "dVe+lzTipQRdSpFmLL2hWs/mXZQgkBR8tC+4TzhdRMSylyjkZGnGX/sZYSpTkrK2KReH4usFCc0GljfeZMdDxu880p"
        "AmcS6nwSMZyXM6cPlF5H3f2XdRFFXl4cgyp0L6WqvIlpnkA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512"
        ",cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLength:8,encryptedPassword:e"
        "/wQY1W/OzWFicaMCGBoVQ=="
    ),
    (
        "initializationVector:TPwmJzCX+EdBGUdXjWx7dw==,keyLength:256,salt:dHhJFrHVafEGWwwgtabxURJ8j"
        "9E3+KGlAepMXlRfCCCHwXJkRFuW3x668M3xiZYdKwOaBwKYY7macz59JcUtd3pwBuG0y5obHWgjW0bx5ulHkmfqHF6"
        "dvPGEwgjkZnV7+Olf+GAnh3ajkRnqZJVBFbtrvuZgW1FMMUbx5iqGlnhQi/rTKlH6L5LgBpySgh5Jx7Xkeg3+9XGP3"
        "IptZ7uKU2wGY2qSTlb1z1kqpOojG1OGFNhpmG9wwa/mHHsva57GRUVyCMF0TcChM2AHJ3R1faafuKYNHQEW2eOZgHm"
        "HFkZzqIPQOyEPT0r9JZQ4hH/aDL3zFmD5kdfaKlr6f+3SqA==,keyFactoryAlgorithm:PBKDF2WithHmacSHA1,c"
        "ipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1024,passwordLength:8,encryptedPassword:MPU"
        "zFYK4FW5hQwUm5g6Ujg=="
    ),
    (
        "initializationVector:iVuWyf+klLrMOZ5f,keyLength:128,salt:y6yFUHwW86RoCH1X95PWKnkLJpodbcKtD"
        "DKjPZCDhS1zXwkwb93JGJgVEOAOYEaElHu5FUy2y9Fw1a2c0EZy0SeinnLw3UfeWnSUhenyNmdpaJ9E6oWyealtB4U"
        "OUMFg/HYn1M59ttE5nopfWEFQlsEZMsLsg8luK1tQEY+wFTyjsnuct5Ta5WXfRJms7vz/KlSJkjzOigSSCJTZSSX0r"
        "7xoA9kzysaFCoszghM9CkvHVBGsNt4WZHcMEXo4/PyF6Ck9TKo5kRMhej2NHWrTEkO2R26dEPAp1Ndr2oSDYgwh5Vt"
        "VBn+BQr4oGBzVSHveOctUjcNp3zBJ0ZqF8ZVnHQ==,keyFactoryAlgorithm:PBKDF2WithHmacSHA256,cipherA"
        "lgorithm:AES/GCM/NoPadding,authenticationTagLength:128,iterations:4096,passwordLength:8,en"
        "cryptedPassword:WfyIsUgw74davaCkXghURfvw7w2cYgSEyjM="
    ),
]


@pytest.mark.parametrize("text", BY_KAFKA, ids=["CBC", "CBC 256, SHA1", "GCM, SHA256"])
def test_password_encrypted_by_kafka_is_decoded(text):
    assert ENCODER.decoded(text) == "pässwörd"


@pytest.mark.parametrize("options", [CBC, GCM])
def test_a_password_is_encrypted_with_a_salt_of_its_own(options):
    encoder = PasswordEncoder("the-secret", options)
    one, other = encoder.encoded("hunter2"), encoder.encoded("hunter2")
    assert one != other
    assert "hunter2" not in one
    assert encoder.decoded(one) == encoder.decoded(other) == "hunter2"
    fields = dict(part.split(":") for part in one.split(","))
    assert fields.keys() - {"authenticationTagLength"} == {
        *("keyFactoryAlgorithm", "cipherAlgorithm", "keyLength", "iterations", "salt"),
        *("initializationVector", "passwordLength", "encryptedPassword"),
    }


@examples(20)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_password_is_read_back(password):
    assert ENCODER.decoded(ENCODER.encoded(password)) == password


@pytest.mark.parametrize("options", [CBC, GCM])
def test_another_secret_cannot_decode(options):
    stored = PasswordEncoder("the-secret", options).encoded("hunter2")
    with pytest.raises(ValueError, match="it was not encrypted with this secret"):
        PasswordEncoder("another", options).decoded(stored)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "keyLength:128",
        BY_KAFKA[0].replace("keyLength:128", "keyLength:99"),
        BY_KAFKA[0].replace("iterations:4096", "iterations:99999999999"),
        BY_KAFKA[0].replace("passwordLength:8", "passwordLength:9"),
        BY_KAFKA[0].replace("AES/CBC/PKCS5Padding", "DES/CBC/PKCS5Padding"),
        BY_KAFKA[0].replace("SHA512", "SHA3"),
        BY_KAFKA[0].replace("encryptedPassword:", "encryptedPassword:AA"),
        BY_KAFKA[2].replace("encryptedPassword:", "encryptedPassword:AAAA"),
    ],
)
def test_any_other_text_is_refused(text):
    with pytest.raises(ValueError, match="it was not encrypted with this secret"):
        ENCODER.decoded(text)
