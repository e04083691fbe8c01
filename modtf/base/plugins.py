"""Files and packages of users that register families, routers, models, measures and so on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module, util
from pathlib import Path

from modtf.base.process import Terminated

_texts: dict[str, bytes] = {}  # of the files that were imported


class PluginError(ValueError):
    """An error for a plug-in that cannot be loaded. The message has the place and the reason."""


def load_plugin(location: str | Path) -> str:
    """Import a file, "path/to/file.py", or a module, which registers its contents. A second import of the
    same text does nothing. A file can import its neighbours, as a script can.

    Returns:
        The location, absolute for a file, so that other processes can load it.

    Raises:
        PluginError: if it does not exist, raises an error, or was imported before with another text.

    Example:
        >>> modtf.load_plugin("my_router.py")  # doctest: +SKIP
    """
    text = str(location)
    if not (text.endswith(".py") or "/" in text):
        with _explained(text):
            import_module(text)
        return text
    path = Path(text).resolve()
    if not path.is_file():
        raise PluginError(
            f"The plug-in {text!r} does not exist as a file. Give a file that ends in .py, or the name of a "
            "module."
        )
    name = path.stem
    if name in sys.modules:
        file = getattr(sys.modules[name], "__file__", None)
        if file == str(path):
            if _texts.get(file) not in (None, path.read_bytes()):
                raise PluginError(
                    f"The plug-in {text!r} has changed since this process loaded it. Start a new process."
                )
            return str(path)
        raise PluginError(
            f"The plug-in {text!r} would become the module {name!r}, which exists already ({file}). Rename "
            "the file."
        )
    spec = util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = util.module_from_spec(spec)  # a class finds its module by this name
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # last, so that no neighbour hides an installed module
    _texts[str(path)] = path.read_bytes()
    with _explained(text):
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return str(path)


@contextmanager
def _explained(text: str) -> Iterator[None]:
    try:
        yield
    except Terminated:
        raise
    except (Exception, SystemExit) as error:  # sys.exit(0) in a plug-in must not look like success
        place = line_in(error, text)
        raise PluginError(f"The plug-in {text!r} failed{place}: {type(error).__name__}: {error}") from error


def line_in(error: BaseException, file: str) -> str:
    """Return the line of a user's file where an error arose, " in line 12", or "" if it arose elsewhere."""
    trace, line = error.__traceback__, None
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).name == Path(file).name:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f" in line {line}" if line else ""
