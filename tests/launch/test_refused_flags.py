"""Flags without meaning: one line names the flag, before TensorFlow is imported and anything is written.

Random flags and folders are in `test_fuzz_flags.py`.
"""

import importlib
import os
import shlex
import sys

import pytest

#: command -> arguments -> a part of the error
REFUSED = {
    "run": {
        "--workers=0": "--workers=0 is not valid; expected an integer of at least 1",
        "--workers=2 --strategy=members": "--workers and --strategy cannot both be given",
        "--arch=cnn": "--arch='cnn' is not known; expected one of mlp, mha, rnn, ",
        "--variant=modulr": "Did you mean 'modular'?",
        "--results=runs": "--results: this flag does not exist; did you mean --out?",
        "--variant=modular,gt": "--variant='gt' is not known; expected one of monolithic, modular, ",
        "--rules=1": "--rules=1 is not valid; expected an integer of at least 2",
        "--rules=eight": "--rules=eight: expected an integer.",
        "--width=1 --rules=8": "width=1 is too small for 8 modules",
        "--learning_rate=-1": "--learning_rate=-1.0 is not valid; expected a number between 0 and 1",
        "--arch=rnn --target=state --setting=classification": "target='state' needs setting='regression'",
        "--batch_size=1000000000": "cannot fit: it needs at least 208.0 GB of memory (the largest batch",
        "--tasks=1000000 --seeds=1000000": "seeds=1000000 cannot fit: it needs at least 200,000.0 GB",
        "--arch=vqa_mnist --variant=all_mixed_all": "needs question='comparison', received",
        "--checkpoint=first": "--checkpoint='first' is not known; expected one of tail, last, best",
        "--resume": "--resume: this flag does not exist; rerun the same command to resume",
        "--plugin": "Missing value for flag --plugin",
        "--plugin=file": "The plug-in 'file' failed: ModuleNotFoundError: No module named 'file'",
        "--out=file/below": "--out=file/below cannot be written",
        "--set temperature=2": "expected NAMESPACE.NAME=VALUE with a namespace of ",
        "--set router.=2": "expected NAMESPACE.NAME=VALUE",
        "--set task.num_rules=4": "task.num_rules is not known. The options of the families: form,",
        "--set task.search=v2": "search='v2' has no meaning for arch='mlp', whose options are: form, zipf",
        "--set router.heat=2": "router.heat is not known. The options of monolithic and modular and ",
        "--steps=5 --set training.steps=6": "--steps and --set training.steps cannot both be given",
        "--set model.cell=simple --set model.cell=lstm": "model.cell=lstm: model.cell is given twice",
        "--arch=mha --search=v1 --set task.search=v2": "task.search is given twice",
        "--arch=vqa_mnist --variant=gt_modular --set=model.library=sub_bogus_all":
            "library='sub_bogus_all' is not valid; expected",
        "--arch=vqa_mnist --variant=modular_op --set=model.library=all_all_all":
            "has a router, but library='all_all_all' has no routed layer",
    },
    "sweep": {
        "": "Give --study=NAME or --arch",
        "--arch=mlp --rules=two": "--rules=two: expected integers",
        "--arch=mlp --variant=": "--variant is empty; expected one or more of monolithic",
        "--arch=mlp,vqa_mnist --variant=group_all_all":
            "--variant=group_all_all: mlp has none of these variants. Leave --arch=mlp out, or add one of",
        "--arch=mlp --setting=ranking": "setting='ranking' is not known",
        "--arch=mlp --tasks=0": "tasks=0 is not valid",
        "--arch=mlp --model=mine": "--model='mine' is not known; registered: none",
        "--arch=mlp --set model.cell=lstm": "--set model.cell is not known. The options of the arch",
        "--arch=mlp --set training.speed=2": "--set training.speed is not known. The options of training:",
        "--arch=mlp --set training.steps=many": "steps='many' is not valid; expected an integer",
        "--arch=mlp --set training.clipnorm=-1": "clipnorm=-1 is not valid; expected a number",
        "--arch=mlp --set evaluation.conditions=len30": "condition='len30' is not known; expected one of",
        "--study=testing --measure_cost": "--measure_cost applies to --dry_run only",
        "--study=testing --shard=3/3": "--shard=3/3 is not valid; expected i/n",
        "--study=testing --workers=0": "workers=0 is not valid",
        "--study=testing --gpus_per_cell=1": "--gpus_per_cell has no meaning for --engine=local",
        "--study=testing --engine=ray --workers=2": "--workers has no meaning for --engine=ray",
        "--study=paper --steps=5": "--steps cannot be given with --study",
        "--study=paper --set=training.steps=5": "--set cannot be given with --study",
        "--study=paper --search=v2": "--search cannot be given with --study",
        "--study=paper --rules=3": "--rules=3 is not known; expected one of 2, 4, 8, 16, 32",
    },
    "tune": {
        "--points=1": "--points=1 is not valid; expected an integer of at least 2",
        "--trials=0": "--trials=0 is not valid",
        "--space=learning_rate=2:1": "expected a first number below the second",
        "--space=learning_rate=1e-4,1e-3 --learning_rate=0.1": "--space learning_rate and a fixed",
        "--learning_rate=0.1 --variant=modular": "'modular' has nothing to tune",
        "--space=router.k=1,2 --variant=modular": "--space router.k is not known",
        "--oracle=bayesian --shard=0/2": "--shard applies to grid and random only, because",
        "--oracle=random --points=3": "--points applies to grid only, because random draws",
        "--study=paper --steps=3": "--steps cannot be given with --study",
        "--space=router.k=1,9 --variant=top_k --rules=2": "k=9 is not valid; expected at most 2",
    },
    "report": {
        "--results=, --out=out": "Give --results=DIR",
        "--results=absent": "--out=DIR",
        "--results=absent --archive=a.zip --vector=pdf": "--vector needs --out=DIR",
        "--results=absent --archive=a.zip --width=32": "--width needs --out=DIR",
        "--results=absent --out=out": "folder 'absent' does not exist",
        "--results=absent --out=out --figures=pie_in_the_sky": "ranking_pies",
    },
    "scorecard": {
        "": "Give --variant=NAME",
        "--variant=top_k --set=training.steps=9": "--set training.steps: modtf-3 fixes this option for all",
        "--variant=top_k --set=router.kk=2": "--set router.kk is not known. The options of 'top_k'",
        "--variant=top_k --compare=theirs.json": "theirs.json is not a scorecard (FileNotFound",
        "--variant=top_k --compare=a/b.json,c/b.json": "two cards have the same name",
        "--variant=top_k --set=router.k=9 --smoke": "k=9 is not valid; expected at most 8",
    },
    "measure": {
        "": "Give --activations=x.npz",
        "--activations=absent.npz --out=out": "does not exist",
        "--activations=file --out=out": "has an unknown format; expected one of ",
    },
    "prepare": {
        "": "--configs",
        "--configs=mlp_regression_r1_task0": "at least 2 rules",
        "--configs=mlp_* --file_format=csv": "expected one of tfrecord, array_record",
    },
}  # fmt: skip
WITHOUT_KERAS = ("run", "sweep", "report", "measure")


@pytest.mark.parametrize(("name", "arguments"), [(name, one) for name in REFUSED for one in REFUSED[name]])
def test_one_line(name, arguments, call, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    command = importlib.import_module(f"modtf.launch.{name}").command
    if name in WITHOUT_KERAS and "--set" not in arguments:
        for library in ("tensorflow", "keras"):
            monkeypatch.setitem(sys.modules, library, None)  # an import fails
    status, _, error = call(command, f"{name}.py", *shlex.split(arguments))
    assert status == 1
    line, *hints = error.splitlines()
    assert line.startswith(f"{name}.py: error: ")
    assert REFUSED[name][arguments] in error
    assert len(hints) <= (name == "prepare"), "absl adds a hint to what it finds itself"
    assert os.listdir(tmp_path) == ["file"], "something was written"
