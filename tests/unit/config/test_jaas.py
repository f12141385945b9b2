"""JAAS texts are accepted like in Kafka's JaasConfig; others are refused in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.config.jaas import LOGIN_MODULES, LoginModule, login_module, parse_jaas, plain_users
from cluster.config.setting import SettingError
from cluster.config.settings import broker_settings
from cluster.model.security import SaslMechanism

PLAIN = LOGIN_MODULES[SaslMechanism.PLAIN]


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ("a.B REQUIRED ;", {}),
        ('a.B required user_alice="s e;c=r" ;', {"user_alice": "s e;c=r"}),
        ("a.B required x='it is \"so\"';", {"x": 'it is "so"'}),
        ("a.B sufficient x=word.1-2 y=$z;", {"x": "word.1-2", "y": "$z"}),
        (r'a.B required x="\"\\\n\101\60\x";', {"x": '"\\\nA0x'}),
        ('a.B optional\n  // who\n  /* and\n what */ x="1"\n;\n', {"x": "1"}),
        ('a.B requisite "a key"="1";', {"a key": "1"}),
        ('a.B required x="1" x="2";', {"x": "2"}),
        ('a.B required x="";', {"x": ""}),
        ('a.B required x="pässwörd ☃";', {"x": "pässwörd ☃"}),
        ('a.B required user_zoë="1";', {"user_zoë": "1"}),
    ],
)
def test_a_login_module_is_read(text, options):
    assert parse_jaas(text) == LoginModule("a.B", options)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it names no login module"),
        ("// nothing", "it names no login module"),
        ("; a", "begin with the name of a login module"),
        ("a.B", "after a.B must stand required"),
        ("a.B always;", "after a.B must stand required"),
        ("a.B required", "its end must be a semicolon"),
        ('a.B required x="secret"', "its end must be a semicolon"),
        ("a.B required x;", "the option x needs a value"),
        ("a.B required x=;", "the option x needs a value"),
        ("a.B required x=12;", "the option x needs a value: write it in quotes"),
        ('a.B required x "secret";', "the option x needs a value"),
        ('a.B required ="secret";', "options must be written as name=value"),
        ('a.B required x="secret;', "the option x needs a value"),
        ('a.B required x="secret\n";', "the option x needs a value"),
        ("a.B required; c.D required;", "more than one login module"),
    ],
)
def test_a_text_with_a_mistake_is_refused_in_one_line_without_its_secrets(text, reason):
    with pytest.raises(ValueError, match=reason) as refused:
        parse_jaas(text)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


def quoted(value: str) -> str:
    return (
        '"' + "".join(f"\\{ord(each):03o}" if each in '\r\n"\\' else each for each in value) + '"'
    )


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        max_size=4,
    )
)
def test_options_of_any_text_are_read_back(options):
    text = " ".join(f"{quoted(key)}={quoted(value)}" for key, value in options.items())
    assert parse_jaas(f"a.B required {text};") == LoginModule("a.B", options)


@given(st.text(st.sampled_from("aB.=;\"' \\\n/*1-"), max_size=20))
def test_any_other_text_is_read_or_refused(text):
    try:
        parse_jaas(f"a.B required {text}")
    except ValueError as refused:
        assert "\n" not in str(refused)  # noqa: PT017 - texts that are read raise nothing


def test_a_mechanism_of_a_listener_has_a_login_module_of_its_own():
    settings = broker_settings(
        {
            "listener.name.a.plain.sasl.jaas.config": f'{PLAIN} required user_ann="1" user_="2"'
            ' username="admin" password="x";'
        }
    )
    module = login_module(settings, "A", SaslMechanism.PLAIN)
    assert module is not None
    assert plain_users(module) == {"ann": "1", "": "2"}
    assert login_module(settings, "B", SaslMechanism.PLAIN) is None
    assert login_module(settings, "A", SaslMechanism.SCRAM_SHA_256) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.B required;", "it is for PLAIN, whose login module is org.apache.kafka"),
        (f'{PLAIN} required x="s3cret"', "its end must be a semicolon"),
    ],
)
def test_error_names_the_key(text, reason):
    key = "listener.name.a.plain.sasl.jaas.config"
    settings = broker_settings({key: text})
    with pytest.raises(SettingError, match=reason) as refused:
        login_module(settings, "A", SaslMechanism.PLAIN)
    assert refused.value.name == key
    assert str(refused.value).startswith(f"{key} is not valid: ")
    assert "s3cret" not in str(refused.value)
