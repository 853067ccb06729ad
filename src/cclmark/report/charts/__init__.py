"""Charts as data, drawn by a browser on the page, or into picture files."""
