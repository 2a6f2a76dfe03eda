"""The rules, one code each."""
