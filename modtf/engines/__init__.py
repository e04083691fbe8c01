"""The engines that run the cells of a study. A new engine is one file and one line here."""

from typing import TYPE_CHECKING, Any

from modtf.base.registry import Registry

if TYPE_CHECKING:
    from modtf.engines.work import Engine


def check_engine(name: str, engine: Any) -> None:
    """Raise `ValueError` if an engine lacks something that a study requires."""
    if not callable(getattr(engine, "run", None)):
        raise ValueError(
            f"The engine {name!r} does not define run(cells, work), which modtf.engines.work.Engine "
            "documents."
        )


ENGINES: Registry[type["Engine"]] = Registry(
    "engine", {"local": "modtf.engines.local", "ray": "modtf.engines.on_ray"}, check_engine
)
register_engine = ENGINES.register
