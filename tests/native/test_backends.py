"""Which libraries a back end's name stands for, and which versions are installed."""

import os
from pathlib import Path

import pytest

from aclgrad_native import found_runtime, installed_versions, library_files
from aclgrad_native.backends import toolkit_folder

pytestmark = pytest.mark.once

REQUIRED = ["libascendcl.so", "libnnopbase.so"]
OPTIONAL = ["libopapi.so"] + [
    f"libaclnn_{each}.so" for each in ("ops_infer", "ops_train", "math", "sparse", "fft", "rand")
]


@pytest.fixture
def toolkit(tmp_path: Path) -> Path:
    """An empty installation of CANN."""
    (tmp_path / "toolkit/lib64").mkdir(parents=True)
    return tmp_path / "toolkit"


def touch(*files: Path) -> list[str]:
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    return [str(file) for file in files]


def home(toolkit: Path, **more: str) -> dict[str, str]:
    return {"ASCEND_HOME_PATH": str(toolkit), **more}


def test_host_is_the_library_beside_the_compiled_module() -> None:
    ((path, required),) = library_files("host", {})
    assert Path(path).name == "libacl_host.so"
    assert Path(path).is_file()
    assert required


@pytest.mark.parametrize("path", ["/opt/vendor/libacl.so", "libacl.so", "/nowhere/host"])
def test_anything_else_is_a_path(path: str) -> None:
    assert library_files(path, {}) == [(path, True)]


def test_ascend_without_a_toolkit_leaves_the_search_to_the_loader(toolkit: Path) -> None:
    files = library_files("ascend", home(toolkit))
    assert files == [(name, True) for name in REQUIRED] + [(name, False) for name in OPTIONAL]


def test_split_operator_libraries_come_in_order_before_the_whole(toolkit: Path) -> None:
    folder = toolkit / "lib64"
    split = touch(folder / "libopapi_cv.so", folder / "libopapi_math.so", folder / "libopapi_nn.so")
    (whole,) = touch(folder / "libopapi.so")
    files = library_files("ascend", home(toolkit))
    assert files[2:6] == [(path, False) for path in [*split, whole]]
    assert [path for path, _ in files if "/" in path] == [*split, whole]


def test_split_operator_libraries_are_found_where_the_loader_looks(toolkit: Path, tmp_path: Path) -> None:
    """The toolkit's library is preferred if it has the same name."""
    elsewhere = tmp_path / "elsewhere"
    math, _, nn = touch(elsewhere / "libopapi_math.so", elsewhere / "libopapi_cv.so", toolkit / "lib64/libopapi_nn.so")
    (cv,) = touch(toolkit / "lib64/libopapi_cv.so")
    environment = home(toolkit, LD_LIBRARY_PATH=f"{tmp_path}/none::{elsewhere}")
    assert library_files("ascend", environment)[2:5] == [(path, False) for path in (cv, math, nn)]


def test_custom_operators_come_first_in_the_order_of_their_variables(toolkit: Path, tmp_path: Path) -> None:
    library = Path("op_api/lib/libcust_opapi.so")
    custom = touch(tmp_path / "one" / library, tmp_path / "two" / library)
    vendors = tmp_path / "opp/vendors"
    late, early = touch(vendors / "acme" / library, vendors / "globex" / library)
    (vendors / "config.ini").write_text("load_priority = globex, missing ,acme\n")
    environment = home(
        toolkit,
        ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/one::{tmp_path}/none:{tmp_path}/two",
        ASCEND_OPP_PATH=str(vendors.parent),
    )
    files = library_files("ascend", environment)
    assert files[2:6] == [(path, False) for path in [*custom, early, late]]
    assert files[6] == ("libopapi.so", False)


@pytest.mark.parametrize("config", [None, "", "load_priority=\n", "other=acme\n"], ids=repr)
def test_vendors_that_no_configuration_names_are_left_out(toolkit: Path, tmp_path: Path, config: str | None) -> None:
    vendors = tmp_path / "opp/vendors"
    touch(vendors / "acme/op_api/lib/libcust_opapi.so")
    if config is not None:
        (vendors / "config.ini").write_text(config)
    paths = [path for path, _ in library_files("ascend", home(toolkit, ASCEND_OPP_PATH=str(vendors.parent)))]
    assert not [path for path in paths if "acme" in path]


def test_library_of_another_user_is_not_trusted(toolkit: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (custom,) = touch(tmp_path / "custom/op_api/lib/libcust_opapi.so")
    environment = home(toolkit, ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}/custom")
    assert (custom, False) in library_files("ascend", environment)
    owner = os.stat(custom).st_uid
    if owner == 0:
        os.chown(custom, 4711, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert (custom, False) not in library_files("ascend", environment)


@pytest.mark.parametrize(
    ("library", "backend"),
    [("toolkit/lib64/libascendcl.so", "ascend"), ("driver/libascendcl.so", "ascend"), ("driver/libother.so", "host")],
    ids=["in_the_toolkit", "in_the_loader_path", "nowhere"],
)
def test_auto_is_ascend_where_its_library_is(toolkit: Path, tmp_path: Path, library: str, backend: str) -> None:
    touch(tmp_path / library)
    environment = home(toolkit, LD_LIBRARY_PATH=f"/nowhere::{tmp_path}/driver")
    assert library_files("auto", environment) == library_files(backend, environment)
    assert found_runtime(environment) == (str(tmp_path / library) if backend == "ascend" else None)


def test_toolkit_is_the_variables_or_the_newest_of_the_usual_folders(tmp_path: Path) -> None:
    """CANN 8.5 has another folder than those before."""
    new, old = (str(tmp_path / each) for each in ("cann", "ascend-toolkit/latest"))
    assert toolkit_folder({}, (new, old)) == Path(new)
    Path(old).mkdir(parents=True)
    assert toolkit_folder({}, (new, old)) == Path(old)
    Path(new).mkdir()
    assert toolkit_folder({}, (new, old)) == Path(new)
    assert toolkit_folder({"ASCEND_HOME_PATH": "/opt/cann"}, (new, old)) == Path("/opt/cann")


def write(file: Path, text: bytes) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(text)


def test_versions_are_those_of_the_driver_and_of_each_package(tmp_path: Path) -> None:
    write(tmp_path / "driver/version.info", b"Version=25.0.rc1\nascendhal_version=7.35.19\n")
    write(tmp_path / "cann/runtime/version.info", b"timestamp=20250303\nVersion=7.7.0.1.238\n")
    write(tmp_path / "cann/opp/version.info", b"# \xff\nversion = [8.1.RC1]\n")
    write(tmp_path / "cann/empty/version.info", b"none\n")
    (tmp_path / "cann/folder/version.info").mkdir(parents=True)
    found = installed_versions({"ASCEND_HOME_PATH": f"{tmp_path}/cann"}, tmp_path / "driver")
    assert found == {"driver": "25.0.rc1", "opp": "8.1.RC1", "runtime": "7.7.0.1.238"}


def test_nothing_is_installed(tmp_path: Path) -> None:
    assert installed_versions({"ASCEND_HOME_PATH": str(tmp_path)}, tmp_path / "driver") == {}
