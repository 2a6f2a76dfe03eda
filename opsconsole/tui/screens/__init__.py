"""Thin screens: they place widgets and forward messages."""
