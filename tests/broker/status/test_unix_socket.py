"""A socket's path fits, however deep its directory is."""

import contextlib
import os
import socket

from broker.status.unix_socket import NAME, short_path


def test_a_socket_lies_in_a_directory_whose_path_is_too_long_for_one(tmp_path):
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as own:
        with short_path(deep) as path:
            server.bind(path)
        server.listen()
        assert (deep / NAME).is_socket()
        with short_path(deep) as path:
            own.connect(path)


def test_no_handle_is_left(tmp_path):
    with short_path(tmp_path) as path:
        handle = int(path.split("/")[4])
        assert os.path.samestat(os.fstat(handle), os.stat(tmp_path))
    with contextlib.suppress(OSError):  # another thread may have taken its number
        assert not os.path.samestat(os.fstat(handle), os.stat(tmp_path))
