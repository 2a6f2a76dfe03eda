"""What was seen: one SQLite file with history and journal."""
