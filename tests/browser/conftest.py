"""A headless Chromium, and the folder of its pictures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Chrome

from tools.screens import chromium


@pytest.fixture(scope="session")
def browser() -> Iterator[Chrome]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="session")
def pictures() -> Path:
    folder = Path("build") / "browser"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
