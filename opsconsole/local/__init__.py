"""Single-node mode: supervisor, engine workers, router."""
