"""Users of certificates are named as Java and Kafka's own classes name them."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from cluster.model.principal_rules import NoRuleApplies, PrincipalRules
from cluster.model.x500_names import rfc2253_name
from cluster.runtime.certificates import CertificateAuthority, name_of
from tests.compat.kafka_process import run_program

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

Attribute = x509.NameAttribute
CN, O, OU, C = (  # noqa: E741  # as they are written
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.COUNTRY_NAME,
)


def one_each(*attributes: x509.NameAttribute) -> x509.Name:
    return x509.Name(attributes)


SUBJECTS = [
    one_each(Attribute(CN, "alice")),
    one_each(Attribute(C, "DE"), Attribute(O, "Milena"), Attribute(CN, "alice")),
    one_each(Attribute(O, "Comma, Inc."), Attribute(CN, 'quote " plus + back \\ slash')),
    one_each(Attribute(CN, "<a> = #b; c")),
    one_each(Attribute(CN, "#leading hash")),
    one_each(Attribute(CN, " leading space")),
    one_each(Attribute(CN, "trailing space ")),
    one_each(Attribute(CN, "  two   ,  ")),
    one_each(Attribute(CN, " ")),
    one_each(Attribute(CN, "Jürgen Müller")),
    one_each(Attribute(CN, "名前 🙂")),
    one_each(Attribute(CN, "tab\tnewline\nreturn\r")),
    one_each(Attribute(CN, "null\0byte")),
    one_each(Attribute(NameOID.EMAIL_ADDRESS, "a@b.example"), Attribute(CN, "mail")),
    one_each(Attribute(NameOID.SERIAL_NUMBER, "12345"), Attribute(CN, "serial")),
    one_each(Attribute(NameOID.DOMAIN_COMPONENT, "example"), Attribute(NameOID.USER_ID, "u1")),
    one_each(
        Attribute(NameOID.STATE_OR_PROVINCE_NAME, "Bavaria"),
        Attribute(NameOID.LOCALITY_NAME, "Munich"),
        Attribute(NameOID.STREET_ADDRESS, "Some Street 1"),
        Attribute(NameOID.TITLE, "Dr."),
        Attribute(NameOID.SURNAME, "Smith"),
    ),
    one_each(Attribute(OU, "a"), Attribute(OU, "b"), Attribute(OU, "c")),
    one_each(Attribute(CN, "printable", _type=_ASN1Type.PrintableString)),
    one_each(Attribute(CN, "ia5", _type=_ASN1Type.IA5String)),
    one_each(Attribute(CN, "wide", _type=_ASN1Type.BMPString)),
    one_each(Attribute(x509.ObjectIdentifier("1.2.840.113549.1.9.8"), "unstructured")),
    one_each(Attribute(x509.ObjectIdentifier("2.999.1"), "its own")),
    x509.Name(
        [
            x509.RelativeDistinguishedName([Attribute(C, "DE")]),
            x509.RelativeDistinguishedName([Attribute(CN, "multi"), Attribute(OU, "valued")]),
        ]
    ),
]


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def answers(lines: list[str]) -> list[str | None]:
    """What Java says; None where it refuses."""
    output = run_program("CertificateNames", stdin="\n".join(lines)).splitlines()
    return [None if line == "refused" else base64.b64decode(line[1:]).decode() for line in output]


def test_subjects_are_named_as_java_names_them():
    now = datetime.now(UTC)
    authority = CertificateAuthority.make(name_of("CA"), now)
    # Java refuses a certificate with neither a subject nor another name.
    certificates = [
        authority.issue_server(subject, ["client.example"], now).certificate for subject in SUBJECTS
    ]
    ours = [rfc2253_name(each.subject.public_bytes()) for each in certificates]
    ders = [each.public_bytes(serialization.Encoding.DER) for each in certificates]
    assert ours == answers([f"name {base64.b64encode(der).decode()}" for der in ders])


NAMES = [
    "CN=Duke,OU=ServiceUsers,O=Org,C=US",
    "CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US",
    "cn=JDoe,ou=Admins",
    "",
]
RULES = [
    "DEFAULT",
    "",
    " DEFAULT , DEFAULT ",
    "default",
    "DEFAULTS",
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
    r"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
    r"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/U",
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
    r"RULE:^CN=(.*?), *OU=(.*?)$/$2\/$1/,DEFAULT",
    r"RULE:^CN=(.*?),.*$/a\,b\$1\\$1/",
    r"RULE:^CN=(.*?),.*$/$1$9/",
    r"RULE:^CN=(.*?),.*$/$8$9/",
    r"RULE:^CN=(.*?),.*$/$12/",
    r"RULE:^CN=(.*?),.*$/$0/",
    r"RULE:^CN=.*$/$1/",
    r"RULE:.*/x/",
    r"RULE:.*/",
    r"RULE:.*//",
    r"RULE:.*/x/LU",
    r"RULE:.*/x/l",
    r"RULE:(/x/",
    r"RULE:^CN=(?<who>.*?),.*$/${who}/",
    r"RULE:^CN=(?<who>.*?),.*$/${nobody}/",
    r"RULE:^CN=(.*?),.*$/$/",
    r"RULE:^CN=(.*?),.*$/$1 $x/",
    r"RULE:^(CN|cn)=([^,]*)(,ZZ=(.*))?.*$/$2-$4/",
    r"RULE:^nobody$/x/, RULE:^cn=(.*),ou=(.*)$/$2:$1/U , DEFAULT",
    r"RULE:^CN=a,b=(.*)$/$1/",
    r"junk, DEFAULT",
]


def ours_for(rules: str, name: str) -> str | None:
    try:
        return PrincipalRules(rules).user_of(name)
    except (ValueError, NoRuleApplies):
        return None


def test_rules_map_names_as_kafka_maps_them():
    cases = [(rules, name) for rules in RULES for name in NAMES]
    ours = [ours_for(rules, name) for rules, name in cases]
    theirs = answers([f"map {encoded(rules)} {encoded(name)}" for rules, name in cases])
    assert list(zip(cases, ours, strict=True)) == list(zip(cases, theirs, strict=True))
    assert sum(each is None for each in theirs) in range(20, len(cases) - 20)
