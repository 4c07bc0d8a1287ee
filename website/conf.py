"""Settings of Sphinx; `make docs` gives it the staged pages."""

project = "aclgrad"
author = "The aclgrad developers"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
highlight_language = "text"
# Links to headings, by the names that they have in a repository's viewer too.
myst_heading_anchors = 3

html_theme = "furo"
html_title = "aclgrad"
html_static_path = ["assets"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_permalinks_icon = "#"
