#!/usr/bin/env python3
"""Executes docs/notebook.ipynb; 77 where jupyter, pandas or matplotlib is missing."""

import pathlib
import sys

try:
    import matplotlib  # noqa: F401
    import nbconvert.preprocessors
    import nbformat
    import pandas  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
notebook = nbformat.read(ROOT / "docs/notebook.ipynb", as_version=4)
nbconvert.preprocessors.ExecutePreprocessor(timeout=300).preprocess(notebook, {"metadata": {"path": str(ROOT / "docs")}})
kinds = [set().union(*(output.get("data", {}) for output in cell.outputs)) for cell in notebook.cells
         if cell.cell_type == "code"]
shown = set().union(*kinds)
assert {"image/png", "text/html"} <= shown, shown  # the plot, the table and the page
assert any("<iframe" in output["data"]["text/html"] for cell in notebook.cells if cell.cell_type == "code"
           for output in cell.outputs if "text/html" in output.get("data", {}))
print(f"{len(kinds)} cells")
