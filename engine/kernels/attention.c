/* Causal attention over blocks of keys and values, decode steps and prompt chunks alike, without gathering them.
 *
 * A task is some rows of one sequence times the query heads that share one key/value head, so that every key read serves
 * all of them. Keys are taken 128 at a time: scores, running softmax, weighted values. Everything is float32 inside. */
#include <stdlib.h>

#include "vector.h"

#define SPAN 128      /* keys per round of the running softmax; a multiple of 16 */
#define QUERIES 16    /* queries per task, where the shared heads allow */
#define MASKED -1e30f /* finite, so that a row of nothing else gives no NaN; a later real score scales it away */

typedef struct {
    const void *q, *keys, *values;
    void *out;
    const int32_t *tables, *starts, *offsets;
    int64_t table_width, sequences, heads, kv_heads, size, block_size, window, rows_per_task;
    float scale;
    int kind, kv_kind;
} Attention;

typedef struct {
    int32_t sequence, row, rows, kv_head;
} Task;

/* Where the 16 tokens that begin at `token` lie in the keys, in elements; values lie at the same place when whole. */
static inline int64_t tile_of(const Attention *a, const Task *t, int64_t token) {
    int64_t block = a->tables[t->sequence * a->table_width + token / a->block_size];
    return (block * a->kv_heads + t->kv_head) * a->block_size * a->size;
}

/* scores[query][0..16) of up to 4 queries against 16 keys. */
#define SCORE_QUERIES 4
static inline void score(const Attention *a, const float *q, int64_t count, int64_t tile, int64_t offset, float *scores,
                         int64_t stride) {
    floats sum[SCORE_QUERIES] = {all(0), all(0), all(0), all(0)};
    const float *rows[SCORE_QUERIES];
    for (int i = 0; i < SCORE_QUERIES; i++) rows[i] = q + (i < count ? i : 0) * a->size;
    if (a->kv_kind == FLOAT32) {
        const float *keys = (const float *)a->keys + tile + offset;
        for (int64_t d = 0; d < a->size; d++) {
            floats key = load(keys + d * a->block_size);
            for (int i = 0; i < SCORE_QUERIES; i++) sum[i] += key * rows[i][d];
        }
    } else {
        const uint16_t *keys = (const uint16_t *)a->keys + tile + offset * 2;
        for (int64_t d = 0; d < a->size; d += 2) {
            words pair = load_words(keys + d * a->block_size);
            floats even = lower(pair), odd = upper(pair);
            for (int i = 0; i < SCORE_QUERIES; i++) sum[i] += even * rows[i][d] + odd * rows[i][d + 1];
        }
    }
    for (int i = 0; i < count; i++) store(scores + i * stride, sum[i]);
}

/* mixed[query][d..d+16) += weights * values, for up to 4 queries over 16 tokens. */
static inline void mix(const Attention *a, const float *weights, int64_t count, int64_t tile, int64_t offset, int64_t d,
                       float *mixed) {
    floats sum[SCORE_QUERIES];
    const float *rows[SCORE_QUERIES];
    for (int i = 0; i < SCORE_QUERIES; i++) {
        int64_t query = i < count ? i : 0;
        rows[i] = weights + query * SPAN;
        sum[i] = load(mixed + query * a->size + d);
    }
    if (a->kv_kind == FLOAT32) {
        const float *values = (const float *)a->values + tile + offset * a->size + d;
        for (int t = 0; t < LANES; t++) {
            floats value = load(values + t * a->size);
            for (int i = 0; i < SCORE_QUERIES; i++) sum[i] += value * rows[i][t];
        }
    } else {
        const uint16_t *values = (const uint16_t *)a->values + tile + (offset / 2 * a->size + d) * 2;
        for (int t = 0; t < LANES; t += 2) {
            words pair = load_words(values + t * a->size);
            floats even = lower(pair), odd = upper(pair);
            for (int i = 0; i < SCORE_QUERIES; i++) sum[i] += even * rows[i][t] + odd * rows[i][t + 1];
        }
    }
    for (int i = 0; i < count; i++) store(mixed + i * a->size + d, sum[i]);
}

/* Hides from the query at `position` what lies after it or before its window, among the 16 tokens from `token`. */
static inline void mask(const Attention *a, int64_t position, int64_t token, float *scores) {
    int64_t oldest = a->window ? position - a->window + 1 : 0;
    if (token + LANES - 1 <= position && token >= oldest) return;
    for (int i = 0; i < LANES; i++)
        if (token + i > position || token + i < oldest) scores[i] = MASKED;
}

/* Scores of one query become weights against the running maximum; what was mixed before is scaled to it. */
static inline void soften(float *scores, int64_t tokens, int64_t size, float *most, float *total, float *mixed) {
    floats best = all(*most);
    for (int64_t i = 0; i < tokens; i += LANES) best = larger(best, load(scores + i));
    float now = largest_of(best), rescale = expf(*most - now);
    floats sum = all(0);
    for (int64_t i = 0; i < tokens; i += LANES) {
        floats weight = exponential(load(scores + i) - now);
        store(scores + i, weight);
        sum += weight;
    }
    *total = *total * rescale + sum_of(sum);
    *most = now;
    if (rescale != 1.0f)
        for (int64_t d = 0; d < size; d += LANES) store(mixed + d, load(mixed + d) * rescale);
}

static void attend_task(const Attention *a, const Task *t) {
    int64_t group = a->heads / a->kv_heads, queries = t->rows * group, size = a->size;
    float q[queries * size], mixed[queries * size], scores[queries * SPAN], most[queries], total[queries];
    int64_t first = a->offsets[t->sequence] + t->row, position = a->starts[t->sequence] + t->row;
    for (int64_t i = 0; i < queries; i++) {
        int64_t at = ((first + i / group) * a->heads + t->kv_head * group + i % group) * size;
        for (int64_t d = 0; d < size; d += LANES) {
            store(q + i * size + d, load_kind(a->q, at + d, a->kind) * a->scale);
            store(mixed + i * size + d, all(0));
        }
        most[i] = MASKED, total[i] = 0;
    }
    int64_t end = position + t->rows, begin = a->window && position >= a->window ? position - a->window + 1 : 0;
    for (int64_t from = begin / LANES * LANES; from < end; from += SPAN) {
        int64_t tokens = (end - from < SPAN ? (end - from + LANES - 1) / LANES * LANES : SPAN);
        for (int64_t at = 0; at < tokens; at += LANES) {
            int64_t tile = tile_of(a, t, from + at), offset = (from + at) % a->block_size;
            for (int64_t i = 0; i < queries; i += SCORE_QUERIES)
                score(a, q + i * size, queries - i < SCORE_QUERIES ? queries - i : SCORE_QUERIES, tile, offset,
                      scores + i * SPAN + at, SPAN);
            for (int64_t i = 0; i < queries; i++) mask(a, position + i / group, from + at, scores + i * SPAN + at);
        }
        for (int64_t i = 0; i < queries; i++) soften(scores + i * SPAN, tokens, size, most + i, total + i, mixed + i * size);
        for (int64_t at = 0; at < tokens; at += LANES) {
            int64_t tile = tile_of(a, t, from + at), offset = (from + at) % a->block_size;
            for (int64_t i = 0; i < queries; i += SCORE_QUERIES)
                for (int64_t d = 0; d < size; d += LANES)
                    mix(a, scores + i * SPAN + at, queries - i < SCORE_QUERIES ? queries - i : SCORE_QUERIES, tile,
                        offset, d, mixed + i * size);
        }
    }
    for (int64_t i = 0; i < queries; i++) {
        int64_t at = ((first + i / group) * a->heads + t->kv_head * group + i % group) * size;
        for (int64_t d = 0; d < size; d += LANES)
            store_kind(a->out, at + d, load(mixed + i * size + d) / total[i], a->kind);
    }
}

/* q and out [rows, heads, size] of `kind`; keys and values of one layer, laid out as kv_store.py has them. */
void attend(const void *q, int kind, const void *keys, const void *values, int kv_kind, const int32_t *tables,
            int64_t table_width, const int32_t *starts, const int32_t *offsets, int64_t sequences, int64_t heads,
            int64_t kv_heads, int64_t size, int64_t block_size, int64_t window, void *out, int threads) {
    int64_t group = heads / kv_heads, rows_per_task = QUERIES / group > 0 ? QUERIES / group : 1;
    Attention a = {q,    keys,     values, out,        tables, starts,        offsets,
                   table_width, sequences, heads, kv_heads, size, block_size, window, rows_per_task,
                   1.0f / sqrtf((float)size), kind, kv_kind};
    int64_t count = 0;
    for (int64_t s = 0; s < sequences; s++)
        count += (offsets[s + 1] - offsets[s] + rows_per_task - 1) / rows_per_task * kv_heads;
    Task *tasks = malloc((size_t)count * sizeof(Task));
    int64_t next = 0;
    for (int64_t s = 0; s < sequences; s++) {
        int32_t rows = offsets[s + 1] - offsets[s];
        /* From the end: the rows with most to read first, so that the threads finish together. */
        for (int64_t tile = (rows - 1) / rows_per_task; tile >= 0; tile--) {
            int32_t row = (int32_t)(tile * rows_per_task);
            int32_t taken = rows - row < rows_per_task ? rows - row : (int32_t)rows_per_task;
            for (int32_t h = 0; h < kv_heads; h++) tasks[next++] = (Task){(int32_t)s, row, taken, h};
        }
    }
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (int64_t i = 0; i < count; i++) attend_task(&a, &tasks[i]);
    free(tasks);
}
