"""The page: one HTML file without external resources."""
