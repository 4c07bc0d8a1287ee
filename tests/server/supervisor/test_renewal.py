"""SIGHUP: the settings are read anew, and the workers get them one by one, or keep what they have."""

import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aclgrad_server.settings import Settings, UnusableSettingsError
from tests.server.fakes import settle
from tests.server.supervisor.hosts import Host, hosting, settings_of
from tools.authority import Authority, write_identities

pytestmark = pytest.mark.usefixtures("fake_workers")


@pytest.fixture
async def host() -> AsyncIterator[Host]:
    async with hosting(0, 1, 2) as host:
        yield host


def streams(host: Host) -> list[list[int]]:
    """Returns the settings that each worker has got."""
    return [[each.streams for each in worker.renewals] for worker in host.workers]


async def renew(host: Host, settings: Settings | Exception) -> None:
    host.next_settings = settings
    await host.signal(signal.SIGHUP)


async def test_workers_get_the_new_settings_one_after_the_other(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for worker in host.workers:
        worker.may_renew.clear()
    await renew(host, settings_of(streams=9))
    for number, worker in enumerate(host.workers):
        assert streams(host) == [[9]] * (number + 1) + [[]] * (2 - number)
        worker.may_renew.set()
        await settle()
    assert "SIGHUP: all workers have the settings of now" in caplog.text
    (first, *_) = host.workers
    # Its place and its addresses are those that it had.
    assert first.renewals[0].listen == host.supervisor.addresses.of(0)
    assert first.orders.place.worker_count == 3


async def test_workers_are_renewed_by_the_same_settings_too(host: Host) -> None:
    """For what they name may have changed: files, libraries, cards."""
    for count in (1, 2):
        await host.signal(signal.SIGHUP)
        assert streams(host) == [[4] * count] * 3


FIXED = {"listen": ("127.0.0.1:1",), "admin": "127.0.0.1:0", "device": (0, 1, 2), "workers": 3}
REFUSED: dict[str, tuple[Settings | Exception, str]] = {
    "unusable": (
        UnusableSettingsError("--streams is 'many'; give an integer", "and another"),
        "SIGHUP: the workers keep their settings: --streams is 'many'; give an integer; and another",
    ),
    "failed": (MemoryError("none left"), "none left"),
} | {
    name: (
        settings_of(streams=8, **{name: value}),
        f"SIGHUP: the workers keep their settings: --{name} needs a start of the server itself",
    )
    for name, value in FIXED.items()
}


@pytest.mark.parametrize(("settings", "told"), REFUSED.values(), ids=REFUSED)
async def test_settings_that_are_refused_keep_the_old_ones_and_the_next_are_taken(
    host: Host, caplog: pytest.LogCaptureFixture, settings: Settings | Exception, told: str
) -> None:
    await renew(host, settings)
    assert streams(host) == [[]] * 3
    assert told in caplog.text
    await renew(host, settings_of(streams=9))
    assert streams(host) == [[9]] * 3


async def test_files_that_no_worker_could_use_cost_none_of_them(
    host: Host, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    certificate, _ = Authority(tmp_path).pair("server")
    _, other = Authority(tmp_path).pair("other")
    (identities := tmp_path / "identities.toml").write_text("[identities.a]\nrights = ['fly']\n")
    for wrong in ({"tls_certificate": Path(certificate), "tls_key": Path(other)}, {"identities": identities}):
        caplog.clear()
        await renew(host, settings_of(streams=9, **wrong))
        assert streams(host) == [[]] * 3
        (line,) = (each.getMessage() for each in caplog.records if each.levelname == "ERROR")
        assert line.startswith("SIGHUP: the workers keep their settings: ")


async def test_renewal_ends_with_the_first_worker_that_is_not_ready_again(
    host: Host, caplog: pytest.LogCaptureFixture
) -> None:
    host.workers[1].is_renewed_well = False
    await renew(host, settings_of(streams=9))
    assert streams(host) == [[9], [9], []]
    assert "SIGHUP: worker 1 is not ready again; those after it keep their settings" in caplog.text
    host.workers[1].is_renewed_well = True
    await renew(host, settings_of(streams=8))
    assert streams(host) == [[9, 8], [9, 8], [8]]


@pytest.mark.parametrize(
    ("meanwhile", "got"),
    [([settings_of(streams=count) for count in (8, 7, 6)], [9, 6]), ([UnusableSettingsError("no")], [9])],
    ids=["others", "unusable"],
)
async def test_signals_during_a_renewal_are_one_more_after_it(
    host: Host, meanwhile: list[Settings | Exception], got: list[int]
) -> None:
    host.workers[1].may_renew.clear()
    for each in (settings_of(streams=9), *meanwhile):
        await renew(host, each)
    assert streams(host) == [[9], [9], []]
    host.workers[1].may_renew.set()
    await settle()
    assert streams(host) == [got] * 3
    await renew(host, settings_of(streams=5))
    assert streams(host) == [[*got, 5]] * 3


async def test_stop_ends_a_renewal_and_none_begins_after_it(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """A second signal would cut the calls of a worker that drains."""
    host.workers[0].may_renew.clear()
    host.workers[2].may_stop.clear()
    await renew(host, settings_of(streams=9))
    await host.signal(signal.SIGTERM)
    host.workers[0].may_renew.set()
    await renew(host, settings_of(streams=8))
    assert streams(host) == [[9], [], []]
    assert "SIGHUP is ignored: the workers are being stopped" in caplog.text
    host.workers[2].may_stop.set()
    assert await host.exit_code() == 0


async def test_identities_that_come_with_a_renewal_hide_the_addresses(host: Host, tmp_path: Path) -> None:
    assert host.supervisor.settings.identities is None
    file = write_identities(tmp_path / "identities.toml", {"trainer": {"token": "secret"}})
    await renew(host, settings_of(identities=Path(file)))
    assert host.supervisor.settings.identities is not None
