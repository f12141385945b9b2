"""Limits the input and output rate of a cleaning. Pure."""


class IoPace:
    """Counts bytes since its creation, like Kafka's `Throttler` without the window."""

    def __init__(self, bytes_per_second: float) -> None:
        """An infinite rate never requires a sleep."""
        self._bytes_per_second = bytes_per_second
        self._due_s: float | None = None
        """When what was counted so far may have been moved."""

    def rest_s(self, size_bytes: int, now_s: float) -> float:
        """Seconds to sleep after these bytes; `now_s` is monotonic. Idle time earns no credit."""
        due_s = now_s if self._due_s is None else max(self._due_s, now_s - _IDLE_S)
        self._due_s = due_s = due_s + size_bytes / self._bytes_per_second
        return max(0.0, due_s - now_s)


_IDLE_S = 0.1
"""Computing between two reads counts as moving bytes; longer pauses do not."""
