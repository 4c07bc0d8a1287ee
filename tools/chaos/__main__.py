"""`python -m tools.chaos [SCENE...]`: what clients saw while workers of a host died, as a table."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.chaos.load import Seen, load
from tools.chaos.scenes import SCENES, WORKERS, Scene, wait_until_replaced, wait_until_whole, worker_process
from tools.serving import Server

CLIENTS = 12
FULL_SERVICE_S = 5.0
"""The most that may pass from the detection of a dead worker until all are ready."""
BEFORE_S = 2.0


def run(scene: Scene, seconds: float) -> tuple[Seen, float]:
    """Returns what clients saw, and the seconds from what happened until all workers were ready again."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Server("--workers", str(WORKERS), *scene.flags(Path(folder))) as server,
    ):
        wait_until_whole(server)
        process = worker_process(server, 1)
        with load(server.address, CLIENTS) as seen:
            time.sleep(BEFORE_S)
            seen.longest_pause_s = 0.0
            start = time.monotonic()
            scene.happen(server, server.worker_addresses)
            while scene.is_repeated and time.monotonic() - start < seconds:
                scene.happen(server, server.worker_addresses)
            happened = start if scene.name == "renew" else time.monotonic()
            wait_until_replaced(server, process)
            whole_s = time.monotonic() - happened
            time.sleep(max(0.0, start + seconds - time.monotonic()))
    return seen, whole_s


def main() -> None:
    """Runs the scenes; ends with 1 if one is not withstood."""
    parser = argparse.ArgumentParser("python -m tools.chaos", description=__doc__)
    parser.add_argument("scene", nargs="*", choices=[[], *SCENES], help="all by default")
    parser.add_argument("--seconds", type=float, default=10.0, help="of load in each scene (10)")
    options = parser.parse_args()
    table = Table("scene", "right", "wrong", "lost", "longest pause", "full service after", "calls/s")
    failed = False
    for name in options.scene or SCENES:
        scene = SCENES[name]
        start = time.monotonic()
        seen, whole_s = run(scene, options.seconds)
        rate = seen.right / (time.monotonic() - start)
        failed |= bool(seen.wrong or seen.lost or whole_s > scene.detection_s + FULL_SERVICE_S or not seen.right)
        pause = f"{seen.longest_pause_s:.2f} s"
        table.add_row(
            name, str(seen.right), str(seen.wrong), str(len(seen.lost)), pause, f"{whole_s:.1f} s", f"{rate:.0f}"
        )
        for text in seen.lost[:3]:
            print(f"{name}: lost: {text}", file=sys.stderr)
    Console().print(table)
    sys.exit(int(failed))


if __name__ == "__main__":
    main()
