"""``lakelog up`` until it is ready, and no longer: ``until_ready [WORD...]``.

On a free port, without a compactor and a plane, whatever the words say: the rest of
them, the environment and files are what is tried. What it said is said again.
"""

import subprocess
import sys

OTHERWISE = ["--listener", "127.0.0.1:0", "--no-admin", "--no-compactor"]


def main() -> int:
    """Its exit code after SIGTERM; 1 if it ended before it was ready."""
    command = [sys.executable, "-m", "broker.cli", "up", *sys.argv[1:], *OTHERWISE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as part:
        assert part.stdout is not None
        for line in part.stdout:
            print(line, end="", flush=True)
            if line.split()[:1] == ["ready"]:
                part.terminate()
                part.communicate()
                return part.returncode
        return part.wait() or 1


if __name__ == "__main__":
    sys.exit(main())
