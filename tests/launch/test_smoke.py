"""`modtf run --preset=smoke` and its report: the whole path, from training to pictures."""

import pytest
from processes import python

from modtf.models.routers import default_variants
from modtf.tasks.families import FAMILIES, with_free_rules

pytestmark = [pytest.mark.slow, pytest.mark.xla]


@pytest.mark.parametrize("arch", with_free_rules())
def test_from_training_to_pictures(arch, tmp_path):
    out = tmp_path / "runs"
    done = python("-m", "modtf.launch.main", "run", f"--arch={arch}", "--preset=smoke", f"--out={out}")
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [line.split()[0] for line in done.stdout.splitlines() if line and "±" in line]
    assert set(default_variants(FAMILIES[arch])) <= set(rows)
    done = python("-m", "modtf.launch.main", "report", f"--results={out}", f"--out={tmp_path / 'report'}")
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path.stem.split("_")[0] for path in (tmp_path / "report" / "figures").glob("*.png")} >= {
        "activation"
    }
