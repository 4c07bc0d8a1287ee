"""What the command line says of settings that it refuses: where they stand, what is wrong, and what would be right."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from aclgrad_server.cli import main
from aclgrad_server.settings import Settings


@dataclass
class Result:
    exit_code: int
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    """Has settings read that are refused, so nothing is served."""

    def run(*flags: str, **variables: str) -> Result:
        cleared = {f"ACLGRAD_{name.upper()}": None for name in Settings.model_fields}
        environment = cleared | {"ACLGRAD_LOG_FORMAT": "text"} | variables
        exit_code = CliRunner().invoke(main, flags, env=environment, standalone_mode=False).return_value
        # The last words go to the file descriptor itself.
        return Result(exit_code, capfd.readouterr().err)

    return run


INTEGER = "Input should be a valid integer"
SIZE = "give bytes from 1 to 256TiB, or a number with a unit such as 300M or 2GiB"
FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "ipv6": (("--listen", "::1:50072"), "--listen: '::1:50072' is an IPv6 address without brackets; give [::1]:50072"),
    "ipv6_alone": (("--listen", "::1"), "--listen: '::1' is an IPv6 address without brackets; give [::1]:50051"),
    "no_port": (
        ("--listen", "localhost"),
        "--listen: 'localhost' is not an address; give host:port (port 0 to 65535), [IPv6]:port or unix:path",
    ),
    "abstract": (("--listen", "unix-abstract:5", "--insecure"), "--listen: 'unix-abstract:5' is not an address; give"),
    "percent": (("--listen", "unix:/tmp/a%41"), "--listen: 'unix:/tmp/a%41' has a percent sign; give a path without"),
    "word": (("--streams", "many"), f"--streams is 'many': {INTEGER}"),
    "fraction": (("--streams", "1.5"), f"--streams is '1.5': {INTEGER}"),
    "zero": (("--streams", "0"), "--streams is '0': Input should be greater than 0"),
    "large": (("--streams", "9999"), "--streams is '9999': Input should be less than or equal to 1024"),
    "choice": (("--shape-only", "maybe"), "--shape-only is 'maybe': Input should be 'auto', 'on' or 'off'"),
    "size": (("--pool-bytes", "300,000"), f"--pool-bytes is '300,000': {SIZE}"),
    "message": (("--max-message-bytes", "20MB"), "--max-message-bytes: 20MB is more than 16MiB: gRPC copies"),
    "switch": (("--deterministic", "perhaps"), "--deterministic is 'perhaps': Input should be a valid boolean"),
    "seconds": (("--call-timeout-s", "soon"), "--call-timeout-s is 'soon': Input should be a valid number"),
    "nan": (("--call-timeout-s", "nan"), "--call-timeout-s is 'nan': Input should be a finite number"),
    "device": (("--device", "first"), f"--device is 'first': {INTEGER}"),
    "pattern": (("--unix-socket-mode", "9"), "--unix-socket-mode is '9': String should match pattern "),
    "negative_workers": (("--workers", "-1"), "--workers is '-1': Input should be greater than 0"),
    "more_workers_than_a_card_takes": (
        ("--workers", "64"),
        "--workers is '64': Input should be less than or equal to 63",
    ),
    "fewer_workers_than_devices": (
        ("--workers", "1", "--device", "0", "--device", "1"),
        "--workers 1 leaves 1 of the devices of --device unused; name fewer devices, or give more workers",
    ),
    "twice": (("--device", "0", "--device", "0"), "--device: 0 is given more than once"),
}


@pytest.mark.parametrize(("flags", "told"), FLAGS.values(), ids=FLAGS)
def test_flag(run: Run, flags: tuple[str, ...], told: str) -> None:
    result = run(*flags)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"aclgrad-server: {told}")


def test_variable_and_flag_beside_a_file(run: Run, tmp_path: Path) -> None:
    assert run(ACLGRAD_STREAMS="many").stderr.startswith(f"aclgrad-server: ACLGRAD_STREAMS is 'many': {INTEGER}")
    (file := tmp_path / "aclgrad.toml").write_text("streams = 2\nvolume = 1\n")
    flag, in_file = run("--config", str(file), "--streams", "many").stderr.splitlines()
    assert flag.startswith(f"aclgrad-server: --streams is 'many': {INTEGER}")
    assert in_file == f"aclgrad-server: {file} has the setting 'volume', which does not exist; see --help"


UNKNOWN = "which does not exist; see --help"
FILES: dict[str, tuple[str, str]] = {
    "unknown": ("volume = 2", f" has the setting 'volume', {UNKNOWN}"),
    "hyphens": ("max-waiting-calls = 2", f" has the setting 'max-waiting-calls', {UNKNOWN}"),
    "table": ("[server]\nstreams = 2", f" has the setting 'server', {UNKNOWN}"),
    "word": ('streams = "many"', f": streams is 'many': {INTEGER}"),
    "range": ("streams = 0", ": streams is 0: Input should be greater than 0"),
    "size": ("pool_bytes = 1.5", f": pool_bytes is 1.5: {SIZE}"),
    "list": ("streams = [1]", f": streams is [1]: {INTEGER}"),
    "choice": ('log_level = "loud"', ": log_level is 'loud': Input should be 'debug', 'info', 'warning' or 'error'"),
    "address": ('listen = ["::1:1"]', ": listen: '::1:1' is an IPv6 address without brackets; give [::1]:1"),
    "number_for_text": ("backend = 3", ": backend is 3: Input should be a valid string"),
}


@pytest.mark.parametrize(("content", "told"), FILES.values(), ids=FILES)
def test_file(run: Run, tmp_path: Path, content: str, told: str) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text(content)
    for result in (run("--config", str(file)), run(ACLGRAD_CONFIG=str(file))):
        assert result.exit_code == 2
        assert result.stderr.startswith(f"aclgrad-server: {file}{told}")
        assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("content", [b"streams = ", b"\xff\xfe"], ids=repr)
def test_file_that_cannot_be_read(run: Run, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_bytes(content)
    result = run("--config", str(file))
    assert result.exit_code == 2
    assert result.stderr.startswith(f"aclgrad-server: {file} is no TOML: ")


def test_files_that_others_may_write_to_are_refused(run: Run, tmp_path: Path) -> None:
    for flag, content in (("--config", "streams = 2"), ("--acl-config", "{}"), ("--backend", "")):
        (file := tmp_path / flag).write_text(content)
        file.chmod(0o646)
        result = run(flag, str(file))
        assert result.exit_code == 2
        told = f"{file} is not trusted: everybody may write to {file}; chmod o-w {file}\n"
        assert result.stderr == f"aclgrad-server: {told}"


def test_tracing_without_its_extra(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclgrad.extras._is_installed", lambda name: name != "opentelemetry-sdk")
    for result in (run("--tracing"), run(ACLGRAD_TRACING="true")):
        assert result.exit_code == 2
        assert result.stderr.startswith("aclgrad-server: --tracing needs OpenTelemetry; run: pip install ")
        assert "'opentelemetry-sdk" in result.stderr
        assert "opentelemetry-exporter" not in result.stderr


def test_help_shows_the_values_that_a_setting_takes() -> None:
    help = CliRunner().invoke(main, ["--help"], terminal_width=200).stdout
    for told in (
        *("shape-only [auto|on|off]", "executor-cache [auto|on|off]", "log-level [debug|info|warning|error]"),
        *("deterministic [true|false]", "backend TEXT"),
        *("listen TEXT", "config FILE", "acl-config FILE", "streams INTEGER", "device INTEGER"),
        *("pool-bytes SIZE", "call-timeout-s SECONDS", "max-tensor-bytes SIZE"),
    ):
        assert f"--{told}" in help
    assert "default: 16GiB; ACLGRAD_MAX_TENSOR_BYTES" in help
    assert "default: False" not in help
