"""Commands in this process."""

import sys

import pytest


@pytest.fixture
def call(monkeypatch, capsys):
    """call(command, "run.py", "--rules=1") -> its exit status, output and error."""

    def run(command, *argv):
        monkeypatch.setattr(sys, "argv", list(argv))
        monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))  # a command adds to it
        status: int | str | None = 0
        try:
            command()
        except SystemExit as stopped:
            status = stopped.code
        return (status, *capsys.readouterr())

    return run
