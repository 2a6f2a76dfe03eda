/* One span of attention with AMX: 16 queries by 16 keys, then 16 queries by 16 dimensions, a tile at a time, from blocks of
 * bf16 as they lie in memory. Queries and weights are rounded to bf16, sums are float32. Included by attention.c alone.
 * Tiles 0-3 sums, 4 queries, 5 keys (32 dimensions of 16 tokens), 6 weights (of 16 tokens), 7 values (8 pairs of tokens). */
#include "amx.h"

static void begin_tiles(const Round *r, const float *q, uint16_t *narrow_q, uint16_t *weights, int64_t room) {
    int64_t size = r->a->size, used = r->queries * size;
    for (int64_t i = 0; i < used; i += LANES) store_kind(narrow_q, i, load(q + i), BFLOAT16);
    memset(narrow_q + used, 0, (size_t)(room * size - used) * sizeof *narrow_q);
    memset(weights, 0, (size_t)(room * SPAN) * sizeof *weights);
    configure_tiles(32, 8);
}

/* Scores of all queries against the 16 keys from `token` on. */
static inline void tile_scores(const Round *r, const uint16_t *narrow_q, int64_t token, int64_t at) {
    const Attention *a = r->a;
    const uint16_t *keys = (const uint16_t *)a->keys + keys_of(r, token);
    for (int64_t i = 0; i < r->queries; i += 16) {
        _tile_zero(0);
        for (int64_t d = 0; d < a->size; d += 32) {
            _tile_loadd(4, narrow_q + i * a->size + d, a->size * 2);
            _tile_loadd(5, keys + d * a->block_size, a->block_size * 4);
            _tile_dpbf16ps(0, 4, 5);
        }
        _tile_stored(0, r->scores + i * SPAN + at, SPAN * 4);
    }
}

/* mixed of 16 queries += weights * values over the span, 64 dimensions at a time in four sums. */
static inline void tile_mix(const Round *r, const uint16_t *weights, int64_t i, int64_t from, int64_t tokens) {
    const Attention *a = r->a;
    for (int64_t d = 0; d < a->size; d += 64) {
        float *mixed = r->mixed + i * a->size + d;
        int64_t stride = a->size * 4, left = a->size - d;
        _tile_loadd(0, mixed, stride);
        if (left > 16) _tile_loadd(1, mixed + 16, stride);
        if (left > 32) _tile_loadd(2, mixed + 32, stride);
        if (left > 48) _tile_loadd(3, mixed + 48, stride);
        for (int64_t at = 0; at < tokens; at += LANES) {
            const uint16_t *values = (const uint16_t *)a->values + values_of(r, from + at) + d * 2;
            _tile_loadd(6, weights + i * SPAN + at, SPAN * 2);
            _tile_loadd(7, values, stride);
            _tile_dpbf16ps(0, 6, 7);
            if (left > 16) {
                _tile_loadd(7, values + 32, stride);
                _tile_dpbf16ps(1, 6, 7);
            }
            if (left > 32) {
                _tile_loadd(7, values + 64, stride);
                _tile_dpbf16ps(2, 6, 7);
            }
            if (left > 48) {
                _tile_loadd(7, values + 96, stride);
                _tile_dpbf16ps(3, 6, 7);
            }
        }
        _tile_stored(0, mixed, stride);
        if (left > 16) _tile_stored(1, mixed + 16, stride);
        if (left > 32) _tile_stored(2, mixed + 32, stride);
        if (left > 48) _tile_stored(3, mixed + 48, stride);
    }
}

static void tile_span(const Round *r, const uint16_t *narrow_q, uint16_t *weights, int64_t from, int64_t tokens,
                      int64_t end) {
    for (int64_t at = 0; at < tokens; at += LANES) {
        fetch_tile(r, from + at + LANES, end);
        tile_scores(r, narrow_q, from + at, at);
        hide(r, from + at, at);
    }
    for (int64_t i = 0; i < r->queries; i++) {
        soften(r, i, tokens);
        for (int64_t t = 0; t < tokens; t += LANES)
            store_kind(weights, i * SPAN + t, load(r->scores + i * SPAN + t), BFLOAT16);
    }
    for (int64_t i = 0; i < r->queries; i += 16) tile_mix(r, weights, i, from, tokens);
}
