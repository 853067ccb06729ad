"""Operations of a library in its calls: events of its plug-in interface, compared across ranks."""
