"""Write the routing that `modtf measure --example` reads, from a small trained language model.

modtf run --arch=languages --variant=top_2 --set training.steps=4000 --out=runs/example
python docs/scripts/write_example.py runs/example
"""

import sys
from pathlib import Path

import modtf
from modtf.routing import EXAMPLE

DOCUMENTS = 160

if __name__ == "__main__":
    [model] = Path(sys.argv[1]).glob("*/last.keras")
    task = modtf.Task("languages")
    print(modtf.write_routing(modtf.load_model(model), [task], EXAMPLE, examples=DOCUMENTS))
