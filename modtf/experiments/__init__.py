"""Experiments, one folder each, with claims, figures and studies. The registries of modtf list them."""
