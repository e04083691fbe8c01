"""The engine "here", which runs cells in the process of the command itself."""

from dummy import Here

from modtf.engines import register_engine

register_engine("here")(Here)
