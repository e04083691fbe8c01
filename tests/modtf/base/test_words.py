"""Progress is a bar on terminals, and lines in files."""

import io
import sys
import time

import pytest

from modtf.base import words
from modtf.base.words import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "shown", "seen"), [(Terminal, True, True), (Terminal, False, False),
                                                       (io.StringIO, True, False)])  # fmt: skip
def test_a_bar_is_shown_on_terminals(stream, shown, seen, monkeypatch):
    screen = stream()
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(progress_bar(range(3), desc="cells", shown=shown)) == [0, 1, 2]
    assert ("cells: 100%" in screen.getvalue()) == seen


def test_progress_in_a_file_is_a_line_from_time_to_time(monkeypatch, capsys):
    """It says how much is left; what ends sooner says nothing."""
    monkeypatch.setattr(words, "EVERY", 0.05)
    bar = words.progress_bar(total=10, desc="modular")
    for _ in range(10):
        time.sleep(0.03)
        bar.update()
    bar.close()
    lines = capsys.readouterr().err.splitlines()
    assert 2 <= len(lines) <= 8
    assert all(line.startswith("modular: ") for line in lines)
    assert lines[-1].startswith("modular: 100%")
    monkeypatch.setattr(words, "EVERY", 30.0)
    words.progress_bar(total=10, desc="modular", delay=0, postfix="compiling")
    assert "compiling" in capsys.readouterr().err, "at once, if asked for"
    assert list(words.progress_bar(range(3))) == [0, 1, 2]
    assert capsys.readouterr().err == ""
