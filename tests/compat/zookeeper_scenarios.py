"""What the built-in registry and ZooKeeper 3.8 are both asked, one function per subject.

Left out, because the two differ there and are meant to:

- deleteContainer from a client: 3.8.0 reads its path from the wrong bytes and refuses every one;
  the registry does it for whoever may delete the node.
- checkWatches and removeWatches of types 4 and 5, and several modes of watching one path at once:
  3.8.0 keeps one mode per path, the registry keeps all of them, as ZooKeeper 3.9 does.
- An ACL for an IPv6 address: 3.8.0 knows only IPv4.
- Attaching to a session with a wrong password: ZooKeeper disconnects the owner, the registry only
  refuses the stranger.
- A null path in a create: MARSHALLINGERROR from a null pointer, BADARGUMENTS from the registry.
- createSession (-10) from inside a session, and createTTL of a plain node with TTL -1, which ends
  ZooKeeper's process: the registry refuses both.
"""

import base64
import contextlib
import hashlib
import struct

from tests.compat import zookeeper_wire as z
from tests.compat.zookeeper_stage import Stage
from tests.compat.zookeeper_wire import Closed

TICK_MS = 200


def creating(stage: Stage) -> None:
    """Every kind of create, the Stats they give, and those of the parent."""
    r = stage.root
    stage.do("create", z.CREATE, z.create(f"{r}/a", b"1"))
    stage.do("again", z.CREATE, z.create(f"{r}/a", b"1"))
    stage.do("create2", z.CREATE2, z.create(f"{r}/b", b"22"))
    stage.do("null data", z.CREATE2, z.create(f"{r}/null", None))
    stage.do("get null", z.GET_DATA, z.watchable(f"{r}/null"))
    stage.do("ephemeral", z.CREATE2, z.create(f"{r}/e", b"", z.EPHEMERAL))
    stage.do("child of ephemeral", z.CREATE, z.create(f"{r}/e/x"))
    stage.do("no parent", z.CREATE, z.create(f"{r}/none/x"))
    stage.do("container", z.CREATE_CONTAINER, z.create(f"{r}/c", b"", z.CONTAINER))
    stage.do("container by create", z.CREATE, z.create(f"{r}/c1", b"", z.CONTAINER))
    stage.do("container by create2", z.CREATE2, z.create(f"{r}/c2", b"", z.CONTAINER))
    stage.do("plain by createContainer", z.CREATE_CONTAINER, z.create(f"{r}/c3", b""))
    ttl = z.long(10_000)
    stage.do("ttl", z.CREATE_TTL, z.create(f"{r}/t", b"", z.TTL) + ttl)
    stage.do("ttl sequential", z.CREATE_TTL, z.create(f"{r}/t", b"", z.TTL_SEQUENTIAL) + ttl)
    stage.do("ttl by create", z.CREATE, z.create(f"{r}/t1", b"", z.TTL))
    stage.do("ttl 0", z.CREATE_TTL, z.create(f"{r}/t2", b"", z.TTL) + z.long(0))
    stage.do("ttl -1", z.CREATE_TTL, z.create(f"{r}/t2", b"", z.TTL) + z.long(-1))
    stage.do("ttl max", z.CREATE_TTL, z.create(f"{r}/t3", b"", z.TTL) + z.long(0xFF_FFFF_FFFF))
    stage.do("ttl over", z.CREATE_TTL, z.create(f"{r}/t4", b"", z.TTL) + z.long(1 << 40))
    # With a TTL of -1 the next one would pass ZooKeeper's checks and end its process.
    stage.do("plain by createTTL", z.CREATE_TTL, z.create(f"{r}/t5", b"") + ttl)
    stage.do("flag 7", z.CREATE, z.create(f"{r}/f", b"", 7))
    stage.do("flag -1", z.CREATE, z.create(f"{r}/f", b"", -1))
    for name in ("c", "c1", "c2", "c3", "t", "t1", "t3", "t5", "f"):
        stage.do(f"stat {name}", z.EXISTS, z.watchable(f"{r}/{name}"))
    stage.do("children", z.GET_CHILDREN2, z.watchable(r))
    stage.do("own ephemerals", z.GET_EPHEMERALS, z.text(r))
    stage.do("below", z.GET_ALL_CHILDREN_NUMBER, z.text(r))


def deleting(stage: Stage) -> None:
    """delete, refused and done, and what the parent's Stat says of it."""
    r = stage.root
    for name in ("a", "b", "b/x"):
        stage.do(f"create {name}", z.CREATE, z.create(f"{r}/{name}"))
    stage.do("container", z.CREATE_CONTAINER, z.create(f"{r}/c", b"", z.CONTAINER))
    stage.do("container with child", z.CREATE_CONTAINER, z.create(f"{r}/d", b"", z.CONTAINER))
    stage.do("child", z.CREATE, z.create(f"{r}/d/x"))
    stage.do("ttl", z.CREATE_TTL, z.create(f"{r}/t", b"", z.TTL) + z.long(10_000))
    stage.do("absent", z.DELETE, z.delete(f"{r}/none"))
    stage.do("absent parent", z.DELETE, z.delete(f"{r}/none/x"))
    stage.do("wrong version", z.DELETE, z.delete(f"{r}/a", 1))
    stage.do("not empty", z.DELETE, z.delete(f"{r}/b"))
    stage.do("version below -1", z.DELETE, z.delete(f"{r}/a", -2))
    stage.do("done", z.DELETE, z.delete(f"{r}/a", 0))
    for path in ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config", ""):
        stage.do(f"special {path!r}", z.DELETE, z.delete(path))
        stage.do(f"special {path!r} as container", z.DELETE_CONTAINER, z.text(path))
    for name in ("b/x", "c", "d/x", "t"):
        stage.do(f"{name}", z.DELETE, z.delete(f"{r}/{name}"))
    stage.do("root's stat", z.EXISTS, z.watchable(r))
    stage.do("b's stat", z.EXISTS, z.watchable(f"{r}/b"))


def data(stage: Stage) -> None:
    """setData, getData, exists, check and their versions."""
    r = stage.root
    stage.do("create", z.CREATE, z.create(f"{r}/a", b"0"))
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/a", b"one"))
    stage.do("set at version", z.SET_DATA, z.set_data(f"{r}/a", b"two", 1))
    stage.do("set at old version", z.SET_DATA, z.set_data(f"{r}/a", b"three", 1))
    stage.do("set null", z.SET_DATA, z.set_data(f"{r}/a", None))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/a"))
    stage.do("set absent", z.SET_DATA, z.set_data(f"{r}/none", b""))
    stage.do("get absent", z.GET_DATA, z.watchable(f"{r}/none"))
    stage.do("exists absent", z.EXISTS, z.watchable(f"{r}/none"))
    stage.do("children absent", z.GET_CHILDREN, z.watchable(f"{r}/none"))
    stage.do("children2 absent", z.GET_CHILDREN2, z.watchable(f"{r}/none"))
    stage.do("below absent", z.GET_ALL_CHILDREN_NUMBER, z.text(f"{r}/none"))
    stage.do("version -2", z.SET_DATA, z.set_data(f"{r}/a", b"x", -2))
    stage.do("sync", z.SYNC, z.text(f"{r}/a"))
    stage.do("sync absent", z.SYNC, z.text(f"{r}/none"))
    stage.do("sync nonsense", z.SYNC, z.text("nonsense"))
    stage.do("special node", z.GET_CHILDREN2, z.watchable("/zookeeper"))
    stage.do("config", z.GET_DATA, z.watchable("/zookeeper/config"))
    stage.do("config's acl", z.GET_ACL, z.text("/zookeeper/config"))
    stage.do("config set", z.SET_DATA, z.set_data("/zookeeper/config", b"x"))
    stage.do("quota", z.GET_DATA, z.watchable("/zookeeper/quota"))
    stage.do("ephemerals of none", z.GET_EPHEMERALS, z.text("/"))
    stage.do("whoami", z.WHO_AM_I)
    stage.do("reconfig", z.RECONFIG, z.text("") + z.text("") + z.text("") + z.long(-1))


def checking(stage: Stage) -> None:
    """check outside of a multi, which clients never send."""
    r = stage.root
    stage.do("create", z.CREATE, z.create(f"{r}/a", b"0"))
    stage.do("wrong", z.CHECK, z.delete(f"{r}/a", 7))
    stage.do("absent", z.CHECK, z.delete(f"{r}/none", 0))


def sequences(stage: Stage) -> None:
    """Names of sequential nodes, which count every child ever made."""
    r = stage.root
    stage.do("parent", z.CREATE, z.create(f"{r}/q"))
    for label, name, flags in (
        ("first", "n-", z.SEQUENTIAL),
        ("second", "n-", z.SEQUENTIAL),
        ("other prefix", "m", z.SEQUENTIAL),
        ("ephemeral", "e-", z.EPHEMERAL_SEQUENTIAL),
        ("no name", "", z.SEQUENTIAL),
        ("plain", "plain", 0),
        ("after plain", "n-", z.SEQUENTIAL),
    ):
        stage.do(label, z.CREATE, z.create(f"{r}/q/{name}", b"", flags))
    stage.do("delete", z.DELETE, z.delete(f"{r}/q/plain"))
    stage.do("after delete", z.CREATE2, z.create(f"{r}/q/n-", b"", z.SEQUENTIAL))
    stage.do("the name it would take", z.CREATE, z.create(f"{r}/q/n-0000000009"))
    stage.do("after that", z.CREATE2, z.create(f"{r}/q/n-", b"", z.SEQUENTIAL))
    stage.do("refused", z.CREATE, z.create(f"{r}/q/plain/x/", b"", z.SEQUENTIAL))
    stage.do("children", z.GET_CHILDREN2, z.watchable(f"{r}/q"))


def paths(stage: Stage) -> None:
    """Paths that cannot be, for every kind of request."""
    r = stage.root
    for path in (
        "",
        "relative",
        "//",
        f"{r}/",
        f"{r}//a",
        f"{r}/.",
        f"{r}/..",
        f"{r}/./a",
        f"{r}/../a",
        f"{r}/a\0b",
        f"{r}/a\x01b",
        f"{r}/a\x7fb",
        f"{r}/a\x9fb",
        f"{r}/\uf000",
        f"{r}/\ufff0",
        f"{r}/.a",
        f"{r}/...",
        f"{r}/a b",
        f"{r}/ü\u4e2d",
        f"{r}/\U0001f600",
    ):
        shown = ascii(path)
        stage.do(f"create {shown}", z.CREATE, z.create(path))
        stage.do(f"create sequential {shown}", z.CREATE, z.create(path, b"", z.SEQUENTIAL))
        stage.do(f"set {shown}", z.SET_DATA, z.set_data(path, b""))
        stage.do(f"get {shown}", z.GET_DATA, z.watchable(path))
        stage.do(f"exists {shown}", z.EXISTS, z.watchable(path))
        stage.do(f"children {shown}", z.GET_CHILDREN, z.watchable(path))
        stage.do(f"acl {shown}", z.GET_ACL, z.text(path))
        stage.do(
            f"set acl {shown}", z.SET_ACL, z.text(path) + z.acl_list(z.OPEN_ACL) + z.integer(-1)
        )
        stage.do(f"multi {shown}", z.MULTI, z.multi((z.CHECK, z.delete(path))))
        stage.do(f"delete {shown}", z.DELETE, z.delete(path))


def multis(stage: Stage) -> None:
    """multi done and refused, with every kind of step; multiRead."""
    r = stage.root
    stage.do("empty", z.MULTI, z.multi())
    stage.do(
        "every kind",
        z.MULTI,
        z.multi(
            (z.CREATE, z.create(f"{r}/a", b"1")),
            (z.CREATE2, z.create(f"{r}/b", b"2")),
            (z.CREATE, z.create(f"{r}/a/s-", b"", z.SEQUENTIAL)),
            (z.CREATE, z.create(f"{r}/a/s-", b"", z.SEQUENTIAL)),
            (z.CREATE, z.create(f"{r}/e", b"", z.EPHEMERAL)),
            (z.CREATE_CONTAINER, z.create(f"{r}/c", b"", z.CONTAINER)),
            (z.CREATE_TTL, z.create(f"{r}/t", b"", z.TTL) + z.long(9_000)),
            (z.SET_DATA, z.set_data(f"{r}/a", b"11", 0)),
            (z.SET_DATA, z.set_data(f"{r}/a", b"111", 1)),
            (z.CHECK, z.delete(f"{r}/a", 2)),
            (z.DELETE, z.delete(f"{r}/b")),
        ),
    )
    stage.do(
        "the last is refused",
        z.MULTI,
        z.multi(
            (z.CREATE, z.create(f"{r}/x")),
            (z.SET_DATA, z.set_data(f"{r}/a", b"no")),
            (z.DELETE, z.delete(f"{r}/t")),
            (z.CHECK, z.delete(f"{r}/a", 9)),
        ),
    )
    stage.do(
        "the first is refused",
        z.MULTI,
        z.multi((z.DELETE, z.delete(f"{r}/none")), (z.CREATE, z.create(f"{r}/x"))),
    )
    stage.do(
        "one after a refused one is malformed too",
        z.MULTI,
        z.multi(
            (z.CREATE, z.create(f"{r}/x")),
            (z.DELETE, z.delete(f"{r}/none")),
            (z.CREATE, z.create(f"{r}/x/../y")),
        ),
    )
    stage.do("only checks", z.MULTI, z.multi((z.CHECK, z.delete(f"{r}/a", 2))))
    stage.do("after only checks", z.CREATE2, z.create(f"{r}/after"))
    stage.do(
        "create and delete again",
        z.MULTI,
        z.multi((z.CREATE, z.create(f"{r}/y")), (z.DELETE, z.delete(f"{r}/y"))),
    )
    stage.do("a", z.GET_CHILDREN2, z.watchable(f"{r}/a"))
    stage.do("root", z.GET_CHILDREN2, z.watchable(r))
    stage.do(
        "multiRead",
        z.MULTI_READ,
        z.multi(
            (z.GET_DATA, z.watchable(f"{r}/a")),
            (z.GET_CHILDREN, z.watchable(r)),
            (z.GET_DATA, z.watchable(f"{r}/none")),
            (z.GET_DATA, z.watchable(f"{r}/c")),
        ),
    )
    stage.do("unknown step", z.MULTI, z.multi((99, b"")))
    stage.do("read in multi", z.MULTI, z.multi((z.GET_DATA, z.watchable(f"{r}/a"))))
    stage.do("write in multiRead", z.MULTI_READ, z.multi((z.DELETE, z.delete(f"{r}/a"))))
    stage.do("setACL in multi", z.MULTI, z.multi((z.SET_ACL, b"")))
    stage.do("after all", z.EXISTS, z.watchable(f"{r}/a"))


def refused_writes_take_zxids(stage: Stage) -> None:
    """A refused write counts in the total order; a read does not."""
    r = stage.root
    for _ in range(2):
        stage.do("delete absent", z.DELETE, z.delete(f"{r}/none"))
        stage.do("read", z.EXISTS, z.watchable(r))
        stage.do("ping", z.PING)
        stage.do("sync", z.SYNC, z.text(r))
    stage.do("create", z.CREATE2, z.create(f"{r}/a"))
    stage.do("refused multi", z.MULTI, z.multi((z.DELETE, z.delete(f"{r}/none"))))
    stage.do("create", z.CREATE2, z.create(f"{r}/b"))
    other = stage.client()
    stage.do("a session takes one", z.CREATE2, z.create(f"{r}/c"), by=other)
    stage.do("its end takes one", z.CLOSE_SESSION, by=other)
    stage.do("create", z.CREATE2, z.create(f"{r}/d"))


def watches(stage: Stage) -> None:
    """One-shot watches: which go off, in which order, and once."""
    r, watch = stage.root, {"watch": True}
    stage.do("exists absent", z.EXISTS, z.watchable(f"{r}/a", **watch))
    stage.do("get absent", z.GET_DATA, z.watchable(f"{r}/b", **watch))
    stage.do("children", z.GET_CHILDREN, z.watchable(r, **watch))
    stage.do("create", z.CREATE, z.create(f"{r}/a"))
    stage.do("create what get did not see", z.CREATE, z.create(f"{r}/b"))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/a", **watch))
    stage.do("exists", z.EXISTS, z.watchable(f"{r}/a", **watch))
    stage.do("children of a", z.GET_CHILDREN2, z.watchable(f"{r}/a", **watch))
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/a", b"1"))
    stage.do("set again", z.SET_DATA, z.set_data(f"{r}/a", b"2"))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/a", **watch))
    stage.do("children", z.GET_CHILDREN, z.watchable(r, **watch))
    stage.do("delete", z.DELETE, z.delete(f"{r}/a"))
    stage.do("set acl tells nobody", z.GET_DATA, z.watchable(f"{r}/b", **watch))
    acl = z.text(f"{r}/b") + z.acl_list(z.OPEN_ACL) + z.integer(-1)
    stage.do("set acl", z.SET_ACL, acl)
    stage.do("children of b", z.GET_CHILDREN, z.watchable(f"{r}/b", **watch))
    stage.do("delete b", z.DELETE, z.delete(f"{r}/b"))
    stage.do("exists x", z.EXISTS, z.watchable(f"{r}/x", **watch))
    stage.do("children", z.GET_CHILDREN, z.watchable(r, **watch))
    stage.do(
        "multi",
        z.MULTI,
        z.multi(
            (z.CREATE, z.create(f"{r}/x")),
            (z.SET_DATA, z.set_data(f"{r}/x", b"1")),
            (z.DELETE, z.delete(f"{r}/x")),
        ),
    )
    stage.do("exists y", z.EXISTS, z.watchable(f"{r}/y", **watch))
    stage.do(
        "refused multi tells nobody",
        z.MULTI,
        z.multi((z.CREATE, z.create(f"{r}/y")), (z.DELETE, z.delete(f"{r}/none"))),
    )
    stage.do(
        "multiRead with watches",
        z.MULTI_READ,
        z.multi(
            (z.GET_CHILDREN, z.watchable(r, **watch)),
        ),
    )
    stage.do("create y", z.CREATE, z.create(f"{r}/y"))


def watches_of_others(stage: Stage) -> None:
    """A client gets the event of another client's change before it can read the change."""
    r, reader = stage.root, stage.client()
    stage.do("create", z.CREATE, z.create(f"{r}/a", b"0"))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/a", watch=True), by=reader)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/a", b"1"))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/a"), by=reader)
    stage.do("ephemeral", z.CREATE, z.create(f"{r}/e", b"", z.EPHEMERAL))
    owner = stage.client()
    for name in ("e1", "e2"):
        stage.do(name, z.CREATE, z.create(f"{r}/{name}", b"", z.EPHEMERAL), by=owner)
    stage.do("exists", z.EXISTS, z.watchable(f"{r}/e1", watch=True), by=reader)
    stage.do("children", z.GET_CHILDREN, z.watchable(r, watch=True), by=reader)
    stage.do("close", z.CLOSE_SESSION, by=owner)
    # e1 and e2 go in an order of ZooKeeper's hashing; which comes first decides the events' order.
    kinds = sorted((reader.receive_event(), reader.receive_event()))
    stage.note("events", kinds)
    stage.do("children", z.GET_CHILDREN, z.watchable(r), by=reader)
    try:
        owner.receive_frame()
    except Closed:
        stage.note("the closed session's connection is closed")


def persistent_watches(stage: Stage) -> None:
    """addWatch in both modes; what they hear and how they end."""
    r = stage.root
    stage.do("persistent", z.ADD_WATCH, z.text(f"{r}/p") + z.integer(0))
    stage.do("recursive", z.ADD_WATCH, z.text(f"{r}/r") + z.integer(1))
    stage.do("unknown mode", z.ADD_WATCH, z.text(f"{r}/r") + z.integer(2))
    for top in ("p", "r"):
        stage.do("create", z.CREATE, z.create(f"{r}/{top}"))
        stage.do("set", z.SET_DATA, z.set_data(f"{r}/{top}", b"1"))
        stage.do("child", z.CREATE, z.create(f"{r}/{top}/x"))
        stage.do("set child", z.SET_DATA, z.set_data(f"{r}/{top}/x", b"1"))
        stage.do("grandchild", z.CREATE, z.create(f"{r}/{top}/x/y"))
        stage.do("delete", z.DELETE, z.delete(f"{r}/{top}/x/y"))
        stage.do("delete", z.DELETE, z.delete(f"{r}/{top}/x"))
        stage.do("delete", z.DELETE, z.delete(f"{r}/{top}"))
        stage.do("create again", z.CREATE, z.create(f"{r}/{top}"))
    for name, kind in (("p", 3), ("r", 3), ("none", 3), ("r", 9), ("r", 0)):
        record = z.text(f"{r}/{name}") + z.integer(kind)
        stage.do(f"check {name} {kind}", z.CHECK_WATCHES, record)
    for name in ("p", "r", "none"):
        stage.do(f"remove {name}", z.REMOVE_WATCHES, z.text(f"{r}/{name}") + z.integer(3))
        stage.do("set", z.SET_DATA, z.set_data(f"{r}/{name}", b"2"))
    stage.do("watch everything", z.ADD_WATCH, z.text("/") + z.integer(1))
    stage.do("create", z.CREATE, z.create(f"{r}/z"))
    stage.do("remove", z.REMOVE_WATCHES, z.text("/") + z.integer(3))


def removed_watches(stage: Stage) -> None:
    """checkWatches and removeWatches of one-shot watches, by type."""
    r = stage.root
    stage.do("create", z.CREATE, z.create(f"{r}/a"))

    def leave() -> None:
        stage.do("get", z.GET_DATA, z.watchable(f"{r}/a", watch=True))
        stage.do("children", z.GET_CHILDREN, z.watchable(f"{r}/a", watch=True))

    for kind in (1, 2, 3):
        leave()
        record = z.text(f"{r}/a") + z.integer(kind)
        stage.do(f"check {kind}", z.CHECK_WATCHES, record)
        stage.do(f"remove {kind}", z.REMOVE_WATCHES, record)
        stage.do(f"check {kind}", z.CHECK_WATCHES, record)
        stage.do(f"remove {kind}", z.REMOVE_WATCHES, record)
        stage.do("set", z.SET_DATA, z.set_data(f"{r}/a", b""))
        stage.do("child", z.CREATE, z.create(f"{r}/a/x"))
        stage.do("delete", z.DELETE, z.delete(f"{r}/a/x"))


def watches_set_again(stage: Stage) -> None:
    """setWatches and setWatches2 after a change of connection."""
    r = stage.root
    for name in ("same", "changed", "deleted", "parent", "parent2"):
        stage.do(f"create {name}", z.CREATE, z.create(f"{r}/{name}"))
    seen = stage.main.call(z.SYNC, z.text("/")).zxid
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/changed", b"1"))
    stage.do("delete", z.DELETE, z.delete(f"{r}/deleted"))
    stage.do("child", z.CREATE, z.create(f"{r}/parent/x"))
    stage.do("appears", z.CREATE, z.create(f"{r}/appears"))
    returned = stage.client()
    names = [f"{r}/{name}" for name in ("same", "changed", "deleted")]
    exists = [f"{r}/{name}" for name in ("appears", "still-absent")]
    children = [f"{r}/{name}" for name in ("parent", "parent2", "deleted")]
    record = z.long(seen) + z.texts(*names) + z.texts(*exists) + z.texts(*children)
    stage.do("setWatches", z.SET_WATCHES, record, by=returned)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/same", b"1"), by=returned)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/changed", b"1"), by=returned)
    stage.do("create", z.CREATE, z.create(f"{r}/still-absent"), by=returned)
    stage.do("child", z.CREATE, z.create(f"{r}/parent/y"), by=returned)
    stage.do("child", z.CREATE, z.create(f"{r}/parent2/y"), by=returned)
    third = stage.client()
    record += z.texts(f"{r}/same") + z.texts(f"{r}/parent")
    stage.do("setWatches2", z.SET_WATCHES2, record, by=third)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/same", b"1"), by=third)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/parent/x", b"1"), by=third)


def digest(user: str, password: str) -> str:
    """The id of an ACL entry of scheme `digest`."""
    hashed = hashlib.sha1(f"{user}:{password}".encode()).digest()
    return f"{user}:{base64.b64encode(hashed).decode()}"


def auth(scheme: str, credentials: bytes) -> bytes:
    """AuthPacket."""
    return z.integer(0) + z.text(scheme) + z.buffer(credentials)


def acls(stage: Stage) -> None:
    """What an ACL allows to whom, for every kind of request."""
    r, alice, other = stage.root, stage.client(), stage.client()
    stage.do("auth", z.AUTH, auth("digest", b"alice:secret"), by=alice)
    stage.do("auth again", z.AUTH, auth("digest", b"alice:secret"), by=alice)
    stage.do("second identity", z.AUTH, auth("digest", b"bob:secret"), by=alice)
    stage.do("whoami", z.WHO_AM_I, by=alice)
    own = ((31, "digest", digest("alice", "secret")),)
    stage.do("create", z.CREATE, z.create(f"{r}/own", b"1", 0, own), by=alice)
    stage.do("creator all", z.CREATE, z.create(f"{r}/auth", b"1", 0, ((31, "auth", ""),)), by=alice)
    stage.do("get acl", z.GET_ACL, z.text(f"{r}/auth"), by=alice)
    readable = ((1, "world", "anyone"), (31, "auth", ""))
    stage.do("readable", z.CREATE, z.create(f"{r}/readable", b"1", 0, readable), by=alice)
    stage.do("child", z.CREATE, z.create(f"{r}/own/x"), by=alice)
    for client in (other, alice):
        for name in ("own", "readable"):
            path = f"{r}/{name}"
            stage.do(f"get {name}", z.GET_DATA, z.watchable(path), by=client)
            stage.do(f"exists {name}", z.EXISTS, z.watchable(path), by=client)
            stage.do(f"children {name}", z.GET_CHILDREN2, z.watchable(path), by=client)
            stage.do(f"below {name}", z.GET_ALL_CHILDREN_NUMBER, z.text(path), by=client)
            stage.do(f"set {name}", z.SET_DATA, z.set_data(path, b"2"), by=client)
            stage.do(f"child {name}", z.CREATE, z.create(f"{path}/y"), by=client)
            stage.do(f"child again {name}", z.CREATE, z.create(f"{path}/y"), by=client)
            stage.do(f"delete child {name}", z.DELETE, z.delete(f"{path}/y"), by=client)
            stage.do(f"delete none {name}", z.DELETE, z.delete(f"{path}/none"), by=client)
            stage.do(f"acl {name}", z.GET_ACL, z.text(path), by=client)
            check = z.multi((z.CHECK, z.delete(path, -1)))
            stage.do(f"check {name}", z.MULTI, check, by=client)
            wanted = z.text(path) + z.acl_list(own) + z.integer(0)
            stage.do(f"set acl {name}", z.SET_ACL, wanted, by=client)
            stage.do(f"set acl at old version {name}", z.SET_ACL, wanted, by=client)
    stage.do("container", z.CREATE_CONTAINER, z.create(f"{r}/own/c", b"", z.CONTAINER), by=alice)
    stage.do("watch of another", z.ADD_WATCH, z.text(f"{r}/own") + z.integer(1), by=other)
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/own", b"3"), by=alice)
    stage.do("delete", z.DELETE, z.delete(f"{r}/own/c"), by=alice)
    stage.do("delete", z.DELETE, z.delete(f"{r}/own/x"), by=alice)
    stage.do("is it told", z.PING, by=other)
    stage.do("watch of another", z.ADD_WATCH, z.text(f"{r}/readable") + z.integer(0), by=other)
    stage.do("child", z.CREATE, z.create(f"{r}/readable/x", b"", 0, own), by=alice)
    stage.do("is it told", z.PING, by=other)
    stage.do(
        "multi",
        z.MULTI,
        z.multi((z.DELETE, z.delete(f"{r}/readable/x")), (z.DELETE, z.delete(f"{r}/readable"))),
        by=alice,
    )
    stage.do("is it told", z.PING, by=other)
    stage.do("read-only by ip", z.CREATE, z.create(f"{r}/ip", b"", 0, ((1, "ip", "127.0.0.1"),)))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/ip"))
    stage.do("set", z.SET_DATA, z.set_data(f"{r}/ip", b""))
    far = ((31, "ip", "10.0.0.0/8"),)
    stage.do("ip of others", z.CREATE, z.create(f"{r}/far", b"", 0, far))
    stage.do("get", z.GET_DATA, z.watchable(f"{r}/far"))


def unusable_acls(stage: Stage) -> None:
    """ACLs that are refused, or quietly made usable."""
    r = stage.root
    for number, acl in enumerate(
        (
            (),
            ((31, "world", "someone"),),
            ((31, "world", ""),),
            ((31, "nonsense", "x"),),
            ((31, "digest", "nocolon"),),
            ((31, "digest", "a:b:c"),),
            ((31, "digest", "a:b"),),
            ((31, "auth", ""),),
            ((31, "ip", "1.2.3"),),
            ((31, "ip", "1.2.3.4/33"),),
            ((31, "ip", "1.2.3.4/8"),),
            ((0, "world", "anyone"),),
            ((64, "world", "anyone"),),
            ((31, "world", "anyone"), (31, "world", "anyone")),
            ((1, "world", "anyone"), (31, "auth", "")),
        )
    ):
        path = f"{r}/n{number}"
        stage.do(f"create {acl}", z.CREATE2, z.create(path, b"", 0, acl))
        stage.do("acl", z.GET_ACL, z.text(path))
        stage.do("get", z.GET_DATA, z.watchable(path))
    stage.do("set acl", z.SET_ACL, z.text(f"{r}/none") + z.acl_list(()) + z.integer(-1))
    stage.do("set acl", z.SET_ACL, z.text(f"{r}/none") + z.acl_list(z.OPEN_ACL) + z.integer(-1))
    null = z.text(f"{r}/null") + z.buffer(b"") + z.integer(-1) + z.integer(0)
    stage.do("null acl", z.CREATE, null)


def authentications(stage: Stage) -> None:
    """What auth says to credentials it cannot use."""
    for scheme, credentials in (
        ("ip", b""),
        ("ip", b"1.2.3.4"),
        ("world", b"anyone"),
        ("digest", b"nocolon"),
        ("digest", b"a:b:c"),
        ("digest", b":"),
        ("digest", b""),
        ("nonsense", b"x"),
        ("", b""),
        ("auth", b""),
    ):
        client = stage.client()
        stage.do(f"auth {scheme} {credentials!r}", z.AUTH, auth(scheme, credentials), by=client)
        stage.do("whoami", z.WHO_AM_I, by=client)


def sessions(stage: Stage) -> None:
    """Timeouts granted; a session taken to another connection, with right and wrong passwords."""
    r = stage.root
    for wished in (-1, 0, 1, 399, 400, 1_000, 4_000, 4_001, 2**31 - 1):
        client = stage.client(timeout_ms=wished)
        stage.note("wished", wished, "granted", client.granted_timeout_ms)
    old = stage.bare_client()
    stage.note("client of 3.3:", len(old.connect(read_only=None)))
    stage.note("client of 3.4:", len(stage.bare_client().connect(read_only=False)))
    stage.note("read-only client:", stage.bare_client().connect(read_only=True)[-1:])
    owner = stage.client()
    stage.do("ephemeral", z.CREATE2, z.create(f"{r}/e", b"", z.EPHEMERAL), by=owner)
    for session_id, password in (
        (owner.session_id, b"x" * 16),
        (owner.session_id, b""),
        (owner.session_id + 12345, owner.password),
    ):
        wrong = stage.bare_client()
        response = wrong.connect(session_id=session_id, password=password)
        stage.note("refused:", response[:16], response[16:20], response[20:])
        try:
            wrong.call(z.PING)
        except Closed:
            stage.note("closed")
    moved = stage.bare_client()
    moved.connect(session_id=owner.session_id, password=owner.password, timeout_ms=2_000)
    stage.note("moved", stage.know(moved), moved.granted_timeout_ms)
    stage.do("the old connection", z.PING, by=owner)
    stage.do("is the owner", z.EXISTS, z.watchable(f"{r}/e"), by=moved)
    stage.do("its ephemerals", z.GET_EPHEMERALS, z.text("/"), by=moved)
    stage.do("no prefix", z.GET_EPHEMERALS, z.text(""), by=moved)
    stage.do("other prefix", z.GET_EPHEMERALS, z.text("/none"), by=moved)
    stage.do("close", z.CLOSE_SESSION, by=moved)
    stage.do("gone", z.EXISTS, z.watchable(f"{r}/e"))
    again = stage.bare_client()
    response = again.connect(session_id=owner.session_id, password=owner.password)
    stage.note("closed session:", response)


def expiry(stage: Stage) -> None:
    """A session without heartbeats expires with its ephemeral nodes, and cannot be resumed."""
    r = stage.root
    owner = stage.client(timeout_ms=2 * TICK_MS)
    stage.do("ephemeral", z.CREATE, z.create(f"{r}/e", b"", z.EPHEMERAL), by=owner)
    stage.do("exists", z.EXISTS, z.watchable(f"{r}/e", watch=True))
    stage.do("children", z.GET_CHILDREN, z.watchable(r, watch=True))
    owner.drop()
    stage.expect_events(2)
    stage.do("children", z.GET_CHILDREN2, z.watchable(r))
    again = stage.bare_client()
    stage.note(again.connect(session_id=owner.session_id, password=owner.password))
    silent = stage.client(timeout_ms=2 * TICK_MS)
    try:
        silent.receive_frame()
    except Closed:
        stage.note("the connection of an expired session is closed")


def malformed(stage: Stage) -> None:
    """Requests that are cut off or unknown, and frames that cannot be."""
    r = stage.root
    for operation, record in (
        (z.CREATE, z.create(f"{r}/a")[:-3]),
        (z.CREATE, b""),
        (z.CREATE_TTL, z.create(f"{r}/a", b"", z.TTL)),
        (z.DELETE, z.text(f"{r}/a")),
        (z.SET_DATA, z.text(f"{r}/a")),
        (z.SET_ACL, z.text(f"{r}/a")),
        (z.GET_DATA, z.text(f"{r}/a")),
        (z.EXISTS, b""),
        (z.GET_CHILDREN, b"\0"),
        (z.GET_ACL, b""),
        (z.SYNC, b""),
        (z.MULTI, z.multi((z.CREATE, b""))),
        (z.MULTI, z.multi()[:-2]),
        (z.MULTI_READ, z.multi()[:-2]),
        (z.SET_WATCHES, z.long(0)),
        (z.ADD_WATCH, z.text(r)),
        (z.REMOVE_WATCHES, b""),
        (z.GET_EPHEMERALS, b""),
        (z.CREATE, z.integer(-2) + z.create(f"{r}/a")[4:]),
        (z.CREATE, z.text(f"{r}/a") + z.integer(1 << 30)),
        (z.DELETE, z.delete(f"{r}/none") + b"more than needed"),
    ):
        stage.do(f"{operation} {record[:8]!r}", operation, record)
    for operation in (0, 10, 23, 99, 108, -2, 1_000):
        stage.do(f"operation {operation}", operation, z.text(r), by=stage.client())
    for sent in (
        z.integer(-1),
        z.integer(-2),
        z.integer(0x7FFF_FFFF),
        z.integer(0xF_FFFF + 10_000),
        z.integer(0),
        z.integer(3) + b"abc",
    ):
        client = stage.client()
        client.send_bytes(sent)
        client.send(z.EXISTS, z.watchable(r))
        try:
            while client.receive(z.EXISTS) is None:
                pass
            stage.note(sent, "answered")
        except Closed:
            stage.note(sent, "closed")
    for sent in (
        z.integer(-1),
        z.integer(0),
        z.integer(2) + b"ab",
        z.integer(16) + bytes(16),
        struct.pack(">iiqiq", 44, 0, 1 << 60, 1_000, 0) + z.buffer(bytes(16)),
        struct.pack(">iiqiq", 44, 7, 0, 1_000, 0) + z.buffer(bytes(16)),
        struct.pack(">iiqiq", 49, 0, 0, 1_000, 0) + z.buffer(bytes(16)) + b"\0more",
    ):
        bare = stage.bare_client().open()
        bare.send_bytes(sent)
        try:
            stage.note("first frame", sent[:8], "answered", len(bare.receive_frame()))
        except Closed:
            stage.note("first frame", sent[:8], "closed")
        except TimeoutError:
            stage.note("first frame", sent[:8], "waits")


def after_the_end(stage: Stage) -> None:
    """Requests that stand behind closeSession in the same connection."""
    client = stage.client()
    client.send(z.CREATE, z.create(f"{stage.root}/a"))
    client.send(z.CLOSE_SESSION)
    client.send(z.CREATE, z.create(f"{stage.root}/b"))
    with contextlib.suppress(Closed):
        while True:  # ZooKeeper may or may not still answer the last one, with an error
            client.receive(z.CREATE)
    reply = stage.main.call(z.GET_CHILDREN, z.watchable(stage.root))
    stage.note("children", reply.fields)


def before_a_restart(stage: Stage) -> None:
    """Every kind of write, done and refused, of which a restarted server must know."""
    r = stage.root
    for name in ("a", "parent", "set-again", "gone", "multi"):
        stage.do(f"create {name}", z.CREATE, z.create(f"{r}/{name}", b"1"))
    for _ in range(3):
        stage.do("sequential", z.CREATE, z.create(f"{r}/parent/s-", b"", z.SEQUENTIAL))
    stage.do("one goes", z.DELETE, z.delete(f"{r}/parent/s-0000000001"))
    stage.do("own", z.CREATE2, z.create(f"{r}/parent/e-", b"", z.EPHEMERAL_SEQUENTIAL))
    stage.do("container", z.CREATE_CONTAINER, z.create(f"{r}/c", b"", z.CONTAINER))
    stage.do("ttl", z.CREATE_TTL, z.create(f"{r}/t", b"", z.TTL) + z.long(1_000_000))
    stage.do("null", z.CREATE, z.create(f"{r}/null", None))
    for number in range(3):
        stage.do("set", z.SET_DATA, z.set_data(f"{r}/set-again", bytes(number)))
    acl = z.text(f"{r}/a") + z.acl_list(((31, "world", "anyone"), (1, "ip", "10.0.0.0/8")))
    for _ in range(2):
        stage.do("set acl", z.SET_ACL, acl + z.integer(-1))
    steps = (
        (z.SET_DATA, z.set_data(f"{r}/multi", b"2")),
        (z.CREATE, z.create(f"{r}/multi/x", b"", z.SEQUENTIAL)),
        (z.DELETE, z.delete(f"{r}/gone")),
        (z.CREATE2, z.create(f"{r}/gone", b"again")),
    )
    stage.do("multi", z.MULTI, z.multi(*steps))
    stage.do("refused multi", z.MULTI, z.multi(*steps, (z.CHECK, z.delete(f"{r}/none", 0))))
    stage.do("refused", z.CREATE, z.create(f"{r}/none/x"))


def after_a_restart(stage: Stage) -> None:
    """Stats, counters, ACLs, ephemeral nodes and watches as they were; zxids go on."""
    r = stage.root
    stage.come_back()
    names = ("", "/a", "/parent", "/set-again", "/gone", "/multi", "/c", "/t", "/null")
    for name in names:
        stage.do(f"get {name}", z.GET_DATA, z.watchable(r + name))
        stage.do(f"acl {name}", z.GET_ACL, z.text(r + name))
    for name in ("", "/parent", "/multi"):
        reply = stage.main.call(z.GET_CHILDREN, z.watchable(r + name))
        stage.note(f"children {name}", sorted(reply.fields[0]))
    stage.do("own ephemerals", z.GET_EPHEMERALS, z.text("/"))
    seen = stage.main.call(z.SYNC, z.text("/")).zxid
    other = stage.client()
    stage.do("unseen", z.SET_DATA, z.set_data(f"{r}/a", b"unseen"), by=other)
    record = z.long(seen) + z.texts(f"{r}/a", f"{r}/multi") + z.texts() + z.texts(f"{r}/parent")
    stage.do("setWatches", z.SET_WATCHES, record)
    stage.do("sequential", z.CREATE, z.create(f"{r}/parent/s-", b"", z.SEQUENTIAL))
    stage.do("sequential", z.CREATE, z.create(f"{r}/multi/x", b"", z.SEQUENTIAL))
    stage.do("seen", z.SET_DATA, z.set_data(f"{r}/multi", b"3"), by=other)
    stage.expect_events(1)
    stage.do("at its version", z.SET_DATA, z.set_data(f"{r}/set-again", b"", 3))
    stage.do("parent", z.EXISTS, z.watchable(f"{r}/parent"))
    stage.do("end", z.CLOSE_SESSION)
    stage.do("parent without its ephemeral", z.EXISTS, z.watchable(f"{r}/parent"), by=other)


SCENARIOS = (
    creating,
    deleting,
    data,
    checking,
    sequences,
    paths,
    multis,
    refused_writes_take_zxids,
    watches,
    watches_of_others,
    persistent_watches,
    removed_watches,
    watches_set_again,
    acls,
    unusable_acls,
    authentications,
    sessions,
    expiry,
    malformed,
    after_the_end,
)
