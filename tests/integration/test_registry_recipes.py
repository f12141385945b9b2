"""kazoo's recipes work on the registry: they lean on every promise of the protocol at once."""

import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from kazoo.client import KazooClient
from kazoo.recipe.barrier import DoubleBarrier
from kazoo.recipe.cache import TreeCache, TreeEvent

from tests.integration.registry_process import DEADLINE_SECONDS, RegistryProcess, wait_until


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with RegistryProcess(tmp_path_factory.mktemp("recipes") / "registry") as process:
        yield process


@pytest.fixture(scope="module")
def clients(registry: RegistryProcess) -> list[KazooClient]:
    return [registry.client() for _ in range(3)]


def all_at_once(clients: list[KazooClient], work: Callable[[KazooClient], None]) -> None:
    workers = [threading.Thread(target=work, args=(client,)) for client in clients]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(DEADLINE_SECONDS)
        assert not worker.is_alive()


def test_kazoos_counter_counts_each_increment(clients: list[KazooClient]) -> None:
    def count(client: KazooClient) -> None:
        counter = client.Counter("/counter")
        for _ in range(10):
            counter += 1

    all_at_once(clients, count)
    assert clients[0].Counter("/counter").value == 30


def test_kazoos_barrier_releases_waiting_clients(clients: list[KazooClient]) -> None:
    barrier = clients[0].Barrier("/barrier")
    barrier.create()
    assert not clients[1].Barrier("/barrier").wait(0.05)
    passed: list[bool] = []
    waiting = threading.Thread(
        target=lambda: passed.append(clients[1].Barrier("/barrier").wait(DEADLINE_SECONDS))
    )
    waiting.start()
    barrier.remove()
    waiting.join(DEADLINE_SECONDS)
    assert passed == [True]


def test_kazoos_double_barrier_synchronizes_entry_and_exit(clients: list[KazooClient]) -> None:
    came: list[int] = []
    went: list[int] = []
    # Kazoo's recipe hangs, with any server, if one leaves while another has not looked yet.
    all_are_inside = threading.Barrier(len(clients))

    def meet(client: KazooClient) -> None:
        barrier = DoubleBarrier(client, "/double", len(clients))
        came.append(1)
        barrier.enter()
        assert len(came) == len(clients), "nobody enters before all have come"
        all_are_inside.wait(DEADLINE_SECONDS)
        went.append(1)
        barrier.leave()
        assert len(went) == len(clients), "nobody is out before all leave"

    all_at_once(clients, meet)
    assert len(went) == len(clients)


def test_kazoos_queues_hand_out_each_item_once(clients: list[KazooClient]) -> None:
    queue = clients[0].Queue("/queue")
    for number in range(6):
        queue.put(str(number).encode(), priority=100 - number)
    assert [clients[1].Queue("/queue").get() for _ in range(6)] == [
        b"5",
        b"4",
        b"3",
        b"2",
        b"1",
        b"0",
    ]
    locking = clients[0].LockingQueue("/locking")
    locking.put_all([b"a", b"b"])
    other = clients[1].LockingQueue("/locking")
    assert other.get(DEADLINE_SECONDS) == b"a"
    assert other.consume()
    assert other.get(DEADLINE_SECONDS) == b"b"
    assert other.consume()


def test_kazoos_parties_list_their_members(clients: list[KazooClient]) -> None:
    parties = [client.Party("/party", str(one)) for one, client in enumerate(clients)]
    for party in parties:
        party.join()
    assert sorted(parties[0]) == ["0", "1", "2"]
    parties[1].leave()
    assert sorted(parties[0]) == ["0", "2"]


def test_kazoos_read_write_locks_and_semaphores_admit_the_right_clients(
    clients: list[KazooClient],
) -> None:
    first, second = (client.ReadLock("/rw", "r") for client in clients[:2])
    assert first.acquire(timeout=DEADLINE_SECONDS)
    assert second.acquire(timeout=DEADLINE_SECONDS), "readers share"
    writer = clients[2].WriteLock("/rw", "w")
    assert not writer.acquire(blocking=False)
    first.release()
    second.release()
    assert writer.acquire(timeout=DEADLINE_SECONDS)
    writer.release()
    semaphores = [client.Semaphore("/semaphore", max_leases=2) for client in clients]
    assert semaphores[0].acquire(timeout=DEADLINE_SECONDS)
    assert semaphores[1].acquire(timeout=DEADLINE_SECONDS)
    assert not semaphores[2].acquire(blocking=False)
    semaphores[0].release()
    assert semaphores[2].acquire(timeout=DEADLINE_SECONDS)
    for semaphore in semaphores[1:]:
        semaphore.release()


def test_kazoos_leases_are_held_by_one_client(clients: list[KazooClient]) -> None:
    assert clients[0].NonBlockingLease("/lease", timedelta(seconds=60), "one")
    assert not clients[1].NonBlockingLease("/lease", timedelta(seconds=60), "two")


def test_kazoos_tree_cache_follows_every_change(clients: list[KazooClient]) -> None:
    events: list[tuple[int, str | None]] = []
    cache = TreeCache(clients[0], "/tree")

    def on_event(event: TreeEvent) -> None:
        events.append((event.event_type, getattr(event.event_data, "path", None)))

    cache.listen(on_event)
    cache.start()
    clients[1].create("/tree/a/b", b"1", makepath=True)
    wait_until(lambda: cache.get_data("/tree/a/b") is not None, "the new znode")
    clients[1].set("/tree/a/b", b"2")
    wait_until(lambda: cache.get_data("/tree/a/b").data == b"2", "its new data")
    clients[1].delete("/tree/a/b")
    wait_until(lambda: cache.get_data("/tree/a/b") is None, "its end")
    wait_until(lambda: (TreeEvent.NODE_REMOVED, "/tree/a/b") in events, "the event")
    cache.close()


def test_kazoos_partitioner_divides_the_set(clients: list[KazooClient]) -> None:
    partitioners = [
        client.SetPartitioner("/partitioner", set(range(6)), identifier=str(one), time_boundary=0.1)
        for one, client in enumerate(clients)
    ]

    def settle(client: KazooClient) -> None:
        own = partitioners[clients.index(client)]
        wait_until(lambda: own.acquired or _go_on(own), "its part")

    all_at_once(clients, settle)
    wait_until(
        lambda: sorted(part for one in partitioners for part in _parts(one)) == list(range(6)),
        "all parts to be given",
    )
    for one in partitioners:
        one.finish()


def _go_on(partitioner: object) -> bool:
    if partitioner.release:  # type: ignore[attr-defined]
        partitioner.release_set()  # type: ignore[attr-defined]
    elif partitioner.allocating:  # type: ignore[attr-defined]
        partitioner.wait_for_acquire(0.2)  # type: ignore[attr-defined]
    return False


def _parts(partitioner: object) -> list[int]:
    if partitioner.acquired:  # type: ignore[attr-defined]
        return list(partitioner)  # type: ignore[call-overload]
    _go_on(partitioner)
    return []
