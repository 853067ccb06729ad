"""Starting ranks and standing by until they are gone."""
