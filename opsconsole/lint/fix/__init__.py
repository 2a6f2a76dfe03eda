"""Fixes: rewrites of logs and sources that conserve what the prompt says."""
