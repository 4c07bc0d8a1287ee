"""Settings of glibc's allocator, each in a process of its own: they cannot be taken back."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere there is nothing to set")

NATIVE = """
import aclgrad_native
failures = aclgrad_native.tune_allocator(
    mmap_threshold_bytes={threshold}, trim_threshold_bytes=2**31 - 1, top_pad_bytes=2**26, arena_limit=1
)
print(*failures, sep="\\n")
"""
KEPT = """
import resource
faults = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_minflt
b"x" * 50_000_000
before = faults()
for _ in range(10): b"x" * 50_000_000
kept = faults() - before < 50_000_000 // 4096
print(kept, trim())
"""


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_every_setting_is_taken_or_told() -> None:
    assert run(NATIVE.format(threshold=2**25)) == ""
    told = run(NATIVE.format(threshold=2**30))
    assert told == "" or told.endswith("it is 33554432, the limit of this glibc")


@pytest.mark.parametrize("tuned", [True, False])
def test_large_blocks_are_kept_until_the_trim(tuned: bool) -> None:
    version = tuple(map(int, platform.libc_ver()[1].split(".")))
    if tuned and version < (2, 35):
        pytest.skip("this glibc maps blocks of more than 32 MiB whatever it is told")
    tune = "import aclgrad; assert aclgrad.tune_allocator()" if tuned else ""
    kept, had_some = run(f"{tune}\nfrom aclgrad_native import trim_allocator as trim\n{KEPT}").split()
    assert kept == str(tuned)
    assert had_some == "True" or not tuned
