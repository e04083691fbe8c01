"""Make the site's pages from notebooks without outputs, and its first page from the README."""

import json
import re
from pathlib import Path
from typing import Any

README = Path(__file__).parents[2] / "README.md"


def markdown_of(notebook: dict[str, Any], name: str) -> str:
    """Return the cells of a notebook as a page, with a link to download it."""
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
    parts = [f"```python\n{text}\n```" if kind == "code" else text for kind, text in cells]
    return "\n\n".join([*parts, f'<a href="{name}" download>Download {name}</a>, and run it.', ""])


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File  # an optional dependency, in the docs extra

    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        content = markdown_of(json.loads(file.content_string), file.src_uri)
        files.append(File.generated(config, page_of(file.src_uri), content=content))
    files.append(File.generated(config, "index.md", content=first_page(README.read_text("utf-8"))))
    return files


def first_page(readme: str) -> str:
    """Return the README with links as the site has them; files outside docs/ are named without a link."""
    return re.sub(r"(?<!!)\[([^\]]*)\]\((?!docs/)[^):]*\)", r"\1", readme).replace("](docs/", "](")


def on_page_markdown(markdown: str, **_: Any) -> str:
    return re.sub(r"\]\((\w+\.ipynb)\)", lambda link: f"]({page_of(link[1])})", markdown)


def page_of(name: str) -> str:
    """ "first_look.ipynb" -> "first_look_notebook.md": some notebook has the name of a page."""
    return name.replace(".ipynb", "_notebook.md")
