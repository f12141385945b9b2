"""Readings that requests share."""

import asyncio
import threading
from typing import Any

from cluster.dashboard.shared_reading import SharedReading


def test_a_reading_from_before_a_change_is_not_shared_after_it() -> None:
    is_reading, may_end = threading.Event(), threading.Event()
    readings: list[int] = []

    def read() -> dict[str, Any]:
        readings.append(len(readings))
        number = readings[-1]
        is_reading.set()
        assert may_end.wait(60)
        return {"number": number}

    async def story() -> None:
        shared = SharedReading(read)
        before = asyncio.create_task(shared.get())
        await asyncio.to_thread(is_reading.wait, 60)
        shared.forget()
        after = [asyncio.create_task(shared.get()) for _ in range(3)]
        await asyncio.sleep(0)
        may_end.set()
        assert await before == {"number": 0}
        assert [await each for each in after] == [{"number": 1}] * 3

    asyncio.run(story())
