"""The engine "here", which runs cells in the process of the command itself."""

from modtf.engines import register_engine
from modtf.engines.work import Event, work_on


@register_engine("here")
class HereEngine:
    """One cell after the other."""

    is_here = True

    def run(self, cells, work):
        for cell in cells:
            yield Event(cell, 0, work_on(cell, work, work.prepare()))
