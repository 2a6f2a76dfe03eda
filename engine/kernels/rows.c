/* The operators that work row by row: RMSNorm with the residual added, rotary embedding with the store of keys and
 * values, and SiLU. Plain C ABI; every buffer belongs to the caller. Widths are multiples of 16 (compiled.py checks). */
#include "vector.h"

/* x += delta (when given), then out = x / rms(x) * weight. x is float32, the others of the kinds named. */
void add_rms_norm(float *x, const void *delta, int delta_kind, const float *weight, void *out, int out_kind,
                  int64_t rows, int64_t width, float eps, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > 16384)
    for (int64_t row = 0; row < rows; row++) {
        float *residual = x + row * width;
        floats squares = all(0);
        for (int64_t i = 0; i < width; i += LANES) {
            floats v = load(residual + i);
            if (delta) {
                v += load_kind(delta, row * width + i, delta_kind);
                store(residual + i, v);
            }
            squares += v * v;
        }
        float inverse = 1.0f / sqrtf(sum_of(squares) / (float)width + eps);
        for (int64_t i = 0; i < width; i += LANES)
            store_kind(out, row * width + i, load(residual + i) * inverse * load(weight + i), out_kind);
    }
}

/* out = silu(left half) * right half. */
void silu_mul(const void *gate_up, void *out, int kind, int64_t rows, int64_t width, int threads) {
#pragma omp parallel for schedule(static) num_threads(threads) if (rows * width > 16384)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t i = 0; i < width; i += LANES) {
            floats gate = load_kind(gate_up, row * 2 * width + i, kind);
            floats up = load_kind(gate_up, row * 2 * width + width + i, kind);
            store_kind(out, row * width + i, gate / (1.0f + exponential(-gate)) * up, kind);
        }
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
#pragma omp simd
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

/* qkv [rows, heads + 2 kv_heads, size]: q is normed and turned into `q`, k likewise into its slot, v into its slot. */
void rotate_and_store(const void *qkv, int kind, const float *turns, const float *q_norm, const float *k_norm, float eps,
                      const int64_t *slots, void *keys, void *values, int kv_kind, void *q, int64_t rows, int64_t heads,
                      int64_t kv_heads, int64_t size, int64_t block_size, int threads) {
    int64_t all_heads = heads + 2 * kv_heads;
#pragma omp parallel for schedule(static) num_threads(threads) if (rows > 4)
    for (int64_t row = 0; row < rows; row++) {
        const float *cosine_sine = turns + row * size;
        float head[size];
        int64_t block = slots[row] / block_size, offset = slots[row] % block_size;
        for (int64_t h = 0; h < heads; h++) {
            turn(qkv, (row * all_heads + h) * size, kind, cosine_sine, q_norm, eps, size, head);
            for (int64_t i = 0; i < size; i += LANES) store_kind(q, (row * heads + h) * size + i, load(head + i), kind);
        }
        for (int64_t h = 0; h < kv_heads; h++) {
            int64_t tile = (block * kv_heads + h) * block_size * size;
            turn(qkv, (row * all_heads + heads + h) * size, kind, cosine_sine, k_norm, eps, size, head);
            store_key(keys, kv_kind, tile, offset, block_size, size, head);
            store_value(values, kv_kind, tile, offset, size, qkv, (row * all_heads + heads + kv_heads + h) * size, kind);
        }
    }
}
