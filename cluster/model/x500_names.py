"""The name in a certificate as Java writes it: `X500Principal.getName()` (RFC 2253). Pure.

Kafka uses it as the user of a TLS client. The relative names come in reverse order; attributes
without a keyword in RFC 2253 are written as their number and the hex of their DER.
"""

from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_WHITE: Final = " \r"
_SEQUENCE: Final = 0x30
_SET: Final = 0x31
_OBJECT_IDENTIFIER: Final = 0x06
_VERSION: Final = 0xA0
_STRINGS: Final = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C})
"""UTF8, Printable, T61, IA5, General, BMP and UniversalString."""


def rfc2253_name(name: bytes) -> str:
    """Takes the DER of a Name. Raises ValueError if it is malformed."""
    relative_names = [
        "+".join(_attribute(attribute) for attribute in _parts(relative_name, _SET))
        for relative_name in _parts(name, _SEQUENCE)
    ]
    return ",".join(reversed(relative_names))


def subject_name(certificate: bytes) -> str:
    """The name of a certificate's subject, given as DER. Raises ValueError if it is malformed."""
    fields = _parts(_parts(certificate, _SEQUENCE)[0], _SEQUENCE)
    # version (when not 1), serialNumber, signature, issuer, validity, subject
    index = 5 if fields and fields[0][0] == _VERSION else 4
    if len(fields) <= index:
        raise ValueError("a certificate has no subject")
    return rfc2253_name(fields[index])


def _attribute(attribute: bytes) -> str:
    parts = _parts(attribute, _SEQUENCE)
    if len(parts) != 2:
        raise ValueError("an attribute of a name has not two parts")
    identifier, value = parts
    tag, content = _element(identifier)[:2]
    if tag != _OBJECT_IDENTIFIER:
        raise ValueError("an attribute of a name has no object identifier")
    number = _dotted(content)
    keyword = _KEYWORDS.get(number)
    value_tag, value_content = _element(value)[:2]
    if keyword is None or value_tag not in _STRINGS:
        return f"{number if keyword is None else keyword}=#{value.hex()}"
    return f"{keyword}={_escaped(value_content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    escaped = "".join(
        f"\\{each}" if each in _ESCAPED else "\\00" if each == "\0" else each for each in text
    )
    stripped = escaped.lstrip(_WHITE)
    leading = len(escaped) - len(stripped)
    kept = stripped.rstrip(_WHITE)
    trailing = stripped[len(kept) :]
    before = "".join(f"\\{each}" for each in escaped[:leading])
    after = "".join(f"\\{each}" for each in trailing)
    return f"{before}{kept}{after}"


def _dotted(content: bytes) -> str:
    arcs: list[int] = []
    value = 0
    for byte in content:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    if not arcs:
        raise ValueError("an object identifier is empty")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def _parts(der: bytes, tag: int) -> list[bytes]:
    """The elements of a SEQUENCE or SET, each with its tag and length."""
    found, content, size = _element(der)
    if found != tag or size != len(der):
        raise ValueError("a name is not in DER")
    parts: list[bytes] = []
    while content:
        size = _element(content)[2]
        parts.append(content[:size])
        content = content[size:]
    return parts


def _element(der: bytes) -> tuple[int, bytes, int]:
    """The tag, content and whole size of the first element."""
    if len(der) < 2:
        raise ValueError("an element of DER is cut off")
    size, position = der[1], 2
    if size & 0x80:
        position += size & 0x7F
        size = int.from_bytes(der[2:position], "big")
    if position + size > len(der):
        raise ValueError("an element of DER is cut off")
    return der[0], der[position : position + size], position + size
