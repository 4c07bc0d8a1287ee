"""A heartbeat ages, a readiness has a reason."""

from aclgrad_server.liveness import BEAT_LIMIT_S, Heartbeat, Readiness


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_loop_that_beats_is_alive_and_one_that_stops_is_not() -> None:
    clock = Clock()
    heartbeat = Heartbeat(clock)
    heartbeat.beat()
    clock.now_s += BEAT_LIMIT_S
    assert (heartbeat.age_s(), heartbeat.failure()) == (BEAT_LIMIT_S, None)
    clock.now_s += 2.4
    assert heartbeat.failure() == "the main loop has not run for 12 s (limit 10 s)"
    heartbeat.beat()
    assert heartbeat.failure() is None


def test_readiness_says_why_not() -> None:
    readiness = Readiness()
    assert readiness.reason == "starting"
    readiness.set_ready()
    assert readiness.reason is None
    readiness.set_not_ready("device lost")
    assert readiness.reason == "device lost"
