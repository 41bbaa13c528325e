"""Sphinx's settings for the site. ``tools/docs_site.py`` puts pages next to this file; nothing comes from a network."""

from __future__ import annotations

import sys
from pathlib import Path

import naq

sys.path.insert(0, str(Path(__file__).parent))

project = "NaQ"
author = copyright = "the NaQ contributors"
version = release = naq.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "known_names",
]
myst_heading_anchors = 3
nitpicky = True
exclude_patterns = ["examples"]  # read by the gallery

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_custom_sections = [("Options", "params_style"), "Shapes", "Cost"]
napoleon_use_rtype = False
add_module_names = False
python_maximum_signature_line_length = 100

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "min_reported_time": 1e9,
}

html_theme = "pydata_sphinx_theme"
html_title = f"NaQ {naq.__version__}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "NaQ"},
    "show_prev_next": False,
    "navigation_depth": 2,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "start": [], "api": []}
