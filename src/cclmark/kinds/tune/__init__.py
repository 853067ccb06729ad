"""Settings that are proven to be faster: search, proof, artifacts."""
