"""How the messages of one attempt in chunks move, without any input or output: both transports share it.

Silence is the time since a message moved, so an attempt that has moved for long is not silent. An attempt that is given
up has to move its bytes again elsewhere: if there is no time for that, silence does not end it.
"""

from collections.abc import Callable, Iterator


class Progress:
    """When an attempt began, when a message last moved, and for how long none may. Threads may share it."""

    def __init__(self, idle_s: float | None, end: float | None, clock: Callable[[], float]) -> None:
        """Silence may last `idle_s`, None as long as the call; `end` is when the time of the call is over."""
        self._idle_s = idle_s
        self._end = end
        self._clock = clock
        self._begin = self._moved_at = clock()
        self.needed_s = 0.0
        """How long the attempt took to move what has moved of its bytes, so about how long a repeat of it takes."""

    def outgoing(self, messages: Iterator[bytes]) -> Iterator[bytes]:
        """Returns the messages, the header first. Whoever takes the next one has sent the one before."""
        yield next(messages)
        # Whoever takes a header is not silent, but has not taken any work, and may refuse it.
        self._moved_at = self._clock()
        for each in messages:
            yield each
            self.moved()

    def moved(self) -> None:
        """Notes that a chunk has gone out or a message has come in."""
        self._moved_at = now = self._clock()
        self.needed_s = now - self._begin

    @property
    def silence_left_s(self) -> float | None:
        """How much longer nothing may move, at most 0 if it was too long; None if as long as the call."""
        if self._idle_s is None:
            return None
        is_over_at = self._moved_at + self._idle_s
        if self._end is not None and self._end - is_over_at < self.needed_s:
            return None
        return is_over_at - self._clock()
