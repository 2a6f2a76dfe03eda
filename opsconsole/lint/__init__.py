"""Prompt-prefix lint: what breaks the prefix cache, and what moving it wins back."""
