/* Attention with AMX: 16 queries at a time against a span of keys, scores by 16 x 16 tiles, weights by 16 x 16 tiles times 64
 * dimensions, from blocks of bf16 as they lie in memory. Queries and weights are rounded to bf16, sums are float32. Included
 * by attention.c alone. Tiles 0-3 sums, 4 queries, 5 keys (32 dimensions of 16 tokens), 6 weights (of 16 tokens), 7 values
 * (8 pairs of tokens).
 *
 * Scores are in powers of two (the scale holds log2 e), as 2^x needs no range reduction by ln 2. */
#include "amx.h"

/* Scores of 16 queries against the first `tokens` of a span; keys and values before `fetched` are fetched ahead. */
static inline void tile_scores(const Round *r, const uint16_t *queries, int64_t from, int64_t tokens, int64_t fetched) {
    const Attention *a = r->a;
    for (int64_t at = 0; at < tokens; at += LANES) {
        fetch_tile(r, from + at + LANES, fetched);
        const uint16_t *keys = (const uint16_t *)a->keys + keys_of(r, from + at);
        _tile_zero(0);
        for (int64_t d = 0; d < a->size; d += 32) {
            _tile_loadd(4, queries + d, a->size * 2);
            _tile_loadd(5, keys + d * a->block_size, a->block_size * 4);
            _tile_dpbf16ps(0, 4, 5);
        }
        _tile_stored(0, r->scores + at, SPAN * 4);
    }
}

/* mixed of 16 queries += weights * values over the span, 64 dimensions at a time in four sums. */
static inline void tile_mix(const Round *r, const uint16_t *weights, float *mixed, int64_t from, int64_t tokens) {
    const Attention *a = r->a;
    int64_t stride = a->size * 4;
    for (int64_t d = 0; d < a->size; d += 64, mixed += 64) {
        int64_t left = a->size - d;
        _tile_loadd(0, mixed, stride);
        if (left > 16) _tile_loadd(1, mixed + 16, stride);
        if (left > 32) _tile_loadd(2, mixed + 32, stride);
        if (left > 48) _tile_loadd(3, mixed + 48, stride);
        for (int64_t at = 0; at < tokens; at += LANES) {
            const uint16_t *values = (const uint16_t *)a->values + values_of(r, from + at) + d * 2;
            _tile_loadd(6, weights + at, SPAN * 2);
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

/* 2^x to 3e-6, a few hundred times finer than bf16 keeps it; exactly 0 far below. */
static inline __m512 power_of_two(__m512 x) {
    __m512 n = _mm512_roundscale_ps(x, 8), r = _mm512_sub_ps(x, n), p = _mm512_set1_ps(9.570123e-3f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.5917861e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.24024744f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.69312201f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    return _mm512_scalef_ps(p, n);
}

/* As `soften`, of one line of scores, with the weights in bf16 beside. */
static inline void soften_line(const Round *r, int64_t i, const float *scores, uint16_t *weights, int64_t tokens) {
    float *mixed = r->mixed + i * r->a->size;
    __m512 best = _mm512_set1_ps(r->most[i]), sum = _mm512_setzero_ps();
    for (int64_t t = 0; t < tokens; t += LANES) best = _mm512_max_ps(best, _mm512_loadu_ps(scores + t));
    float now = _mm512_reduce_max_ps(best);
    __m512 most = _mm512_set1_ps(now);
    for (int64_t t = 0; t < tokens; t += LANES) {
        __m512 weight = power_of_two(_mm512_sub_ps(_mm512_loadu_ps(scores + t), most));
        sum = _mm512_add_ps(sum, weight);
        __m256bh narrow = _mm512_cvtneps_pbh(weight);
        memcpy(weights + t, &narrow, sizeof narrow);
    }
    if (r->most[i] == now) {
        r->total[i] += _mm512_reduce_add_ps(sum);
        return;
    }
    float rescale = _mm512_cvtss_f32(power_of_two(_mm512_set1_ps(r->most[i] - now)));
    r->total[i] = r->total[i] * rescale + _mm512_reduce_add_ps(sum);
    r->most[i] = now;
    for (int64_t d = 0; d < r->a->size; d += LANES) store(mixed + d, load(mixed + d) * rescale);
}

/* Hides from a query at `position` what it may not see of a line of scores. */
static inline void hide_in_line(const Round *r, int64_t position, int64_t from, int64_t tokens, float *scores) {
    int64_t window = r->a->window, oldest = window ? position - window + 1 : 0;
    if (from + tokens - 1 <= position && from >= oldest) return;
    __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int64_t t = 0; t < tokens; t += LANES) {
        __m512i token = _mm512_add_epi32(lane, _mm512_set1_epi32((int32_t)(from + t)));
        __mmask16 hidden = _mm512_cmpgt_epi32_mask(token, _mm512_set1_epi32((int32_t)position)) |
                           _mm512_cmplt_epi32_mask(token, _mm512_set1_epi32((int32_t)oldest));
        _mm512_mask_storeu_ps(scores + t, hidden, _mm512_set1_ps(MASKED));
    }
}

/* All queries against the keys of one span, 16 at a time; `scores` and `weights` have room for 16 lines. */
static void tile_span(const Round *r, const uint16_t *narrow_q, uint16_t *weights, int64_t from, int64_t end) {
    for (int64_t i = 0; i < r->queries; i += 16) {
        int64_t taken = r->queries - i < 16 ? r->queries - i : 16, last = r->position + (i + taken - 1) / r->group;
        if (last < from) continue; /* all of it lies after these */
        int64_t tokens = (last + 1 < end ? last + 1 : end) - from;
        tokens = tokens < SPAN ? (tokens + LANES - 1) / LANES * LANES : SPAN;
        tile_scores(r, narrow_q + i * r->a->size, from, tokens, i == 0 ? end : 0);
        for (int64_t line = 0; line < taken; line++) {
            float *scores = r->scores + line * SPAN;
            hide_in_line(r, r->position + (i + line) / r->group, from, tokens, scores);
            soften_line(r, i + line, scores, weights + line * SPAN, tokens);
        }
        tile_mix(r, weights, r->mixed + i * r->a->size, from, tokens);
    }
}

/* All spans of a task. Lines past the last query have queries and weights of 0. */
static void attend_by_tiles(const Round *r, const float *q, int64_t begin, int64_t end) {
    int64_t size = r->a->size, used = r->queries * size, room = (r->queries + 15) / 16 * 16 * size;
    uint16_t narrow_q[room] __attribute__((aligned(64))), weights[16 * SPAN] __attribute__((aligned(64)));
    for (int64_t i = 0; i < used; i += LANES) store_kind(narrow_q, i, load(q + i) * 1.44269504f, BFLOAT16);
    memset(narrow_q + used, 0, (size_t)(room - used) * sizeof *narrow_q);
    memset(weights, 0, sizeof weights);
    configure_tiles(32, 8);
    for (int64_t from = begin / SPAN * SPAN; from < end; from += SPAN) tile_span(r, narrow_q, weights, from, end);
    _tile_release();
}
