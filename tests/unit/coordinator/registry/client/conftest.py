"""Clients of the fake registry, and of the real one."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.registry_process import RegistryProcess
from tests.support.fake_registry import FakeClient, FakeTree, store_of


@pytest.fixture(scope="module")
def real_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("registry") / "data") as registry:
        yield registry


@pytest.fixture(params=["fake", "real"])
def new_client(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    """Makes clients of one registry that is empty at first."""
    if request.param == "fake":
        tree = FakeTree()
        yield lambda: FakeClient(tree)
        return
    registry: RegistryProcess = request.getfixturevalue("real_registry")
    admin = registry.client()
    for name in admin.get_children("/"):
        if name != "zookeeper":
            admin.delete(f"/{name}", recursive=True)

    def make() -> Any:
        return registry.client()

    yield make
    registry.close_clients()


@pytest.fixture
def client(new_client: Callable[[], Any]) -> Any:
    client = new_client()
    store_of(client).brokers.prepare()
    return client
