<<<<<<< HEAD
"""Settings that are proven to be faster: search, proof, artifacts."""
=======
"""Searches for faster settings and proves them: statistics only, the caller measures."""
>>>>>>> search
