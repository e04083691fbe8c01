"""Who runs the cells of a study. One file and one line here adds an engine; nothing else knows them."""

from typing import TYPE_CHECKING

from modtf.registry import Registry

if TYPE_CHECKING:
    from modtf.engines.work import Engine


ENGINES: Registry[type["Engine"]] = Registry(
    "engine", {"local": "modtf.engines.local", "ray": "modtf.engines.on_ray"}
)
register_engine = ENGINES.register
