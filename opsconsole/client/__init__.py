"""The agent's API, spoken: all that a screen knows of the world."""
