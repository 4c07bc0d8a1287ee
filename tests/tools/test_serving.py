"""A server of the tests: its log, read while it writes."""

import sys
import time

from tools.calling import wait_until
from tools.serving import Server

LINES = [f"line {number}" for number in range(2000)]


def test_reading_the_log_changes_nothing_in_it() -> None:
    with Server(module="tests.tools.test_serving") as server:
        wait_until(lambda: LINES[-1] in server.log)
        assert server.log.splitlines() == LINES


if __name__ == "__main__":
    print("ready: nowhere", flush=True)
    for line in LINES:
        print(line, file=sys.stderr, flush=True)
        time.sleep(0.0001)
    time.sleep(60)
