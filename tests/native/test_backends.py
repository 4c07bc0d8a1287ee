"""Which libraries a back end's name stands for, and which versions are installed."""

import os
from pathlib import Path

import pytest

from aclgrad_native import found_runtime, installed_versions, library_files
from aclgrad_native.backends import toolkit_folder

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


def test_host_is_the_library_beside_the_compiled_module_and_anything_else_a_path() -> None:
    ((path, required),) = library_files("host", {})
    assert Path(path).name == "libacl_host.so"
    assert Path(path).is_file()
    assert required
    for other in ("/opt/vendor/libacl.so", "libacl.so", "/nowhere/host"):
        assert library_files(other, {}) == [(other, True)]


def test_ascend_without_a_toolkit_leaves_the_search_to_the_loader(toolkit: Path) -> None:
    files = library_files("ascend", home(toolkit))
    assert files == [(name, True) for name in REQUIRED] + [(name, False) for name in OPTIONAL]


def test_split_operator_libraries_come_in_order_before_the_whole(toolkit: Path, tmp_path: Path) -> None:
    """Also those where the loader looks; the toolkit's library is preferred if it has the same name."""
    folder, elsewhere = toolkit / "lib64", tmp_path / "elsewhere"
    cv, nn, whole = touch(folder / "libopapi_cv.so", folder / "libopapi_nn.so", folder / "libopapi.so")
    math, _ = touch(elsewhere / "libopapi_math.so", elsewhere / "libopapi_cv.so")
    files = library_files("ascend", home(toolkit, LD_LIBRARY_PATH=f"{tmp_path}/none::{elsewhere}"))
    assert [path for path, _ in files if "/" in path] == [cv, math, nn, whole]
    assert files[2:6] == [(path, False) for path in (cv, math, nn, whole)]


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


def test_vendors_that_no_configuration_names_are_left_out(toolkit: Path, tmp_path: Path) -> None:
    vendors = tmp_path / "opp/vendors"
    touch(vendors / "acme/op_api/lib/libcust_opapi.so")
    for config in (None, "", "load_priority=\n", "other=acme\n"):
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
    ("file", "backend"),
    [("toolkit/lib64/libascendcl.so", "ascend"), ("driver/libascendcl.so", "ascend"), ("driver/libother.so", "host")],
    ids=["in_the_toolkit", "in_the_loader_path", "nowhere"],
)
def test_auto_is_ascend_where_its_library_is(toolkit: Path, tmp_path: Path, file: str, backend: str) -> None:
    touch(tmp_path / file)
    environment = home(toolkit, LD_LIBRARY_PATH=f"/nowhere::{tmp_path}/driver")
    assert library_files("auto", environment) == library_files(backend, environment)
    assert found_runtime(environment) == (str(tmp_path / file) if backend == "ascend" else None)


def test_toolkit_is_the_variables_or_the_newest_of_the_usual_folders(tmp_path: Path) -> None:
    """CANN 8.5 has another folder than those before."""
    new, old = (str(tmp_path / each) for each in ("cann", "ascend-toolkit/latest"))
    assert toolkit_folder({}, (new, old)) == Path(new)
    Path(old).mkdir(parents=True)
    assert toolkit_folder({}, (new, old)) == Path(old)
    Path(new).mkdir()
    assert toolkit_folder({}, (new, old)) == Path(new)
    assert toolkit_folder({"ASCEND_HOME_PATH": "/opt/cann"}, (new, old)) == Path("/opt/cann")


def test_versions_are_those_of_the_driver_and_of_each_package(tmp_path: Path) -> None:
    environment = {"ASCEND_HOME_PATH": f"{tmp_path}/cann"}
    assert installed_versions(environment, tmp_path / "driver") == {}
    for folder, text in {
        "driver": b"Version=25.0.rc1\nascendhal_version=7.35.19\n",
        "cann/runtime": b"timestamp=20250303\nVersion=7.7.0.1.238\n",
        "cann/opp": b"# \xff\nversion = [8.1.RC1]\n",
        "cann/empty": b"none\n",
    }.items():
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "version.info").write_bytes(text)
    (tmp_path / "cann/folder/version.info").mkdir(parents=True)
    found = installed_versions(environment, tmp_path / "driver")
    assert found == {"driver": "25.0.rc1", "opp": "8.1.RC1", "runtime": "7.7.0.1.238"}
