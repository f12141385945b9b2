"""ZooKeeper's own command line prints the same on the built-in registry as on a real one."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.zookeeper_server import CLI, HOST, ZooKeeperProcess, require_zookeeper
from tests.integration.registry_process import RegistryProcess

pytestmark = [pytest.mark.compat, pytest.mark.beyond_pypi]

COMMANDS = """
create /a one
create /a again
create -s /a/s- x
create -e /e
create -e /e/x
create -c /c
create -t 5000 /t
ls /
ls -s /a
ls -R /a
get /a
get -s /a
stat /a
set /a two
set -v 9 /a x
set -s /a three
get /none
ls /none
stat /none
delete /a
delete /none
delete -v 9 /a/s-0000000000
deleteall /a
getAcl /c
addauth digest u:p
setAcl /c auth::cdrwa
getAcl -s /c
getEphemerals
getAllChildrenNumber /
whoami
sync /
get -w /c
set /c x
stat -w /none
create /none
addWatch -m PERSISTENT /none
set /none 1
removewatches /none
setquota -n 5 /none
listquota /none
create /none/x abc
listquota /none
stat /zookeeper/quota/none/zookeeper_stats
delquota /none
config
reconfig -remove 3
create /bad/
create bad
quit
"""


def run(port: int) -> str:
    """What zkCli prints for the commands, without times and its own version.

    Nor its own end, which it prints or not, as its threads happen to run.
    """
    done = subprocess.run(
        [str(CLI), "-server", f"{HOST}:{port}"],
        input=COMMANDS,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,  # it ends as its last command did
    )
    printed = re.sub(r"(?m)^(Connecting to|SLF4J:).*\n", "", done.stdout)
    printed = re.sub(r"\nWATCHER::\n\nWatchedEvent state:Closed .*\n", "", printed)
    return re.sub(r"(?m)^([cm]time = ).*$", r"\1", printed)


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeperProcess]:
    require_zookeeper()
    with ZooKeeperProcess(tmp_path / "zookeeper", tick_time_ms=2_000) as process:
        yield process


def test_zkcli_works_on_the_registry(zookeeper: ZooKeeperProcess, tmp_path: Path) -> None:
    with RegistryProcess(tmp_path / "registry", tick_time_ms=2_000) as registry:
        ours = run(registry.port)
        assert "Created /a\n" in ours
        assert sorted(ours.splitlines()) == sorted(run(zookeeper.port).splitlines())
        assert registry.log() == ""
