/* Causal attention over blocks of keys and values, decode steps and prompt chunks alike, without gathering them.
 *
 * A task is some rows of one sequence times the query heads that share one key/value head, so that every key read serves
 * all of them. Keys are taken 128 at a time: scores, running softmax, weighted values. The 128 begin at multiples of 128
 * and hidden keys weigh exactly nothing, so a row's result does not depend on the chunk it came in. */
#include <stdlib.h>

#include "threads.h"
#include "vector.h"

#define SPAN 128      /* keys per round of the running softmax; a multiple of 16 */
#define MASKED -1e30f /* finite, so that a row of nothing else gives no NaN; a later real score scales it away */

typedef struct {
    int32_t sequence, row, rows, kv_head;
} Task;

typedef struct {
    const void *q, *keys, *values;
    void *out;
    const int32_t *tables, *starts, *offsets;
    int64_t table_width, heads, kv_heads, size, block_size, window;
    float scale;
    int kind, kv_kind, tiles;
    const Task *tasks;
} Attention;

/* One task at work. `at` of a key is its place in the span. */
typedef struct {
    const Attention *a;
    const Task *task;
    int64_t group, queries, position; /* position: of the first row */
    float *scores;                    /* [queries][SPAN], then weights */
    float *mixed;                     /* [queries][size] */
    float *most, *total;              /* of each query's softmax so far */
} Round;

/* Where the keys of the 16 tokens from `token` on lie, in elements, and with the other layout their values. */
static inline int64_t keys_of(const Round *r, int64_t token) {
    const Attention *a = r->a;
    int64_t block = a->tables[r->task->sequence * a->table_width + token / a->block_size];
    int64_t tile = (block * a->kv_heads + r->task->kv_head) * a->block_size * a->size;
    return tile + token % a->block_size * (a->kv_kind == FLOAT32 ? 1 : 2);
}

static inline int64_t values_of(const Round *r, int64_t token) {
    const Attention *a = r->a;
    int64_t block = a->tables[r->task->sequence * a->table_width + token / a->block_size];
    return ((block * a->kv_heads + r->task->kv_head) * a->block_size + token % a->block_size) * a->size;
}

/* Blocks lie anywhere, so the hardware cannot guess the next one. */
static inline void fetch_ahead(const void *from, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)from + i);
}

static void fetch_tile(const Round *r, int64_t token, int64_t end) {
    const Attention *a = r->a;
    int64_t each = a->kv_kind == FLOAT32 ? 4 : 2;
    if (token >= end || a->block_size != LANES) return;
    fetch_ahead((const char *)a->keys + keys_of(r, token) * each, LANES * a->size * each);
    fetch_ahead((const char *)a->values + values_of(r, token) * each, LANES * a->size * each);
}

/* Scores of `count` queries (a constant) against the 16 keys from `token` on. */
INLINE void score(const Round *r, const float *q, int count, int64_t token, float *scores) {
    const Attention *a = r->a;
    int64_t size = a->size, stride = a->block_size;
    floats sum[4];
    for (int i = 0; i < count; i++) sum[i] = all(0);
    if (a->kv_kind == FLOAT32) {
        const float *keys = (const float *)a->keys + keys_of(r, token);
        for (int64_t d = 0; d < size; d++) {
            floats key = load(keys + d * stride);
            for (int i = 0; i < count; i++) sum[i] += key * q[i * size + d];
        }
    } else {
        const uint16_t *keys = (const uint16_t *)a->keys + keys_of(r, token);
        for (int64_t d = 0; d < size; d += 2) {
            words pair = load_words(keys + d * stride);
            floats even = lower(pair), odd = upper(pair);
            for (int i = 0; i < count; i++) sum[i] += even * q[i * size + d] + odd * q[i * size + d + 1];
        }
    }
    for (int i = 0; i < count; i++) store(scores + i * SPAN, sum[i]);
}

/* mixed[d..d+16) of `count` queries += weights * values, over the 16 tokens from `token` on. */
INLINE void mix(const Round *r, const float *weights, int count, int64_t token, int64_t d, float *mixed) {
    const Attention *a = r->a;
    int64_t size = a->size;
    floats sum[4];
    for (int i = 0; i < count; i++) sum[i] = load(mixed + i * size + d);
    if (a->kv_kind == FLOAT32) {
        const float *values = (const float *)a->values + values_of(r, token) + d;
        for (int t = 0; t < LANES; t++) {
            floats value = load(values + t * size);
            for (int i = 0; i < count; i++) sum[i] += value * weights[i * SPAN + t];
        }
    } else {
        const uint16_t *values = (const uint16_t *)a->values + values_of(r, token) + d * 2;
        for (int t = 0; t < LANES; t += 2) {
            words pair = load_words(values + t * size);
            floats even = lower(pair), odd = upper(pair);
            for (int i = 0; i < count; i++) sum[i] += even * weights[i * SPAN + t] + odd * weights[i * SPAN + t + 1];
        }
    }
    for (int i = 0; i < count; i++) store(mixed + i * size + d, sum[i]);
}

INLINE void score_and_mix(const Round *r, const float *q, int count, int64_t token, int64_t i, int64_t at, int mixing) {
    if (!mixing) {
        score(r, q + i * r->a->size, count, token, r->scores + i * SPAN + at);
        return;
    }
    for (int64_t d = 0; d < r->a->size; d += LANES)
        mix(r, r->scores + i * SPAN + at, count, token, d, r->mixed + i * r->a->size);
}

/* All queries, four at a time: every key or value read serves four. */
static void each_query(const Round *r, const float *q, int64_t token, int64_t at, int mixing) {
    int64_t i = 0;
    for (; i + 4 <= r->queries; i += 4) score_and_mix(r, q, 4, token, i, at, mixing);
    switch (r->queries - i) {
    case 3: score_and_mix(r, q, 3, token, i, at, mixing); break;
    case 2: score_and_mix(r, q, 2, token, i, at, mixing); break;
    case 1: score_and_mix(r, q, 1, token, i, at, mixing);
    }
}

/* Hides from each query what lies after it or before its window, among the 16 tokens from `token` on. */
static inline void hide(const Round *r, int64_t token, int64_t at) {
    int64_t window = r->a->window, last = r->position + r->task->rows - 1;
    int64_t begin = window ? last - window + 1 : 0;
    if (token + LANES - 1 <= r->position && token >= begin) return; /* all see all of it */
    for (int64_t i = 0; i < r->queries; i++) {
        int64_t position = r->position + i / r->group, oldest = window ? position - window + 1 : 0;
        for (int t = 0; t < LANES; t++)
            if (token + t > position || token + t < oldest) r->scores[i * SPAN + at + t] = MASKED;
    }
}

/* Scores of query i become weights against its running maximum; what it mixed before is scaled to it. */
static inline void soften(const Round *r, int64_t i, int64_t tokens) {
    float *scores = r->scores + i * SPAN, *mixed = r->mixed + i * r->a->size;
    floats best = all(r->most[i]), sum = all(0);
    for (int64_t t = 0; t < tokens; t += LANES) best = larger(best, load(scores + t));
    float now = largest_of(best), rescale = r->most[i] == now ? 1.0f : expf(r->most[i] - now);
    for (int64_t t = 0; t < tokens; t += LANES) {
        floats weight = exponential(load(scores + t) - now);
        store(scores + t, weight);
        sum += weight;
    }
    r->total[i] = r->total[i] * rescale + sum_of(sum);
    r->most[i] = now;
    if (rescale != 1.0f)
        for (int64_t d = 0; d < r->a->size; d += LANES) store(mixed + d, load(mixed + d) * rescale);
}

#if defined(__AMX_BF16__)
#include "attention_amx.h"
#endif

static void plain_span(const Round *r, const float *q, int64_t from, int64_t tokens, int64_t end) {
    for (int64_t at = 0; at < tokens; at += LANES) {
        fetch_tile(r, from + at + LANES, end);
        each_query(r, q, from + at, at, 0);
        hide(r, from + at, at);
    }
    for (int64_t i = 0; i < r->queries; i++) soften(r, i, tokens);
    for (int64_t at = 0; at < tokens; at += LANES) each_query(r, q, from + at, at, 1);
}

static void attend_plainly(const Round *r, const float *q, int64_t begin, int64_t end) {
    for (int64_t from = begin / SPAN * SPAN; from < end; from += SPAN) {
        int64_t tokens = end - from < SPAN ? (end - from + LANES - 1) / LANES * LANES : SPAN;
        plain_span(r, q, from, tokens, end);
    }
}

static void attend_task(void *context, int64_t number) {
    const Attention *a = context;
    const Task *t = a->tasks + number;
    int64_t group = a->heads / a->kv_heads, queries = t->rows * group, size = a->size, room = (queries + 15) / 16 * 16;
    float q[queries * size], mixed[room * size], scores[(a->tiles ? 16 : queries) * SPAN], most[queries], total[queries];
    int64_t first = a->offsets[t->sequence] + t->row, position = a->starts[t->sequence] + t->row;
    Round r = {a, t, group, queries, position, scores, mixed, most, total};
    memset(mixed, 0, sizeof mixed);
    for (int64_t i = 0; i < queries; i++) {
        int64_t at = ((first + i / group) * a->heads + t->kv_head * group + i % group) * size;
        for (int64_t d = 0; d < size; d += LANES) store(q + i * size + d, load_kind(a->q, at + d, a->kind) * a->scale);
        most[i] = MASKED, total[i] = 0;
    }
    int64_t end = position + t->rows, begin = a->window && position >= a->window ? position - a->window + 1 : 0;
#if defined(__AMX_BF16__)
    if (a->tiles)
        attend_by_tiles(&r, q, begin, end);
    else
#endif
        attend_plainly(&r, q, begin, end);
    for (int64_t i = 0; i < queries; i++) {
        int64_t at = ((first + i / group) * a->heads + t->kv_head * group + i % group) * size;
        for (int64_t d = 0; d < size; d += LANES)
            store_kind(a->out, at + d, load(mixed + i * size + d) / total[i], a->kind);
    }
}

/* q and out [rows, heads, size] of `kind`, perhaps the same memory: a task copies its queries first. keys and values of one
 * layer, laid out as kv_store.py has them. */
void attend(const void *q, int kind, const void *keys, const void *values, int kv_kind, const int32_t *tables,
            int64_t table_width, const int32_t *starts, const int32_t *offsets, int64_t sequences, int64_t heads,
            int64_t kv_heads, int64_t size, int64_t block_size, int64_t window, void *out, int amx, int threads) {
    int64_t group = heads / kv_heads, count = 0, next = 0;
    int tiles = amx && kv_kind == BFLOAT16;
    int64_t rows_per_task = (tiles ? 96 : 16) / group > 0 ? (tiles ? 96 : 16) / group : 1; /* six tiles of queries */
    for (int64_t s = 0; s < sequences; s++)
        count += (offsets[s + 1] - offsets[s] + rows_per_task - 1) / rows_per_task * kv_heads;
    Task *tasks = malloc((size_t)count * sizeof(Task));
    for (int64_t s = 0; s < sequences; s++) {
        int32_t rows = offsets[s + 1] - offsets[s];
        /* Head by head, as its keys and values stay in a core's cache; the rows with most to read first, so that the
         * threads finish together. */
        for (int32_t h = 0; h < kv_heads; h++)
            for (int64_t tile = (rows - 1) / rows_per_task; tile >= 0; tile--) {
                int32_t row = (int32_t)(tile * rows_per_task);
                int32_t taken = rows - row < rows_per_task ? rows - row : (int32_t)rows_per_task;
                tasks[next++] = (Task){(int32_t)s, row, taken, h};
            }
    }
    Attention a = {q,        keys, values,     out,    tables,                     starts,        offsets, table_width, heads,
                   kv_heads, size, block_size, window, 1.0f / sqrtf((float)size), kind, kv_kind, tiles,   tasks};
    run_tasks(threads, count, attend_task, &a);
    free(tasks);
}
