"""Llama-family decoders as published."""
