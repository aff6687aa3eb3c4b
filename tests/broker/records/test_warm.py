"""The broker starts without the compiled loops; a command compiles them beforehand."""

import subprocess
import sys


def test_nothing_heavy_is_imported_before_its_first_use() -> None:
    code = (
        "import sys, broker.records.batch, broker.records.inspect,"
        " broker.records.decompress, broker.records.compression;"
        "print([m for m in ('numba', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_warming_is_a_command() -> None:
    done = subprocess.run([sys.executable, "-m", "broker.records.warm"])
    assert done.returncode == 0
