"""Engines' metric names as versioned tables, and the one normaliser that reads them."""
