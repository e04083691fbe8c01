"""Make the output, the picture and the table of docs/measure.md: `python docs/scripts/draw_measure.py`.

Six layers of 16 experts, top-2, route 200 documents of 100 tokens from four domains. Each document has its
own preferences. The deeper the layer, the more its experts depend on the domain; layer 0 does not.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

import modtf
from modtf.pages.text import markdown_table
from modtf.routing import Names, report_text, write_routing_report
from modtf.routing.report.findings import findings

LAYERS, EXPERTS, DOCUMENTS, LENGTH = 6, 16, 200, 100
DOMAINS = ("code", "law", "news", "verse")
ROUTERS = 30  # routers without information about labels, for the table
Ints, Array = NDArray[np.int64], NDArray[np.float64]
IMAGE = Path(__file__).parents[1] / "images" / "measure_layers.png"


def routed(documents: Ints, domains: Ints, depth: float, seed: int) -> tuple[Ints, Array]:
    """Return the two experts of each token and their weights: by its document and, by `depth`, its domain."""
    generator = np.random.default_rng(seed)
    by_document = generator.normal(size=(documents.max() + 1, EXPERTS))
    by_domain = depth * generator.normal(size=(domains.max() + 1, EXPERTS))
    scores = by_document[documents] + by_domain[domains] + generator.gumbel(size=(len(documents), EXPERTS))
    experts = np.argsort(-scores, axis=1)[:, :2]
    return experts, np.exp(np.take_along_axis(scores, experts, axis=1))


def smallest(num_documents: int, length: int, num_labels: int = 8) -> float:
    """Return the median adjusted mutual information that a router needs to be beyond chance."""
    documents = np.repeat(np.arange(num_documents), length)
    labels = documents % num_labels
    found = []
    for seed in range(ROUTERS):
        (layer,) = modtf.measure_activations(
            labels=labels, documents=documents, experts=routed(documents, labels, 0.0, seed)[0],
            num_experts=EXPERTS, groups=["specialisation"], num_groups=2,
        )  # fmt: skip
        found.append(layer.hard.values["adjusted_mutual_information"].chance_high)
    return float(np.median(found))


def main() -> None:
    """Print the output and the table, and write the picture."""
    documents = np.repeat(np.arange(DOCUMENTS), LENGTH)
    domains = documents % len(DOMAINS)
    both = [routed(documents, domains, 0.2 * layer, layer) for layer in range(LAYERS)]
    experts, weights = map(np.stack, zip(*both, strict=True))
    layers = modtf.measure_activations(
        labels=domains, documents=documents, experts=experts, weights=weights, num_experts=EXPERTS
    )
    print(report_text(layers), *findings(layers, Names(labels=DOMAINS), {}), sep="\n")
    with TemporaryDirectory() as folder:
        write_routing_report(layers, folder, Names(labels=DOMAINS))
        IMAGE.write_bytes((Path(folder) / "layers.png").read_bytes())
    if "--table" in sys.argv:
        sizes = (16, 64, 200, 1000)
        rows = [[f"{n:,}", *(f"{smallest(n, length):.3f}" for length in (10, 100, 400))] for n in sizes]
        print(markdown_table(["documents", "10 tokens each", "100 tokens each", "400 tokens each"], rows))


if __name__ == "__main__":
    main()
