/* The operators as their callers see them. Plain C ABI: every buffer belongs to the caller, and `kind` of a buffer is that of
 * vector.h. compiled.py knows these structures; keep the two alike. */
#ifndef OPSCONSOLE_OPERATORS_H
#define OPSCONSOLE_OPERATORS_H

#include <stdint.h>

enum { INT8 = 2 }; /* the kind of a matrix that pack_int8 packed */

/* Packed weights. `fine`: activations are quantised to 16 bits, not 8. `gated`: 16 gates, then the 16 columns that they
 * gate, and so on; out comes silu(gate) * column, half as wide. */
typedef struct {
    const void *weights;
    const float *scales, *bias; /* of the columns: scales for INT8, bias may be NULL */
    int64_t inputs, width;
    int32_t kind, fine, gated;
} Matrix;

/* out [rows, width] = x [rows, inputs] times the weights; x and out of `kind`. `lines` has room for the quantised rows: rows
 * padded to 32 (`fine`: padded to 16, twice) by inputs padded to 64. `row_scales` has [rows]. */
void linear_int8(const Matrix *matrix, const void *x, int kind, int64_t rows, int8_t *lines, float *row_scales, void *out,
                 int amx, int threads);

/* The same in float32 or bf16. `lines` has room for float32 rows padded to 32 by inputs padded to 32. */
void linear_float(const Matrix *matrix, const void *x, int kind, int64_t rows, void *lines, void *out, int amx,
                  int threads);

/* x += delta (when given), then out = x / rms(x) * weight. x is float32, the others of the kinds named. */
void add_rms_norm(float *x, const void *delta, int delta_kind, const float *weight, void *out, int out_kind,
                  int64_t rows, int64_t width, float eps, int threads);

/* qkv [rows, heads + 2 kv_heads, size]: q is normed and turned into `q`, k likewise into its slot, v into its slot. */
void rotate_and_store(const void *qkv, int kind, const float *turns, const float *q_norm, const float *k_norm, float eps,
                      const int64_t *slots, void *keys, void *values, int kv_kind, void *q, int64_t rows, int64_t heads,
                      int64_t kv_heads, int64_t size, int64_t block_size, int threads);

#endif
