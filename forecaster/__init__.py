"""Series in, quantiles out."""
