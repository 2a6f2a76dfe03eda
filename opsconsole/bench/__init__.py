"""Open-loop load and what it measures: goodput."""
