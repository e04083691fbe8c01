"""Task families: how tokens are made and labelled. One file and one line here adds a family."""

from modtf.registry import Registry

FAMILIES: Registry = Registry(
    "task family",
    {
        "mlp": "modtf.datasets.families.mlp:Affine",
        "mha": "modtf.datasets.families.mha:Search",
        "rnn": "modtf.datasets.families.rnn:LinearDynamics",
    },
)
