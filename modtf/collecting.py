"""The former module of `modtf.routing.recording`. Its names still work, with a deprecation warning."""

from modtf.moved import moved_names

__getattr__ = moved_names(__name__, {"collect": "modtf.routing.recording.collect:collect"})
