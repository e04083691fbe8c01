"""The version of modtf."""

__version__ = "0.1.0"
