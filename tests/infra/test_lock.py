"""``make lock`` works in the ``.venv`` that pip made, and in uv's, which has no pip.

Programs that say how they were called stand in for pip, uv and pip-compile, which ask
a registry.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "infra" / "lock.sh"
SAYS = '#!/bin/sh\necho "${0##*/} $*" >> called\n'


def program(path, body=SAYS):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body)
    path.chmod(0o755)


@pytest.mark.parametrize("has_pip", [True, False])
def test_the_pins_are_resolved_whoever_made_the_environment(tmp_path, has_pip):
    (tmp_path / "infra").mkdir()
    shutil.copy(SCRIPT, tmp_path / "infra")
    own = tmp_path / ".venv" / "bin"
    program(own / "python", SAYS if has_pip else "#!/bin/sh\nexit 1\n")
    program(own / "pip-compile")
    program(tmp_path / "path" / "uv")
    path = f"{tmp_path / 'path'}:{os.environ['PATH']}"
    script = tmp_path / "infra" / "lock.sh"
    subprocess.run([script], check=True, env=os.environ | {"PATH": path})
    *installed, resolved = (tmp_path / "called").read_text().splitlines()
    assert installed[-1].startswith("python -m pip " if has_pip else "uv pip ")
    assert installed[-1].endswith(" pip-tools")
    assert resolved.startswith("pip-compile ")
    assert resolved.endswith("--output-file requirements.lock pyproject.toml")
