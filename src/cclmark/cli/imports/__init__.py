"""``cclmark import``: outputs of other tools as journals.

``command.py`` has the options, with the names of all formats. ``run.py`` reads the files, passes
them to ``cclmark_importers`` and writes the journals. To add a format, see
docs/extend/add-an-importer.md.
"""
