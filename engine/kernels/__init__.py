"""The operators between matrix products: attention over blocks, norm, rotary embedding, SiLU; in torch and in C."""
