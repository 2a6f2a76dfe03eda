"""Widgets that draw cells: the grid, bars and lines."""
