"""What a user did wrong, in one sentence instead of a traceback."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from broker.cli.streams import OutputError, write_nowhere


class UserError(Exception):
    """Something that the person at the keyboard can mend; the text says how."""

    exit_code = 1


class BadUsage(UserError):
    """A flag that says nothing, as the shell's own tools tell it: exit code 2."""

    exit_code = 2


def check_directory() -> None:
    """Raise UserError if the working directory was removed: libraries that we load look
    where they are."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UserError("the working directory is gone; go to another one") from None


@contextmanager
def reported() -> Iterator[None]:
    """Turn the errors that users cause into a sentence and an exit code."""
    from confluent_kafka import KafkaException

    from broker.setting_values import SettingsError
    from jobs.session import SparkMissing

    try:
        yield
    except SettingsError as error:
        _leave(str(error), 2)
    except UserError as error:
        _leave(str(error), error.exit_code)
    except KafkaException as error:
        _leave(_sentence(error), 1)
    except SparkMissing as error:
        _leave(str(error), 1)
    except TimeoutError:
        _leave("the broker did not answer in time", 1)
    except OutputError as error:
        write_nowhere()
        _leave(f"standard output takes no more: {error.strerror}", 1)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)


def _leave(message: str, code: int) -> None:
    typer.echo(f"lakelog: {message}", err=True)
    sys.exit(code)


def _sentence(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    name, text = getattr(cause, "name", None), getattr(cause, "str", None)
    return f"{name()}: {text()}" if name and text else str(error)
