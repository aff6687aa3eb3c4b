"""What goes on beside a test until it is left."""

import threading
from typing import Self


class GoesOn:
    """Something that goes on until it is left; what fails in it fails the test."""

    def __init__(self) -> None:
        self.ends = threading.Event()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self._failed.append(error)

    def work(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """Leave it; once is enough."""
        self.ends.set()
        self._thread.join()
        if self._failed:
            raise self._failed.pop(0)
