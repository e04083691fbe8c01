"""Progress bars appear only on terminals."""

import io
import sys

import pytest

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
