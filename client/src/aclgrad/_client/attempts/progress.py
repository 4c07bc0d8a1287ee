"""Progress of the messages of an attempt in chunks, without input or output: both transports share it.

Silence is the time since the last message in either direction. An abandoned attempt has to transfer its bytes again
elsewhere; without time for that, silence does not end it.
"""

from collections.abc import Callable, Iterator


class Progress:
    """When an attempt began, when the last message moved, and how long silence may last. Threads may share it."""

    def __init__(self, idle_s: float | None, end: float | None, clock: Callable[[], float]) -> None:
        """Silence may last `idle_s`, or as long as the call if None; `end` is the end of the call's time."""
        self._idle_s = idle_s
        self._end = end
        self._clock = clock
        self._begin = self._moved_at = clock()
        self.needed_s = 0.0
        """The time in which the attempt has transferred its bytes so far: about the time of a retry."""

    def outgoing(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        """Yields the messages, the header first. Taking the next one means that the previous one is sent."""
        yield next(messages)
        # A server that takes the header is not silent, but may still refuse the call.
        self._moved_at = self._clock()
        for each in messages:
            yield each
            self.moved()

    def moved(self) -> None:
        """Notes that a chunk was sent or a message received."""
        self._moved_at = now = self._clock()
        self.needed_s = now - self._begin

    @property
    def silence_left_s(self) -> float | None:
        """How much longer silence may last, at most 0 once it was too long; None if as long as the call."""
        if self._idle_s is None:
            return None
        is_over_at = self._moved_at + self._idle_s
        if self._end is not None and self._end - is_over_at < self.needed_s:
            return None
        return is_over_at - self._clock()
