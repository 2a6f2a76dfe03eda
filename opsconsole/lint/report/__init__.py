"""Reports: one module per output format, all pure functions from a result to text."""
