"""What a library did in its calls: events of its plug-in interface, compared across ranks."""
