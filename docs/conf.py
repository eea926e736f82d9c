"""Configuration of the documentation. Everything is local: building and reading it need no network."""

from __future__ import annotations

import re
from enum import Enum

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

import dconnet

project = "dconnet"
author = "The dconnet developers"
project_copyright = "2026, the dconnet developers"
version = release = dconnet.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "reproduction/*.md", "tabular/*.md", "benchmarks/*.md"]  # parts that pages include
templates_path = ["_templates"]

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_typehints = "none"  # the docstrings give types and shapes
autodoc_member_order = "groupwise"
autosummary_generate = True
toc_object_entries_show_parents = "hide"  # "fit", not "DCONRegressor.fit", beside the page
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["ref.ref"]  # labels of scikit-learn in the docstrings of inherited methods
default_role = "py:obj"
# Examples of optional packages are skipped where they are not installed.
doctest_global_setup = "from importlib.util import find_spec"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e6,  # how long an example takes depends on who builds the page
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "abort_on_example_error": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"dconnet {release}"
html_static_path = ["_static"]
html_css_files = ["dconnet.css"]
html_show_sourcelink = False
html_copy_source = False
# Every page of a section has the pages of that section beside it; the front page and the search have none.
html_sidebars = {page: [] for page in ("index", "search")}
html_math_renderer = "mathml"
html_theme_options = {
    "navigation_with_keys": False,
    "navbar_align": "left",
    "header_links_before_dropdown": 5,
    "show_nav_level": 2,
    "navigation_depth": 2,
    "show_prev_next": True,
    "secondary_sidebar_items": {
        "*": ["page-toc"],
        "generated/*": ["page-toc"],
        "tabular-ranks": [],
    },  # the code of examples needs the room
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _as_written(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Keep reStructuredText from reading markup into formulas, which docstrings indent, and into shapes."""
    for i in range(len(lines) - 2, 0, -1):
        text, gap, formula = lines[i - 1 : i + 2]
        if text and not text.startswith(" ") and not gap and formula.startswith("    "):
            lines[i + 1 : i + 1] = ["::", ""]


def _plain_name(app: Sphinx, what: str, name: str, obj: object, *_: object) -> tuple[str, None] | None:
    """Enumerations and protocols are not called: leave out what they would be called with."""
    is_called = what != "class" or not (issubclass(obj, Enum) or getattr(obj, "_is_protocol", False))
    return None if is_called else ("", None)


def _pair_bars(formula: str) -> str:
    """Mark bars as opening or closing: MathML spaces single bars like relations and detaches exponents from them."""
    for name, bar in (
        (r"\lVert", r"\left\|"),
        (r"\rVert", r"\right\|"),
        (r"\lvert", r"\left|"),
        (r"\rvert", r"\right|"),
    ):
        formula = formula.replace(name, bar)
    parts = re.split(r"((?:\\left|\\right)?(?:\\\||\|))", formula)
    for bar in (r"\|", "|"):
        single = [i for i, part in enumerate(parts) if part == bar]
        if len(single) % 2 == 0:
            for i, place in enumerate(single):
                parts[place] = (r"\left" if i % 2 == 0 else r"\right") + bar
    return "".join(parts)


def _mathml(self: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    """Write a formula as MathML, which browsers draw themselves, without a script from elsewhere."""
    formula = latex2mathml.tex2mathml(_pair_bars(node.astext()), as_block=block)
    self.body.append(f'<div class="math">{formula}</div>\n' if block else formula)
    raise nodes.SkipNode


def _inline(self: HTML5Translator, node: nodes.Element) -> None:
    _mathml(self, node, block=False)


def _display(self: HTML5Translator, node: nodes.Element) -> None:
    _mathml(self, node, block=True)


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", _as_written, priority=100)  # before numpydoc
    app.connect("autodoc-process-signature", _plain_name)
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
