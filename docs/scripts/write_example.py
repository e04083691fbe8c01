"""Write the routing of `modtf measure --example` and docs/language_family.md, from trained models.

    modtf run --arch=languages --variant=top_2 --set training.steps=4000 --out=runs/example
    python docs/scripts/write_example.py runs/example

With a folder as second argument, all models are written there, as languages_VARIANT.npz.
"""

import json
import sys
from pathlib import Path

import modtf
from modtf.routing import EXAMPLE

DOCUMENTS = 160

if __name__ == "__main__":
    for model in Path(sys.argv[1]).glob("*/last.keras"):
        config = json.loads((model.parent / "config.json").read_text("utf-8"))
        named = f"languages_{config['cell']['variant']}.npz"
        path = Path(sys.argv[2], named) if len(sys.argv) > 2 else EXAMPLE
        print(
            modtf.write_routing(modtf.load_model(model), [modtf.Task("languages")], path, examples=DOCUMENTS)
        )
