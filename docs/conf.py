"""How Sphinx builds the site; `make docs` calls it with warnings as errors."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import site_figures  # noqa: E402

import unshuffle  # noqa: E402

project = "unshuffle"
author = "The unshuffle developers"
copyright = "The unshuffle developers, BSD-3-Clause"
version = release = unshuffle.__version__

extensions = [
    "mathml",
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
html_math_renderer = "mathml"
default_role = "code"  # single backticks of docstrings
toc_object_entries_show_parents = "hide"
exclude_patterns = ["_build", "_samples", "gallery", "**/README.*", "sg_execution_times.rst"]
templates_path = ["_templates"]

# Names of the site's own must resolve. What stays unresolved are words of numpydoc's type lines
# ("optional", "sequence of int") and classes of other projects, which are not linked.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!unshuffle\b).*")]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = "unshuffle"
html_static_path = ["_static"]
html_extra_path = ["_samples"]  # pages that the commands write, made anew by every build
html_css_files = ["site.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 9,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "default",
    "pygments_dark_style": "github-dark",
}
# Pages without pages below them need no list of these.
html_sidebars = {
    page: []
    for page in (
        "installation",
        "start",
        "reading-the-output",
        "will-it-work",
        "methods",
        "troubleshooting",
        "posterior",
        "related-work",
        "benchmarks",
        "architecture",
        "glossary",
        "references",
        "reproduction",
        "changelog",
    )
}
html_show_sourcelink = False
html_copy_source = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": False,
    "only_warn_on_example_error": False,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "reference_url": {"unshuffle": None},
    "doc_module": ("unshuffle",),
    "image_scrapers": ("matplotlib",),
    "matplotlib_animations": False,
}

# A verdict stands in the text of each page; warnings beside it would say the same again.
warnings.filterwarnings("ignore", category=UserWarning, module=r"unshuffle\b")


def escape_bars(app, what, name, obj, options, lines) -> None:
    """Keep |w| of a docstring a size: reStructuredText would look for a substitution."""
    lines[:] = [line if "``" in line else line.replace("|", r"\|") for line in lines]


def link_gallery(app, docname, source) -> None:
    """Lead links to scripts of the gallery to their pages, which only the build has."""
    for here, there in ((r"(plot_\w+)\.py", r"\1.rst"), (r"GALLERY_HEADER\.rst", "index.rst")):
        source[0] = re.sub(
            rf"\]\((?:\.\./)*gallery/{here}\)", rf"](/auto_gallery/{there})", source[0]
        )


OUTPUT = re.compile(
    r'(<div class="highlight-text[^>]*><div class="highlight"><pre>)(.*?)</pre>', re.S
)


def wrap_sentences(app, pagename, templatename, context, doctree) -> None:
    """Let sentences in printed outputs wrap, and tables in them scroll sideways."""

    def mark(line: str) -> str:
        is_table = "  " in line.strip() or "──" in line
        return line if is_table or len(line) < 60 else f'<span class="sentence">{line}</span>'

    def mark_all(found: re.Match[str]) -> str:
        lines = "\n".join(map(mark, found[2].split("\n")))
        return f"{found[1]}{lines}</pre>"

    context["body"] = OUTPUT.sub(mark_all, context.get("body", ""))


def setup(app) -> None:
    """Write samples before anything is read, and adapt pages and docstrings as they are."""
    site_figures.write_samples(HERE / "_samples")
    app.connect("source-read", link_gallery)
    app.connect("html-page-context", wrap_sentences)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)  # after numpydoc
