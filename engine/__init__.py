"""A small, honest inference engine: requests in, tokens out."""
