"""The tree and the checks before it: create, delete, set, multi, Stat, against a plain model."""

import struct
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cluster.coordinator.registry.server.acl import OPEN_ACL, AclEntry
from cluster.coordinator.registry.server.node import CONTAINER_OWNER, MAX_TTL_MS, ttl_of, ttl_owner
from cluster.coordinator.registry.server.planning import Caller
from cluster.coordinator.registry.server.replies import StepResult
from cluster.coordinator.registry.server.requests import (
    CheckVersionRequest,
    CreateRequest,
    DeleteContainerRequest,
    DeleteRequest,
    SetAclRequest,
    SetDataRequest,
    Step,
    WriteRequest,
)
from cluster.coordinator.registry.server.transactions import NodeCreated
from cluster.coordinator.registry.server.tree import PERMANENT_PATHS, ZnodeTree
from cluster.coordinator.registry.server.writes import execute, execute_all
from cluster.coordinator.registry.wire.codes import (
    CreateFlag,
    Operation,
    OperationRefused,
    RegistryError,
)
from cluster.model.clocks import WallMs
from tests.support.examples import examples

SESSION = 0x100_0000_0000_0001
CALLER = Caller(SESSION, ())


class Stat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    child_count: int
    pzxid: int


def stat(tree: ZnodeTree, path: str) -> Stat:
    return Stat(*struct.unpack(">qqqqiiiqiiq", tree.get(path).encode_stat()))


def create_request(
    path: str,
    data: bytes | None = b"",
    flag: int = CreateFlag.PERSISTENT,
    ttl_ms: int | None = None,
) -> CreateRequest:
    return CreateRequest(path, data, OPEN_ACL, flag, ttl_ms)


def write(
    tree: ZnodeTree, request: WriteRequest, zxid: int = 1, wall_ms: WallMs = WallMs(1_000)
) -> Any:
    change, _ = execute(tree, Operation.CREATE2, request, CALLER, zxid, wall_ms)
    return change


def refusal(tree: ZnodeTree, request: WriteRequest) -> RegistryError:
    with pytest.raises(OperationRefused) as refused:
        write(tree, request)
    return refused.value.code


def test_a_new_tree_looks_like_zookeepers() -> None:
    tree = ZnodeTree()
    assert len(tree) == 4
    assert list(tree.get("/").children or ()) == ["zookeeper"]
    assert stat(tree, "/") == Stat(0, 0, 0, 0, 0, -1, 0, 0, 0, 1, 0)
    assert stat(tree, "/zookeeper").cversion == -2


def test_create_fills_the_stat_and_touches_the_parent() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a", b"abc"), zxid=5, wall_ms=WallMs(1_000))
    assert stat(tree, "/a") == Stat(5, 5, 1_000, 1_000, 0, 0, 0, 0, 3, 0, 5)
    write(tree, create_request("/a/b"), zxid=6, wall_ms=WallMs(2_000))
    assert stat(tree, "/a") == Stat(5, 5, 1_000, 1_000, 0, 1, 0, 0, 3, 1, 6)
    write(tree, DeleteRequest("/a/b", -1), zxid=7, wall_ms=WallMs(3_000))
    assert stat(tree, "/a") == Stat(5, 5, 1_000, 1_000, 0, 2, 0, 0, 3, 0, 7)


def test_set_data_raises_the_version_and_not_the_ctime() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a", b"abc"), zxid=5, wall_ms=WallMs(1_000))
    write(tree, SetDataRequest("/a", b"abcd", 0), zxid=6, wall_ms=WallMs(2_000))
    assert stat(tree, "/a") == Stat(5, 6, 1_000, 2_000, 1, 0, 0, 0, 4, 0, 5)
    assert refusal(tree, SetDataRequest("/a", b"", 0)) is RegistryError.BAD_VERSION
    assert refusal(tree, SetDataRequest("/b", b"", 0)) is RegistryError.NO_NODE
    write(tree, SetDataRequest("/a", None, -1))
    assert tree.get("/a").data is None
    assert tree.data_bytes == 0


def test_set_acl_raises_only_the_acl_version() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a"))
    readable = (AclEntry(1, "world", "anyone"),)
    write(tree, SetAclRequest("/a", readable, 0), zxid=9)
    assert tree.get("/a").acl == readable
    assert stat(tree, "/a").aversion == 1
    assert stat(tree, "/a").mzxid == 1
    assert refusal(tree, SetDataRequest("/a", b"", -1)) is RegistryError.NO_AUTH
    assert refusal(tree, create_request("/a/b")) is RegistryError.NO_AUTH


def test_sequential_names_count_every_child_ever_made() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/q"))
    flag = CreateFlag.PERSISTENT_SEQUENTIAL
    assert write(tree, create_request("/q/n-", flag=flag)).path == "/q/n-0000000000"
    write(tree, create_request("/q/other"))
    write(tree, DeleteRequest("/q/other", -1))
    assert write(tree, create_request("/q/n-", flag=flag)).path == "/q/n-0000000002"
    assert write(tree, create_request("/q/", flag=flag)).path == "/q/0000000003"


def test_ephemeral_nodes_belong_to_their_session_and_have_no_children() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/e", flag=CreateFlag.EPHEMERAL))
    assert stat(tree, "/e").ephemeral_owner == SESSION
    assert tree.ephemerals_of(SESSION) == ["/e"]
    assert tree.ephemeral_count == 1
    code = refusal(tree, create_request("/e/child"))
    assert code is RegistryError.NO_CHILDREN_FOR_EPHEMERALS
    write(tree, DeleteRequest("/e", -1))
    assert tree.ephemerals_of(SESSION) == []


def test_container_is_removed_after_its_last_child_but_not_before_its_first() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/c", flag=CreateFlag.CONTAINER))
    assert tree.get("/c").ephemeral_owner == CONTAINER_OWNER
    assert stat(tree, "/c").ephemeral_owner == 0, "shown as ZooKeeper does"
    assert tree.removable(WallMs(0)) == []
    write(tree, create_request("/c/child"))
    assert refusal(tree, DeleteContainerRequest("/c")) is RegistryError.NOT_EMPTY
    write(tree, DeleteRequest("/c/child", -1))
    assert tree.removable(WallMs(0)) == ["/c"]
    write(tree, DeleteContainerRequest("/c"))
    assert tree.find("/c") is None


def test_ttl_node_is_removed_when_unchanged_and_childless_for_its_ttl() -> None:
    tree = ZnodeTree()
    flag = CreateFlag.PERSISTENT_WITH_TTL
    write(tree, create_request("/t", flag=flag, ttl_ms=500), wall_ms=WallMs(1_000))
    assert tree.removable(WallMs(1_500)) == []
    assert tree.removable(WallMs(1_501)) == ["/t"]
    write(tree, SetDataRequest("/t", b"x", -1), wall_ms=WallMs(1_400))
    assert tree.removable(WallMs(1_501)) == []
    write(tree, create_request("/t/child"))
    assert tree.removable(WallMs(9_999)) == []
    for ttl_ms in (None, 0, -1, MAX_TTL_MS + 1):
        code = refusal(tree, create_request("/u", flag=flag, ttl_ms=ttl_ms))
        assert code is RegistryError.BAD_ARGUMENTS
    write(tree, create_request("/plain"))
    assert refusal(tree, DeleteContainerRequest("/plain")) is RegistryError.BAD_VERSION


def test_ttl_owner_is_zookeepers_number() -> None:
    assert ttl_owner(1) == struct.unpack(">q", bytes.fromhex("ff00000000000001"))[0]
    assert ttl_of(ttl_owner(MAX_TTL_MS)) == MAX_TTL_MS
    assert ttl_of(SESSION) is None
    assert ttl_of(CONTAINER_OWNER) is None


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        "/a/",
        "//",
        "/a/..",
        "/a\0",
        "/a\n",
        "/\ue000",
        "/a\uffff",
    ],
)
def test_paths_that_cannot_be(path: str) -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a"))
    assert refusal(tree, create_request(path)) is RegistryError.BAD_ARGUMENTS


@pytest.mark.parametrize("path", ["/a//b", "/./a", "/a/./b"])
def test_the_parent_is_looked_for_before_its_path_is_judged(path: str) -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a"))
    assert refusal(tree, create_request(path)) is RegistryError.NO_NODE


@pytest.mark.parametrize("path", ["/.a", "/a..", "/...", "/ä ö", "/<default>"])
def test_paths_that_can_be(path: str) -> None:
    assert write(ZnodeTree(), create_request(path)).path == path


def test_refusals_of_create_and_delete() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a"))
    write(tree, create_request("/a/b"))
    assert refusal(tree, create_request("/a")) is RegistryError.NODE_EXISTS
    assert refusal(tree, create_request("/")) is RegistryError.NODE_EXISTS
    assert refusal(tree, create_request("/x/y")) is RegistryError.NO_NODE
    assert refusal(tree, create_request("/x", flag=7)) is RegistryError.BAD_ARGUMENTS
    assert refusal(tree, DeleteRequest("/a", 1)) is RegistryError.BAD_VERSION
    assert refusal(tree, DeleteRequest("/a", -1)) is RegistryError.NOT_EMPTY
    assert refusal(tree, DeleteRequest("/x", -1)) is RegistryError.NO_NODE
    for path in PERMANENT_PATHS:
        assert refusal(tree, DeleteRequest(path, -1)) is RegistryError.BAD_ARGUMENTS


def test_descendants_are_counted_by_path_not_by_prefix() -> None:
    tree = ZnodeTree()
    for path in ("/a", "/a/b", "/a/b/c", "/ab"):
        write(tree, create_request(path))
    assert tree.descendant_count("/a") == 2
    assert tree.descendant_count("/") == len(tree) - 1


def fingerprint(tree: ZnodeTree) -> dict[str, tuple[object, ...]]:
    return {
        path: (node.data, node.acl, sorted(node.children or ()), node.encode_stat())
        for path, node in tree.items()
    }


def test_failed_multi_changes_nothing_and_reports_each_step() -> None:
    tree = ZnodeTree()
    write(tree, create_request("/a", b"1"))
    write(tree, create_request("/e", flag=CreateFlag.EPHEMERAL))
    before = fingerprint(tree)
    steps = [
        Step(Operation.CREATE, create_request("/b", b"2")),
        Step(Operation.CREATE2, create_request("/b/c-", flag=CreateFlag.EPHEMERAL_SEQUENTIAL)),
        Step(Operation.SET_DATA, SetDataRequest("/a", b"long data", 0)),
        Step(Operation.DELETE, DeleteRequest("/e", -1)),
        Step(Operation.CHECK, CheckVersionRequest("/a", 0)),
        Step(Operation.DELETE, DeleteRequest("/b", -1)),
    ]
    changes, results = execute_all(tree, steps, CALLER, 9, WallMs(9_000))
    assert changes == []
    assert [result.error for result in results] == [
        RegistryError.OK,
        RegistryError.OK,
        RegistryError.OK,
        RegistryError.OK,
        RegistryError.BAD_VERSION,
        RegistryError.RUNTIME_INCONSISTENCY,
    ]
    assert {result.operation for result in results} == {Operation.ERROR}
    assert fingerprint(tree) == before
    assert tree.ephemerals_of(SESSION) == ["/e"]
    assert tree.data_bytes == 1


def test_the_steps_of_a_multi_see_those_before_them() -> None:
    tree = ZnodeTree()
    steps = [
        Step(Operation.CREATE, create_request("/a", b"1")),
        Step(Operation.SET_DATA, SetDataRequest("/a", b"22", 0)),
        Step(Operation.CREATE_CONTAINER, create_request("/a/c", flag=CreateFlag.CONTAINER)),
        Step(Operation.CHECK, CheckVersionRequest("/a", 1)),
    ]
    changes, results = execute_all(tree, steps, CALLER, 9, WallMs(9_000))
    assert len(changes) == 3
    assert [result.operation for result in results] == [
        Operation.CREATE,
        Operation.SET_DATA,
        Operation.CREATE2,
        Operation.CHECK,
    ]
    assert results[3] == StepResult(Operation.CHECK, RegistryError.OK, b"")
    assert stat(tree, "/a").czxid == stat(tree, "/a/c").czxid == 9


NAMES = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/x"])
VERSIONS = st.integers(-1, 3)


class TreeAgainstModel(RuleBasedStateMachine):
    """A dict of path -> (data, version) is what the tree must be."""

    @initialize()
    def start(self) -> None:
        self.tree = ZnodeTree()
        self.model: dict[str, tuple[bytes, int]] = {}
        self.zxid = 0

    def _attempt(self, request: WriteRequest) -> RegistryError:
        self.zxid += 1
        try:
            write(self.tree, request, zxid=self.zxid)
        except OperationRefused as refused:
            return refused.code
        return RegistryError.OK

    def _expect_create(self, path: str) -> RegistryError:
        parent = path.rpartition("/")[0]
        if parent and parent not in self.model:
            return RegistryError.NO_NODE
        return RegistryError.NODE_EXISTS if path in self.model else RegistryError.OK

    def _expect_version(self, path: str, version: int) -> RegistryError:
        if path not in self.model:
            return RegistryError.NO_NODE
        matches = version in (-1, self.model[path][1])
        return RegistryError.OK if matches else RegistryError.BAD_VERSION

    @rule(path=NAMES, data=st.binary(max_size=4))
    def create(self, path: str, data: bytes) -> None:
        expected = self._expect_create(path)
        assert self._attempt(create_request(path, data)) == expected
        if expected is RegistryError.OK:
            self.model[path] = (data, 0)

    @rule(path=NAMES, data=st.binary(max_size=4), version=VERSIONS)
    def set_data(self, path: str, data: bytes, version: int) -> None:
        expected = self._expect_version(path, version)
        assert self._attempt(SetDataRequest(path, data, version)) == expected
        if expected is RegistryError.OK:
            self.model[path] = (data, self.model[path][1] + 1)

    @rule(path=NAMES, version=VERSIONS)
    def delete(self, path: str, version: int) -> None:
        expected = self._expect_version(path, version)
        has_children = any(other.startswith(path + "/") for other in self.model)
        if expected is RegistryError.OK and has_children:
            expected = RegistryError.NOT_EMPTY
        assert self._attempt(DeleteRequest(path, version)) == expected
        if expected is RegistryError.OK:
            del self.model[path]

    @rule(first=NAMES, second=NAMES, third=NAMES)
    def refused_multi(self, first: str, second: str, third: str) -> None:
        before = fingerprint(self.tree)
        steps = [
            Step(Operation.CREATE, create_request(first)),
            Step(Operation.SET_DATA, SetDataRequest(second, b"multi", -1)),
            Step(Operation.DELETE, DeleteRequest(third, -1)),
            Step(Operation.CHECK, CheckVersionRequest("/never", -1)),
        ]
        changes, _ = execute_all(self.tree, steps, CALLER, self.zxid + 1, WallMs(0))
        assert changes == []
        assert fingerprint(self.tree) == before

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        held = {
            path: (node.data, node.version)
            for path, node in self.tree.items()
            if path not in PERMANENT_PATHS
        }
        assert held == self.model
        assert self.tree.data_bytes == sum(len(data) for data, _ in self.model.values())
        for path, node in self.tree.items():
            prefix = path.rstrip("/") + "/"
            children = {
                other[len(prefix) :]
                for other, _ in self.tree.items()
                if other.startswith(prefix) and "/" not in other[len(prefix) :] and other != "/"
            }
            assert set(node.children or ()) == children


TreeAgainstModel.TestCase.settings = examples(60, stateful_step_count=30)
TestTreeAgainstModel = TreeAgainstModel.TestCase


def test_undo_of_one_change_is_exact() -> None:
    tree = ZnodeTree()
    before = fingerprint(tree)
    tree.apply(NodeCreated("/a", b"1", OPEN_ACL, SESSION), 1, WallMs(1))()
    assert fingerprint(tree) == before
    assert tree.ephemeral_count == 0
