"""The agent: one tick after another, and the API that shows it."""
