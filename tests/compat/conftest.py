"""Imports kafka-python, which reads resources in a deprecated way, without the warning, and has the
fixtures of tests that look at pages in a browser.
"""

import warnings
from collections.abc import Iterator

import pytest

from tests.compat.axe import axe_core
from tests.compat.dashboard_scene import page_of, watched_cluster
from tests.compat.web_browser import WebPage, web_page
from tests.support.running_cluster import Cluster

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401 - only for its effect on later imports


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebPage]:
    with web_page(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture(scope="module")
def watched(page: WebPage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two brokers under load, of this module's own. After `page`, which may skip."""
    with watched_cluster(tmp_path_factory.mktemp("dashboard")) as running:
        yield running


@pytest.fixture
def url(cluster: Cluster) -> str:
    """The address of the page of the module's cluster."""
    return page_of(cluster)


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core."""
    return axe_core()
