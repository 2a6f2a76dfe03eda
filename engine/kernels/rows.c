/* The operators that work row by row: RMSNorm with the residual added, rotary embedding with the store of keys and
 * values. Plain C ABI; every buffer belongs to the caller. Widths are multiples of 16 (compiled.py checks). */
#include "operators.h"
#include "threads.h"
#include "vector.h"

/* Rows per task: enough work to be worth handing over, about 8,192 values. */
static int64_t share(int64_t width) { return width < 8192 ? 8192 / width : 1; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef struct {
    float *x;
    const void *delta;
    const float *weight;
    void *out;
    int64_t rows, width;
    float eps;
    int delta_kind, out_kind;
} Norm;

static void norm_rows(void *context, int64_t task) {
    const Norm *n = context;
    int64_t width = n->width, begin = task * share(width), end = least(begin + share(width), n->rows);
    for (int64_t row = begin; row < end; row++) {
        float *residual = n->x + row * width;
        floats squares = all(0);
        for (int64_t i = 0; i < width; i += LANES) {
            floats v = load(residual + i);
            if (n->delta) {
                v += load_kind(n->delta, row * width + i, n->delta_kind);
                store(residual + i, v);
            }
            squares += v * v;
        }
        float inverse = 1.0f / sqrtf(sum_of(squares) / (float)width + n->eps);
        for (int64_t i = 0; i < width; i += LANES)
            store_kind(n->out, row * width + i, load(residual + i) * inverse * load(n->weight + i), n->out_kind);
    }
}

/* x += delta (when given), then out = x / rms(x) * weight. x is float32, the others of the kinds named. */
void add_rms_norm(float *x, const void *delta, int delta_kind, const float *weight, void *out, int out_kind,
                  int64_t rows, int64_t width, float eps, int threads) {
    Norm n = {x, delta, weight, out, rows, width, eps, delta_kind, out_kind};
    run_tasks(threads, (rows + share(width) - 1) / share(width), norm_rows, &n);
}

/* One head: RMSNorm when a weight is given, then dimension i turned with i + size / 2. */
static void turn(const void *source, int64_t at, int kind, const float *cosine_sine, const float *norm, float eps,
                 int64_t size, float *head) {
    int64_t half = size / 2;
    for (int64_t i = 0; i < size; i += LANES) store(head + i, load_kind(source, at + i, kind));
    if (norm) {
        floats squares = all(0);
        for (int64_t i = 0; i < size; i += LANES) squares += load(head + i) * load(head + i);
        float inverse = 1.0f / sqrtf(sum_of(squares) / (float)size + eps);
        for (int64_t i = 0; i < size; i += LANES) store(head + i, load(head + i) * inverse * load(norm + i));
    }
    for (int64_t i = 0; i < half; i++) {
        float left = head[i], right = head[i + half];
        head[i] = left * cosine_sine[i] - right * cosine_sine[half + i];
        head[i + half] = right * cosine_sine[i] + left * cosine_sine[half + i];
    }
}

/* Layouts as kv_store.py has them. */
static void store_key(void *keys, int kind, int64_t tile, int64_t offset, int64_t block_size, int64_t size,
                      const float *head) {
    for (int64_t i = 0; i < size; i++)
        if (kind == FLOAT32)
            ((float *)keys)[tile + i * block_size + offset] = head[i];
        else
            ((uint16_t *)keys)[tile + (i / 2 * block_size + offset) * 2 + i % 2] = to_bf16(head[i]);
}

static void store_value(void *values, int kind, int64_t tile, int64_t offset, int64_t size, const void *source,
                        int64_t at, int source_kind) {
    for (int64_t i = 0; i < size; i++) {
        float x = load_one(source, at + i, source_kind);
        if (kind == FLOAT32)
            ((float *)values)[tile + offset * size + i] = x;
        else
            ((uint16_t *)values)[tile + (offset / 2 * size + i) * 2 + offset % 2] = to_bf16(x);
    }
}

typedef struct {
    const void *qkv;
    const float *turns, *q_norm, *k_norm;
    const int64_t *slots;
    void *keys, *values, *q;
    int64_t rows, heads, kv_heads, size, block_size;
    float eps;
    int kind, kv_kind;
} Rotation;

static void rotate_row(const Rotation *r, int64_t row) {
    int64_t size = r->size, heads = r->heads, kv_heads = r->kv_heads, all_heads = heads + 2 * kv_heads;
    const float *cosine_sine = r->turns + row * size;
    int64_t block = r->slots[row] / r->block_size, offset = r->slots[row] % r->block_size;
    float head[size];
    for (int64_t h = 0; h < heads; h++) {
        turn(r->qkv, (row * all_heads + h) * size, r->kind, cosine_sine, r->q_norm, r->eps, size, head);
        for (int64_t i = 0; i < size; i += LANES)
            store_kind(r->q, (row * heads + h) * size + i, load(head + i), r->kind);
    }
    for (int64_t h = 0; h < kv_heads; h++) {
        int64_t tile = (block * kv_heads + h) * r->block_size * size, key = (row * all_heads + heads + h) * size;
        turn(r->qkv, key, r->kind, cosine_sine, r->k_norm, r->eps, size, head);
        store_key(r->keys, r->kv_kind, tile, offset, r->block_size, size, head);
        store_value(r->values, r->kv_kind, tile, offset, size, r->qkv, key + kv_heads * size, r->kind);
    }
}

static void rotate_rows(void *context, int64_t task) {
    const Rotation *r = context;
    int64_t rows = share((r->heads + 2 * r->kv_heads) * r->size), end = least((task + 1) * rows, r->rows);
    for (int64_t row = task * rows; row < end; row++) rotate_row(r, row);
}

/* qkv [rows, heads + 2 kv_heads, size]: q is normed and turned into `q`, k likewise into its slot, v into its slot. */
void rotate_and_store(const void *qkv, int kind, const float *turns, const float *q_norm, const float *k_norm, float eps,
                      const int64_t *slots, void *keys, void *values, int kv_kind, void *q, int64_t rows, int64_t heads,
                      int64_t kv_heads, int64_t size, int64_t block_size, int threads) {
    Rotation r = {qkv,  turns, q_norm, k_norm,   slots, keys,       values, q,
                  rows, heads, kv_heads, size, block_size, eps, kind, kv_kind};
    int64_t each = share((heads + 2 * kv_heads) * size);
    run_tasks(threads, (rows + each - 1) / each, rotate_rows, &r);
}
