"""The pictures of the front page, taken with Chromium: an operator's page, and the status page of a working server."""

import re
import shutil
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tools.serving import Server

OPERATOR: Final = "operators/adaptive_avg_pool2d_backward.html"
CALLERS: Final = 2
LOAD_S: Final = 4
LIMIT_S: Final = 60
_WELL: Final = "all is well"
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run")
_SCRIPT: Final = re.compile(r"<script>.*?</script>", re.DOTALL)
"""It would say that the server no longer answers."""


def take_all(site: Path) -> None:
    """Writes both pictures into a site that is built; exits with a sentence if one cannot be taken."""
    take(site / OPERATOR, site / "_static/operator.png", "1400,800")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "status.html"
        page.write_text(_SCRIPT.sub("", healthy_page()))
        take(page, site / "_static/status.png", "1000,720")


def take(page: Path, picture: Path, size: str) -> None:
    """Writes a picture of the top of a page."""
    chromium = next(filter(None, map(shutil.which, _NAMES)), None)
    if chromium is None:
        raise SystemExit("Chromium takes the pictures of the site's front page, and is not here; run `make chromium`")
    with tempfile.TemporaryDirectory() as profile:
        flags = [f"--user-data-dir={profile}", f"--window-size={size}", f"--screenshot={picture}"]
        command = [chromium, *_FLAGS, *flags, page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode or not picture.exists():
        raise SystemExit(f"{chromium} took no picture of {page.name}:\n{done.stderr}")


def healthy_page() -> str:
    """Returns the status page of a server that works and has no problem; a browser's own load cannot change it."""
    done = threading.Event()
    with Server() as server, aclgrad.Client(server.address) as client, ThreadPoolExecutor(CALLERS) as threads:
        try:
            for _ in range(CALLERS):
                threads.submit(_call, client, done)
            return wait_until_well(f"http://{server.admin}/")
        finally:
            done.set()


def problem_of(page: str) -> str | None:
    """Returns the first problem of a status page, which is in its title, or None."""
    (title,) = re.findall(r"<title>(.*?) - aclgrad", page)
    return None if title == _WELL else title


def wait_until_well(address: str) -> str:
    """Returns the status page once it names no problem; exits with the problem if that takes too long."""
    until = time.monotonic() + LIMIT_S
    while True:
        time.sleep(LOAD_S)
        with urlopen(address) as reply:
            page: str = reply.read().decode()
        problem = problem_of(page)
        if problem is None:
            return page
        if time.monotonic() > until:
            raise SystemExit(
                f"the server for the picture was not well for {LIMIT_S} s: {problem}; run this on an idle machine"
            )


def _call(client: aclgrad.Client, done: threading.Event) -> None:
    calls = [(each.spec.name, each.arrays(), each.case.attributes) for each in first_cases(Product.ATLAS_A2)]
    while not done.is_set():
        for name, inputs, attributes in calls:
            client.execute(name, inputs, attributes)
