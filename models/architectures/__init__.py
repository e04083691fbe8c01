"""Architectures: one file and one line here adds one; every router then works with it."""

from modtf.registry import Registry

ARCHITECTURES: Registry = Registry(
    "architecture",
    {
        "mlp": "modtf.models.architectures.mlp:ModularMLP",
        "mha": "modtf.models.architectures.mha:ModularMHA",
        "rnn": "modtf.models.architectures.rnn:ModularRNN",
    },
)
