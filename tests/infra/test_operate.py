"""The guide's page on operating, acted out: the disk is full, a segment is damaged.

Each story does what the page says, with its words, on a system that is really so.
"""

import json
import re
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from admin_api.guide.rendering import pages
from tests.crash.house import SMALL
from tests.support.patience import wait_until
from tests.support.power import small_disk
from tests.support.process import WholePart, lakelog, told

[PAGE] = [page.markdown for page in pages() if page.name == "operate"]
SEGMENTS = ("wal.segment_bytes=1Mi", "wal.hot_bytes=0")

disk = pytest.fixture(small_disk)


class Running:
    """`lakelog up` without a compactor, and an operator."""

    def __init__(self, data_dir: Path, *settings: str) -> None:
        self.data_dir = data_dir
        self.up = WholePart(data_dir, *settings)
        self.up.arguments.append("--no-compactor")

    def start(self) -> "Running":
        self.up.start()
        wait_until(lambda: self.asked("/readyz")[0] is not None)
        return self

    def asked(self, path: str) -> tuple[int | None, str]:
        """Status and body; None while nobody answers."""
        try:
            with urlopen(self.up.facts["admin"] + path) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return None, ""

    def health(self) -> str:
        """All that it reports."""
        status, said = self.asked("/v1/health")
        report = json.loads(said) if status == 200 else {"reasons": [], "warnings": []}
        return "; ".join([*report["reasons"], *report["warnings"]])

    def is_ready(self) -> bool:
        return self.asked("/readyz")[0] == 200

    def says(self, *words: str, **more: object) -> str:
        """What a command prints that asks the broker."""
        return lakelog(*words, "--bootstrap", self.up.bootstrap, **more)

    def produced(self, lines: int, width: int) -> int:
        text = b"".join(b"%0*d\n" % (width, n) for n in range(lines))
        done = told("produce", "orders", "--bootstrap", self.up.bootstrap, stdin=text)
        return done.code

    def consumed(self) -> list[str]:
        return self.says("consume", "orders", "--exit-at-end").splitlines()


@pytest.fixture
def running():
    """Makes one, and ends all at the end."""
    made = []

    def run(data_dir, *settings):
        made.append(Running(data_dir, *settings))
        return made[-1].start()

    yield run
    for one in made:
        one.up.end()


def section(title):
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)[
        1
    ]


@pytest.mark.shared_out("pages of the guide", 6)
def test_a_full_disk_refuses_says_why_and_goes_on_when_there_is_room(disk, running):
    said = section("A full disk")
    system = running(disk.root / "lakelog-data", *SMALL)
    system.says("topic", "create", "orders")
    assert system.produced(50, 100) == 0
    wait_until(system.is_ready)
    ballast = disk.root / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    wait_until(lambda: not system.is_ready())
    assert "nothing can be written" in system.health()
    assert len(system.consumed()) == 50
    [command] = re.findall(r"^lakelog (topic alter .*)$", said, re.MULTILINE)
    system.says(*command.split())
    ballast.unlink()
    assert "Writing goes on by itself" in said
    wait_until(system.is_ready)
    assert system.produced(10, 100) == 0
    assert len(system.consumed()) == 60


@pytest.mark.shared_out("pages of the guide", 6)
def test_a_damaged_segment_is_named_and_put_back(tmp_path, running):
    said = section("A damaged segment")
    system = running(tmp_path / "lakelog-data", *SEGMENTS)
    system.says("topic", "create", "orders")
    for _ in range(4):
        assert system.produced(400, 2000) == 0
    before = system.consumed()
    system.up.stop()
    check = ["check", "--data-dir", str(system.data_dir)]
    assert "all is well" in lakelog(*check)
    shutil.copytree(system.data_dir, tmp_path / "backup")
    segment = next(
        path
        for path in sorted((system.data_dir / "wal").iterdir())
        if b"%02000d" % 100 in path.read_bytes()
    )
    damaged = segment.read_bytes().replace(b"%02000d" % 100, b"%02000d" % 101, 1)
    segment.write_bytes(damaged)

    system.start()
    _, refused = system.asked("/v1/topics/orders/records?limit=3")
    assert "orders-0 is damaged from offset" in refused
    wait_until(lambda: "fails its checksum" in system.up.tail())
    assert "with the file, the place and the offsets" in said
    broken = told(*check)
    assert broken.code == 1
    assert f"(file wal/{segment.name}) (topic 1 is orders)" in broken.output
    place = segment.read_bytes().index(b"%02000d" % 99)
    [(first, last, byte)] = re.findall(
        r"offset (\d+) to (\d+), byte (\d+)", broken.output
    )
    assert int(first) <= 100 <= int(last)
    assert 0 < int(byte) < place

    assert "Stop the broker and put back" in said
    system.up.stop()
    shutil.copyfile(tmp_path / "backup" / "wal" / segment.name, segment)
    system.start()
    wait_until(system.is_ready)
    assert system.consumed() == before
    assert "checksum" not in system.health()
    system.up.stop()
    assert "all is well" in lakelog(*check)


def last_segment(system: Running) -> tuple[Path, bytes, bytes]:
    """The file that was written to last; what is in it; and that with another byte in
    its last batch."""
    files = [*(system.data_dir / "wal").glob("segment-*.log")]
    value = b"%02000d" % 0
    path = max(files, key=lambda one: (value in one.read_bytes(), one.stat().st_mtime))
    whole = path.read_bytes()
    at = whole.rindex(value)
    return path, whole, whole[:at] + b"x" + whole[at + 1 :]


@pytest.mark.shared_out("pages of the guide", 6)
def test_damage_in_the_last_segment_is_put_back_before_a_start(tmp_path, running):
    said = section("A damaged segment")
    system = running(tmp_path / "lakelog-data", *SEGMENTS)
    system.says("topic", "create", "orders")
    for _ in range(2):
        assert system.produced(3, 2000) == 0
    before = system.consumed()
    system.up.stop()
    segment, whole, damaged = last_segment(system)
    check = ["check", "--data-dir", str(system.data_dir)]

    assert "run `lakelog check` before you start the broker" in said
    segment.write_bytes(damaged)
    assert re.search(r"bytes \d+ to \d+ were durable and are", told(*check).output)
    segment.write_bytes(whole)
    system.start()
    assert system.consumed() == before
    assert system.produced(3, 2000) == 0
    system.up.stop()

    assert "the place stays lost, whatever is put back later" in said
    segment, whole, damaged = last_segment(system)
    segment.write_bytes(damaged)
    system.start()
    system.up.stop()
    segment.write_bytes(whole)
    system.start()
    _, refused = system.asked("/v1/topics/orders/records?limit=9")
    assert "orders-0 is damaged from offset 6" in refused
    assert "could not be read by an earlier start" in told(*check).output
    assert segment.read_bytes() == whole
