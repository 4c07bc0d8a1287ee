"""`make pictures`: takes the pictures of the front page with Chromium, of the built site and of a server under load."""

import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tools.serving import Server
from website.__main__ import SITE

FOLDER: Final = Path(__file__).parent
OPERATOR: Final = SITE / "operators/adaptive_avg_pool2d_backward.html"
CALLERS: Final = 4
LOAD_S: Final = 5
_FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")


def main() -> None:
    take(OPERATOR.as_uri(), FOLDER / "operator.png", "1400,800")
    done = threading.Event()
    with Server() as server, aclgrad.Client(server.address) as client, ThreadPoolExecutor(CALLERS) as threads:
        for _ in range(CALLERS):
            threads.submit(_call, client, done)
        done.wait(LOAD_S)
        take(f"http://{server.admin}/", FOLDER / "status.png", "1000,720")
        done.set()


def take(address: str, file: Path, size: str) -> None:
    """Writes a picture of the top of a page."""
    with tempfile.TemporaryDirectory() as profile:
        flags = [f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={file}"]
        subprocess.run([shutil.which("chromium") or "chromium", *_FLAGS, *flags, address], check=True)


def _call(client: aclgrad.Client, done: threading.Event) -> None:
    calls = [(each.spec.name, each.arrays(), each.case.attributes) for each in first_cases(Product.ATLAS_A2)]
    while not done.is_set():
        for name, inputs, attributes in calls:
            client.execute(name, inputs, attributes)


if __name__ == "__main__":
    main()
