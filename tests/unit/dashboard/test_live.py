"""One reading a second for all watchers: none without them, only the newest for slow ones."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest

from cluster.dashboard.live import PERIOD_MAX_S, WATCHERS_MAX, LiveFeed, TooMany, period_s
from cluster.dashboard.live_differences import Update
from cluster.dashboard.shared_reading import SharedReading
from tests.support.waiting import DEADLINE_S


class Counted:
    """Readings that contain the number of earlier ones."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> Update:
        self.count += 1
        return Update(str(self.count))


def number(event: str) -> int:
    return int(event.removeprefix("data: "))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not condition():
            await asyncio.sleep(0)


async def close(*streams: AsyncIterator[str]) -> None:
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]


def test_many_watchers_cost_one_reading() -> None:
    async def scene() -> None:
        read = Counted()
        feed = LiveFeed(read, period_s=3_600)
        streams = [feed.watch() for _ in range(20)]
        assert read.count == 0
        events = [await anext(stream) for stream in streams]
        assert events == ["data: 1\n\n"] * 20
        assert read.count == 1
        await close(*streams)

    asyncio.run(scene())


def test_reading_stops_when_the_last_watcher_has_gone() -> None:
    async def scene() -> None:
        read = Counted()
        feed = LiveFeed(read, period_s=0)
        stream = feed.watch()
        await anext(stream)
        await close(stream)
        assert feed.watcher_count == 0
        before = read.count
        for _ in range(50):
            await asyncio.sleep(0)
        assert read.count <= before + 1  # one may have been in progress
        again = feed.watch()
        assert number(await anext(again)) > before
        await close(again)

    asyncio.run(scene())


def test_a_slow_watcher_gets_the_newest_reading_only() -> None:
    async def scene() -> None:
        read = Counted()
        feed = LiveFeed(read, period_s=0)
        slow = feed.watch()
        assert number(await anext(slow)) >= 1
        await until(lambda: read.count >= 50)
        assert number(await anext(slow)) >= 49
        await close(slow)

    asyncio.run(scene())


def test_only_watchers_that_missed_a_reading_get_all_rows() -> None:
    async def scene() -> None:
        read = Counted()
        may_read = threading.Semaphore(1)

        def reading() -> Update:
            assert may_read.acquire(timeout=DEADLINE_S)
            number = read().changes
            return Update(f"changes {number}", {"reading": int(number)})

        feed = LiveFeed(reading, period_s=0)
        quick, slow = feed.watch(), feed.watch()
        for stream in (quick, slow):
            assert await anext(stream) == 'data: {"reading":1}\n\n'
        for number in (2, 3):
            may_read.release()
            assert await anext(quick) == f"data: changes {number}\n\n"
        assert await anext(slow) == 'data: {"reading":3}\n\n'
        late = feed.watch()
        assert await anext(late) == 'data: {"reading":3}\n\n'
        may_read.release()
        for stream in (quick, slow, late):
            assert await anext(stream) == "data: changes 4\n\n"
        may_read.release(100)
        await close(quick, slow, late)

    asyncio.run(scene())


def test_watchers_beyond_the_bound_are_refused() -> None:
    async def scene() -> None:
        feed = LiveFeed(Counted(), period_s=3_600)
        streams = [feed.watch() for _ in range(WATCHERS_MAX)]
        for stream in streams:
            await anext(stream)
        with pytest.raises(TooMany):
            await anext(feed.watch())
        await close(streams.pop())
        another = feed.watch()
        assert number(await anext(another)) == 1
        await close(another, *streams)

    asyncio.run(scene())


def test_streams_end_when_the_feed_is_closed() -> None:
    async def scene() -> None:
        feed = LiveFeed(Counted(), period_s=3_600)
        stream = feed.watch()
        await anext(stream)

        async def rest() -> list[str]:
            return [event async for event in stream]

        waiting = asyncio.create_task(rest())
        await asyncio.sleep(0)
        feed.close()
        async with asyncio.timeout(DEADLINE_S):
            await waiting
        assert feed.watcher_count == 0
        with pytest.raises(TooMany):
            await anext(feed.watch())

    asyncio.run(scene())


def test_those_who_ask_meanwhile_share_one_reading() -> None:
    async def scene() -> None:
        may_end = threading.Event()
        read = Counted()

        def slowly() -> dict[str, str]:
            assert may_end.wait(DEADLINE_S)
            return {"count": read().changes}

        shared = SharedReading(slowly, period_s=3_600)
        asking = [asyncio.create_task(shared.get()) for _ in range(20)]
        await asyncio.sleep(0)
        may_end.set()
        assert await asyncio.gather(*asking) == [{"count": "1"}] * 20
        assert await shared.get() == {"count": "1"}

    asyncio.run(scene())


def test_an_old_reading_and_a_failure_are_not_kept() -> None:
    async def scene() -> None:
        read = Counted()

        def failing_first() -> dict[str, str]:
            if read().changes == "1":
                raise ValueError("the first time")
            return {"count": str(read.count)}

        shared = SharedReading(failing_first, period_s=0)
        with pytest.raises(ValueError, match="the first time"):
            await shared.get()
        first = await shared.get()
        assert first == {"count": "2"}
        async with asyncio.timeout(DEADLINE_S):
            while await shared.get() == first:
                await asyncio.sleep(0)

    asyncio.run(scene())


def test_forget_discards_a_reading_in_progress() -> None:
    async def scene() -> None:
        read, may_end = Counted(), threading.Event()

        def slowly() -> dict[str, str]:
            told = read().changes
            assert may_end.wait(DEADLINE_S)
            return {"count": told}

        shared = SharedReading(slowly, period_s=3_600)
        asking = asyncio.create_task(shared.get())
        await until(lambda: read.count == 1)
        shared.forget()
        may_end.set()
        assert await asking == {"count": "1"}
        assert await shared.get() == {"count": "2"}
        assert await shared.get() == {"count": "2"}
        shared.forget()
        assert await shared.get() == {"count": "3"}

    asyncio.run(scene())


def test_canceled_request_does_not_end_the_reading_of_others() -> None:
    async def scene() -> None:
        may_end = threading.Event()

        def slowly() -> dict[str, str]:
            assert may_end.wait(DEADLINE_S)
            return {"it": "ended"}

        shared = SharedReading(slowly)
        impatient, patient = (asyncio.create_task(shared.get()) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await asyncio.sleep(0)
        may_end.set()
        assert await patient == {"it": "ended"}

    asyncio.run(scene())


def test_expensive_readings_are_less_frequent() -> None:
    assert period_s(0.01, 1.0) == 1.0
    assert period_s(0.1, 1.0) == pytest.approx(3.0)
    assert period_s(10.0, 1.0) == PERIOD_MAX_S
