"""Access control lists: identities, schemes, permissions."""

import pytest

from cluster.coordinator.registry.server.acl import (
    ALL_PERMISSIONS,
    OPEN_ACL,
    AclEntry,
    Identity,
    digest_identity,
    encode_acl,
    read_acl,
    require_permission,
    resolve_acl,
)
from cluster.coordinator.registry.wire.codes import OperationRefused, Permission, RegistryError
from cluster.coordinator.registry.wire.jute import RecordReader

ALICE = Identity("digest", "alice:xrfbMAFDUk/VS13XdCGqYBuGd3o=")
LOCAL = Identity("ip", "127.0.0.1")


def test_the_digest_is_zookeepers() -> None:
    super_identity = digest_identity(b"super:test")
    assert super_identity == Identity("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
    assert digest_identity(b"nobody").id.startswith("nobody:")


def test_auth_stands_for_what_was_proved() -> None:
    wish = (AclEntry(ALL_PERMISSIONS, "auth", ""),)
    assert resolve_acl(wish, (LOCAL, ALICE)) == (AclEntry(ALL_PERMISSIONS, *ALICE),)
    with pytest.raises(OperationRefused) as refused:
        resolve_acl(wish, (LOCAL,))
    assert refused.value.code is RegistryError.INVALID_ACL


@pytest.mark.parametrize(
    "acl",
    [
        (),
        (AclEntry(1, "world", "someone"),),
        (AclEntry(1, "digest", "nocolon"),),
        (AclEntry(1, "ip", "300.0.0.1"),),
        (AclEntry(1, "magic", "x"),),
    ],
)
def test_invalid_acls_are_refused(acl: tuple[AclEntry, ...]) -> None:
    with pytest.raises(OperationRefused) as refused:
        resolve_acl(acl, (LOCAL, ALICE))
    assert refused.value.code is RegistryError.INVALID_ACL


@pytest.mark.parametrize(
    ("acl", "identities", "is_granted"),
    [
        (OPEN_ACL, (), True),
        ((AclEntry(1, "world", "anyone"),), (), True),
        ((AclEntry(2, "world", "anyone"),), (), False),
        ((AclEntry(1, *ALICE),), (ALICE,), True),
        ((AclEntry(1, *ALICE),), (LOCAL,), False),
        ((AclEntry(1, "ip", "127.0.0.0/8"),), (LOCAL,), True),
        ((AclEntry(1, "ip", "10.0.0.0/8"),), (LOCAL,), False),
        ((AclEntry(2, *ALICE), AclEntry(1, "world", "anyone")), (ALICE,), True),
    ],
)
def test_permissions(
    acl: tuple[AclEntry, ...], identities: tuple[Identity, ...], is_granted: bool
) -> None:
    if is_granted:
        require_permission(acl, Permission.READ, identities)
    else:
        with pytest.raises(OperationRefused):
            require_permission(acl, Permission.READ, identities)


def test_acls_are_decoded_as_encoded_and_the_open_one_is_shared() -> None:
    acl = (AclEntry(3, *ALICE), AclEntry(1, "world", "anyone"))
    assert read_acl(RecordReader(encode_acl(acl))) == acl
    assert read_acl(RecordReader(encode_acl(OPEN_ACL))) is OPEN_ACL
