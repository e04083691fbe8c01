"""`modtf run --preset=smoke` of every registered family, and its report: from training to pictures."""

import os
import re
import resource

import pytest
from processes import python

from modtf.models.routers import default_variants
from modtf.pages.text import WIDEST
from modtf.tasks.families import FAMILIES, with_free_rules

pytestmark = [pytest.mark.slow, pytest.mark.xla]
SECONDS = 60  # of CPU on an idle core


@pytest.mark.parametrize("arch", FAMILIES)
def test_from_training_to_pictures(arch, tmp_path):
    out, before = tmp_path / "runs", resource.getrusage(resource.RUSAGE_CHILDREN)
    done = python("-m", "modtf.launch.main", "run", f"--arch={arch}", "--preset=smoke", f"--out={out}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split()[0] for line in done.stdout.splitlines() if line and "±" in line]
    assert set(default_variants(FAMILIES[arch])) <= set(rows)
    tables = [line for line in done.stdout.splitlines() if re.search(r"  \S+  ", line)]
    assert max(map(len, tables)) <= WIDEST
    if os.getloadavg()[0] < 1.5:  # other processes slow a core down
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime <= SECONDS
    if arch not in with_free_rules():
        return
    done = python("-m", "modtf.launch.main", "report", f"--results={out}", f"--out={tmp_path / 'report'}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path.stem.split("_")[0] for path in (tmp_path / "report" / "figures").glob("*.png")} >= {
        "activation"
    }
