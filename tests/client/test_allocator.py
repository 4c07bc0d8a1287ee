"""Settings of glibc's allocator, each in a process of its own: they cannot be taken back."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="elsewhere there is nothing to set")

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


@pytest.mark.parametrize("tuned", [True, False])
def test_large_blocks_are_kept_until_the_trim(tuned: bool) -> None:
    version = tuple(map(int, platform.libc_ver()[1].split(".")))
    if tuned and version < (2, 35):
        pytest.skip("this glibc maps blocks of more than 32 MiB whatever it is told")
    tune = "import aclgrad; assert aclgrad.tune_allocator()" if tuned else ""
    kept, had_some = run(f"{tune}\nfrom aclgrad.allocator import trim_allocator as trim\n{KEPT}").split()
    assert kept == str(tuned)
    assert had_some == "True" or not tuned
