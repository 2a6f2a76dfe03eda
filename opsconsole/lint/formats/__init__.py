"""Request formats: each module turns one decoded JSON record into prompt parts in provider order."""
