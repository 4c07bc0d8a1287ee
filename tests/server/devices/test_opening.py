"""The card that a process is to see; the rows of the host library's own reading are in tests/abi/test_lifecycle.py."""

import gc
import json
import re
from pathlib import Path

import pytest

from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.opening import VISIBLE, open_device, visible_card
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings


@pytest.mark.parametrize(
    ("visible", "cards"),
    [("0", ["0"]), ("4,5", ["4", "5"]), ("1,3,10", ["1", "3", "10"]), ("0,2,x,3", ["0", "2"]), ("0,1,1", ["0", "1"]),
     ("2,1", ["2"]), ("1, 2", ["1"]), ("", []), ("-1", []), ("0,", ["0"]), ("\u0663", [])],
)  # fmt: skip
def test_indices_count_the_entries_up_to_the_first_bad_one(visible: str, cards: list[str]) -> None:
    environment = {VISIBLE: visible}
    assert [visible_card(environment, index) for index in range(len(cards))] == cards
    told = f"there is no device {len(cards)}: {VISIBLE}={visible!r} shows {len(cards)}; see --device"
    with pytest.raises(StartError, match=re.escape(told)):
        visible_card(environment, len(cards))
    with pytest.raises(StartError, match="there is no device -1"):
        visible_card(environment, -1)


def test_indices_are_the_cards_by_default() -> None:
    assert visible_card({}, 5) == "5"


@pytest.mark.parametrize(("visible", "device", "told"), [
    ("0,2", (), None),
    ("0,2", (1, 0), None),
    ("0,2", (2,), "shows 2; see --device"),
    ("9", (), f"there is no device 0: with {VISIBLE}=9 the runtime shows 0 devices; see --device and {VISIBLE}"),
])  # fmt: skip
async def test_the_library_sees_the_first_device_of_the_settings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, device: tuple[int, ...], told: str | None
) -> None:
    # The library takes its configuration once, so nothing of an earlier test's may be left.
    gc.collect()
    monkeypatch.setenv(VISIBLE, visible)
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"devices": 3}}))
    settings = Settings(backend="host", acl_config=config, pool_bytes=2**20, device=device)
    completions = Completions()
    try:
        if told is not None:
            with pytest.raises(StartError, match=re.escape(told)):
                await open_device(settings, completions, lambda device, error: None)
            return
        _, opened = await open_device(settings, completions, lambda device, error: None)
        assert opened.index == (*device, 0)[0]
        opened.close()
    finally:
        completions.close()
