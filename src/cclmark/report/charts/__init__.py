"""Charts as values: what is drawn. The page draws them in a browser, pictures into files."""
