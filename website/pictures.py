"""The pictures of the front page: a judgement, an operator's page, and the status page of a working server."""

import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple
from urllib.request import urlopen

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tools.screens import Screen, chromium, keep
from tools.serving import Server

ROOT: Final = Path(__file__).parents[1]
CALLERS: Final = 2
LOAD_S: Final = 4
LIMIT_S: Final = 60
SCALE: Final = 2
"""A picture has as many pixels for each one of the page, for screens that have them."""
SCREENS: Final = [
    Screen(name, *size, scheme)
    for name, size in {"wide": (820, 520), "phone": (390, 620)}.items()
    for scheme in ("light", "dark")
]
_WELL: Final = "all is well"
_SCRIPT: Final = re.compile(r"<script>.*?</script>", re.DOTALL)
"""It would say that the server no longer answers."""


class Picture(NamedTuple):
    """What a picture of the front page shows, where a click on it leads, and what those read who do not see it."""

    name: str
    target: str
    text: str


PICTURES: Final = (
    Picture("report", "docs/right-gradients.html", "The page of a judgement: the first wrong call, and its elements"),
    Picture("operator", "operators/adaptive_avg_pool2d_backward.html", "The page of an operator, with a picture of it"),
    Picture("status", "docs/server.html#health", "The status page of a server: problems, load, device, operators"),
)


def html_of(picture: Picture) -> str:
    """Returns a picture that follows the page's colours and the screen's width."""
    file = f"_static/{picture.name}"
    shown = "".join(
        f'<picture class="only-{scheme}"><source media="(max-width: 46em)" srcset="{file}-phone-{scheme}.png">'
        f'<img src="{file}-wide-{scheme}.png" alt="{picture.text}" loading="lazy"></picture>'
        for scheme in ("light", "dark")
    )
    return f'<a class="shot" href="{picture.target}">{shown}</a>'


def take_all(site: Path) -> None:
    """Writes the pictures into a site that is built; exits with a sentence if one cannot be taken."""
    with tempfile.TemporaryDirectory() as folder:
        judged, status = Path(folder) / "judged", Path(folder) / "status.html"
        command = [str(Path(sys.executable).with_name("aclgrad")), "judge", "examples/wrong_dump", "--out", str(judged)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=ROOT)
        if not (judged / "report.html").exists():
            raise SystemExit(f"no judgement to take a picture of:\n{done.stderr}")
        status.write_text(_SCRIPT.sub("", healthy_page()))
        pages = {"report": judged / "report.html", "operator": site / PICTURES[1].target, "status": status}
        with chromium() as browser:
            for name, page in pages.items():
                for screen in SCREENS:
                    screen.use(browser, SCALE)
                    browser.get(page.as_uri())
                    keep(browser, site / f"_static/{name}-{screen}.png", whole=False)


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
