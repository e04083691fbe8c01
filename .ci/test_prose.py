"""The project's English: what a program can check of it."""

import ast
import math
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
SOURCES = [
    path
    for folder in ("datasets", "models", "metrics", "launch", "modtf", "examples", "docs", "tests")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not (folder == "modtf" and path.is_relative_to(ROOT / "modtf/modtf"))
]
BAD_STARTS = re.compile(r"^(Of|What|Whose|Whoever|Those|That|Who)\b")
# Words that the project no longer uses, and the word that it uses.
WORDS = {
    r"newcomers?": "your router, the submitted router",
    r"chosen blindly|picked blindly|blind routing": "random routing",
    r"is no model": "the baseline with random routing",
    r"clamped routing|given routings?|routings? that (is|are) given": "fixed routing",
    r"twins?": "paired run",
    r"doses?": "misrouting rate",
    r"(?<!-)(?<!routing )atlas": "routing report",  # the name of a format that is read
    r"soft/mixed": "weighted",
    r"rows that are shipped|shipped rows": "reference results",
    r"specialised starts?": "warm start",
    r"goes on where it was": "resumes",
    r"whichever module it is": "best match",
    r"an? other": "another",
    r"no less than": "at least",
    r"whose they are|whose it is": "say who wrote it",
}
SENTENCE_MEDIAN, SENTENCE_MOST = 20, 40
# Words of a page at most; see `num_visible`.
WORDS_MOST = dict.fromkeys(
    ("constant_rates", "corruptions", "languages", "languages_order", "measures", "misrouting",
     "open_questions", "routers_results", "routing_claims", "scorecard", "sqoop", "study", "vqa"), 600,
) | {"findings": 500, "measure": 1_200}  # fmt: skip
ALL_WORDS_MOST = 45_000


def prose(page: Path) -> Iterator[str]:
    """Yield the paragraphs of a page, without code, tables, HTML and links' addresses."""
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->|<[^>\n]+>", "", text, flags=re.DOTALL)
    text = re.sub(r"^\*[^*]+\* *$", "", text, flags=re.MULTILINE)  # what a table stands on
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*|#:]|\d+\.) )", text):
        block = block.strip("\n")
        if block.strip() and not re.match(r"\s*[|#:=]|\s{4}", block):
            yield re.sub(r"^(?:[-*]|\d+\.) ", "", " ".join(block.split()))


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page."""
    return [s for block in prose(page) for s in re.split(r"(?<=[.!?])[)\"*]* (?=[A-Z`*\[(])", block) if s]


def num_words(sentence: str) -> int:
    """Count the words of a sentence; a piece of code counts as one word."""
    return len(re.findall(r"\S*[A-Za-z0-9]\S*", re.sub(r"`[^`]*`", "code", sentence)))


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and text of the docstrings of a file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = re.sub(r"`[^`]*`|^ *>>>.*$", "", ast.get_docstring(node) or "", flags=re.MULTILINE)
            if text:
                yield getattr(node, "lineno", 1), text


def num_visible(page: Path) -> int:
    """Count the words that a reader of a page sees, captions and alternative texts included, tables not."""
    text = re.sub(r"<!--.*?-->|</?\w[^>\n]*>", "", page.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"^\s*\|.*$", "", text, flags=re.MULTILINE)
    return len(re.findall(r"\S*[A-Za-z0-9]\S*", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)))


def test_pages_are_short():
    words = {page.stem: num_visible(page) for page in PAGES}
    assert not {name: number for name, number in words.items() if number > WORDS_MOST.get(name, math.inf)}
    assert sum(words.values()) <= ALL_WORDS_MOST


def test_the_readme_begins_with_its_commands():
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert len(lines) <= 110
    assert {"<!-- install-and-run -->", "<!-- install-and-test -->"} <= set(lines[:50])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_answers_have_two_small_tables_and_a_picture(page):
    text = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    if WORDS_MOST.get(page.stem, 0) == 600:
        tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
        assert len(tables) <= 2
        assert all(table.count("\n") <= 2 + 8 for table in tables)
        assert text.count("![") <= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page):
    lengths = {sentence: num_words(sentence) for sentence in sentences(page)}
    long = [sentence for sentence, length in lengths.items() if length > SENTENCE_MOST]
    assert not long
    assert statistics.median(lengths.values() or [0]) < SENTENCE_MEDIAN


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_have_a_known_language_and_links_lead_somewhere(page):
    """tests/test_documents.py runs the blocks that say `python`; those of no language are printed output."""
    text = page.read_text("utf-8")
    assert text.count("```") % 2 == 0
    assert set(re.findall(r"^```(\w*)\n.*?^```$", text, re.MULTILINE | re.DOTALL)) <= {"", "python", "bash"}
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_headings_name_their_content(page):
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    assert not list(filter(BAD_STARTS.match, headings))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_terms_of_the_field(page):
    text = "\n".join(prose(page))
    assert not {match[0]: WORDS[word] for word in WORDS for match in re.finditer(rf"(?i)\b({word})\b", text)}


def test_docstrings_begin_with_an_instruction_or_a_noun():
    bad = [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in SOURCES
        for line, text in docstrings(path)
        if BAD_STARTS.match(text)
    ]
    assert not bad


def test_docstrings_use_the_terms_of_the_field():
    bad = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]} -> {term}"
        for path in SOURCES
        for line, text in docstrings(path)
        for word, term in WORDS.items()
        for match in re.finditer(rf"(?i)\b({word})\b", text)
    ]
    assert not bad
