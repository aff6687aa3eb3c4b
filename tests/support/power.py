"""A disk of its own whose power can be cut: ext4 on a loop device.

``FS_IOC_SHUTDOWN`` with NOLOGFLUSH makes a file system stop where it is: what was not
synced never reaches the disk, later writes fail, and the next mount recovers the
appender, all of it by the real kernel. Needs root and loop devices.
"""

import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_SHUTDOWN = 0x8004587D
_NO_LOG_FLUSH = 2


class LoopDisk:
    """Mounted at ``root`` from `mount` to `unmount`; ``image`` holds its bytes."""

    def __init__(self, directory: Path, size_mb: int = 256) -> None:
        self.image, self.root = directory / "disk.img", directory / "disk"
        self.root.mkdir()
        with self.image.open("wb") as image:
            image.truncate(size_mb << 20)
        _run("mkfs.ext4", "-q", "-F", str(self.image))

    def mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.root))

    def cut_power(self) -> None:
        """From now on nothing is written any more; processes get EIO."""
        root = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(root)

    def unmount(self) -> None:
        """Nobody may have a file open there."""
        if os.path.ismount(self.root):
            _run("umount", str(self.root))


class SmallDisk:
    """A tmpfs of a given size."""

    def __init__(self, root: Path, size_mb: int) -> None:
        self.root = root
        self.root.mkdir()
        _run("mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(root))

    def unmount(self) -> None:
        if os.path.ismount(self.root):
            _run("umount", "-l", str(self.root))


def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """As a fixture: one of 64 MB; where the machine permits none, tests are skipped."""
    why = why_no_disks(tmp_path)
    if why:
        pytest.skip(why)
    disk = SmallDisk(tmp_path / "disk", size_mb=64)
    yield disk
    disk.unmount()


def why_no_disks(directory: Path) -> str:
    """Why this machine does not permit them; empty if it does."""
    if os.geteuid() != 0:
        return "mounting needs root"
    probe = directory / "probe"
    probe.mkdir()
    try:
        disk = LoopDisk(probe, size_mb=8)
        disk.mount()
        try:
            disk.cut_power()
        finally:
            disk.unmount()
    except (OSError, subprocess.CalledProcessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        return f"no loop devices to mount here: {told.strip()}"
    return ""


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, text=True)
