"""Inputs to ordered parts: Python, JS/TS, templates, chat templates."""
