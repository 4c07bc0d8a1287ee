"""`python -m tools.chaos [SCENE...]`: what clients saw while workers of a host died, as a table."""

import argparse
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.calling import wait_until
from tools.chaos.load import Seen, load
from tools.chaos.scenes import SCENES, WORKERS, Scene, wait_until_whole, worker_process
from tools.serving import Server

CLIENTS = 12
FULL_SERVICE_S = 5.0
"""The most that may pass from the detection of a dead worker until all are ready."""
BEFORE_S = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What clients saw, how long it took until the worker ended, and how long from then to full service."""

    seen: Seen
    detected_s: float
    whole_s: float

    def is_withstood(self, scene: Scene) -> bool:
        in_time = self.detected_s <= scene.detection_s and self.whole_s <= FULL_SERVICE_S
        return bool(self.seen.right) and not self.seen.wrong and not self.seen.lost and in_time


def run(scene: Scene, seconds: float) -> Outcome:
    """Runs one scene."""
    workers = "--workers", str(WORKERS)
    with tempfile.TemporaryDirectory() as folder, Server(*workers, *scene.flags(Path(folder))) as server:
        wait_until_whole(server)
        process = worker_process(server, 1)
        with load(server.address, CLIENTS) as seen:
            time.sleep(BEFORE_S)
            seen.longest_pause_s = 0.0
            start = happened = time.monotonic()
            scene.happen(server, server.worker_addresses)
            while scene.is_repeated and (happened := time.monotonic()) - start < seconds:
                scene.happen(server, server.worker_addresses)
            wait_until(lambda: not process.is_running())
            ended = start if scene.is_repeated else time.monotonic()
            wait_until_whole(server)
            whole_s = time.monotonic() - max(ended, happened)
            time.sleep(max(0.0, start + seconds - time.monotonic()))
    return Outcome(seen, max(0.0, ended - happened), whole_s)


def main() -> None:
    """Runs the scenes; ends with 1 if one is not withstood."""
    parser = argparse.ArgumentParser("python -m tools.chaos", description=__doc__)
    parser.add_argument("scene", nargs="*", choices=[[], *SCENES], help="all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load in each scene (10)")
    options = parser.parse_args()
    titles = (
        "scene",
        "calls/s",
        "right",
        "wrong",
        "lost",
        "longest pause",
        "worker ended",
        "full service",
    )
    table = Table(*titles)
    failed = False
    for name in options.scene or SCENES:
        scene = SCENES[name]
        start = time.monotonic()
        outcome = run(scene, options.seconds)
        seen = outcome.seen
        failed |= not outcome.is_withstood(scene)
        rate = seen.right / (time.monotonic() - start)
        counts = map(str, (seen.right, seen.wrong, len(seen.lost)))
        times = (f"{each:.1f} s" for each in (seen.longest_pause_s, outcome.detected_s, outcome.whole_s))
        table.add_row(name, f"{rate:.0f}", *counts, *times)
        for text in seen.lost[:3]:
            print(f"{name}: lost: {text}", file=sys.stderr)
    Console(width=110).print(table)
    print("lost: calls that raised an error after all attempts; full service: from the end of the worker")
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
