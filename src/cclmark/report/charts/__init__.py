"""Charts as picture files, SVG and PNG, drawn by matplotlib.

``pictures.py`` draws the charts of ``cclmark.document.chart_model``, which a page draws in the
browser. matplotlib is an optional package, imported when a picture is requested.
"""
