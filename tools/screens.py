"""A headless Chromium, and the screens on which people look at our pages."""

import base64
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run"),
    *("--no-default-browser-check", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--hide-scrollbars"),
)


@dataclass(frozen=True, slots=True)
class Screen:
    """A screen in pixels, light or dark."""

    name: str
    width: int
    height: int
    scheme: str

    def __str__(self) -> str:
        return f"{self.name}-{self.scheme}"

    def use(self, browser: "Chrome", scale: int = 1) -> None:
        """Gives the browser this screen; a scale is of its pixels to those of a picture."""
        size = {"width": self.width, "height": self.height, "deviceScaleFactor": scale, "mobile": self.width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": self.scheme}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


SCREENS: Final = [
    Screen(name, width, height, scheme)
    for name, width, height in (("desktop", 1280, 900), ("phone", 375, 720))
    for scheme in ("light", "dark")
]


@contextmanager
def chromium() -> Iterator["Chrome"]:
    """Yields a browser without a window; exits with a sentence if there is none."""
    # What only speaks of screens does without selenium.
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options, program, driver = ChromeOptions(), next(filter(None, map(shutil.which, _NAMES)), None), "chromedriver"
    if program is None or shutil.which(driver) is None:
        raise SystemExit("Chromium and its driver are not here; run `make chromium`")
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        # With the driver's path, selenium looks for none elsewhere.
        browser = Chrome(options, Service(shutil.which(driver)))
        try:
            yield browser
        finally:
            browser.quit()


def keep(browser: "Chrome", file: Path, whole: bool = True) -> None:
    """Writes a picture of the whole page, or of what the screen shows of it."""
    taken = browser.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
    file.write_bytes(base64.b64decode(taken["data"]))
