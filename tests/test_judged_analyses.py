"""The page on measures shows what the analyses of routing find in simulated routers."""

from pathlib import Path

import judge_analyses

PAGE = Path(__file__).parents[1] / "docs" / "measure_values.md"


def test_the_table_is_that_of_the_script():
    table = judge_analyses.table()
    assert table.count("\n") == 10
    assert table in PAGE.read_text(encoding="utf-8")
