/* Matrix products in 8 bits: activations quantised row by row (so a row's result does not depend on its neighbours),
 * weights column by column, sums exact in 32-bit integers.
 *
 * Packed weights: [columns / 16][inputs / 4][16][4], which is at once the operand of VNNI's 4-wide dot product and, 16 x 64
 * bytes at a time, the tile that AMX multiplies. Inputs are padded to 64, columns to 16, with zeros. */
#include <stdlib.h>

#include "vector.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define COLUMNS 16
#define TILE 64 /* inputs per tile */
#define STRIP 32 /* columns per task: two tiles */
#define ROW_CHUNK 256 /* rows per task: with 576 inputs, 147 kB of activations stay in L2 */

typedef struct {
    int8_t *rows;           /* quantised activations [padded rows][depth] */
    float *row_scales;      /* [rows] */
    const int8_t *weights;  /* packed */
    const float *scales;    /* of the columns */
    const float *bias;      /* or NULL */
    void *out;
    int64_t count, depth, width; /* rows, padded inputs, columns */
    int kind;
} Product;

/* [columns][inputs] float32 -> packed; scales[column] = largest / 127. */
void pack_int8(const float *weight, int64_t columns, int64_t inputs, int8_t *packed, float *scales, int threads) {
    int64_t depth = (inputs + TILE - 1) / TILE * TILE;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t column = 0; column < columns; column++) {
        const float *source = weight + column * inputs;
        float most = 0;
        for (int64_t i = 0; i < inputs; i++) most = fabsf(source[i]) > most ? fabsf(source[i]) : most;
        float inverse = most > 0 ? 127.0f / most : 0;
        scales[column] = most / 127.0f;
        int8_t *to = packed + column / COLUMNS * COLUMNS * depth + column % COLUMNS * 4;
        for (int64_t i = 0; i < inputs; i++) to[i / 4 * COLUMNS * 4 + i % 4] = (int8_t)lrintf(source[i] * inverse);
    }
}

/* One row of activations; returns its scale. */
static float quantise_row(const void *x, int64_t at, int kind, int64_t inputs, int64_t depth, int8_t *to) {
    floats most = all(0);
    for (int64_t i = 0; i < inputs; i += LANES) {
        floats v = load_kind(x, at + i, kind);
        most = larger(most, larger(v, -v));
    }
    float largest = largest_of(most), inverse = largest > 0 ? 127.0f / largest : 0;
    const float magic = 12582912.0f; /* rounds to nearest even, as lrintf */
    typedef int8_t bytes __attribute__((vector_size(16)));
    for (int64_t i = 0; i < inputs; i += LANES) {
        floats v = load_kind(x, at + i, kind) * inverse + magic;
        bytes b = __builtin_convertvector((ints)v - (ints)all(magic), bytes);
        memcpy(to + i, &b, sizeof b);
    }
    memset(to + inputs, 0, (size_t)(depth - inputs));
    return largest / 127.0f;
}

static inline ints no_ints(void) { return (ints)all(0); }

/* sums += dot products of 4 bytes of one row with 16 columns. */
static inline ints dot4(ints sums, const int8_t *row, const int8_t *weights) {
#if defined(__AVX512VNNI__)
    /* VNNI multiplies unsigned by signed: |a| with a's sign moved to the weights would cost two more; instead the caller
     * adds 128 to a and takes 128 * (sum of the weights) off again. */
    int32_t a;
    memcpy(&a, row, 4);
    __m512i unsigned_a = _mm512_set1_epi32(a ^ (int32_t)0x80808080);
    return (ints)_mm512_dpbusd_epi32((__m512i)sums, unsigned_a, _mm512_loadu_si512(weights));
#elif defined(__AVX2__)
    int32_t a;
    memcpy(&a, row, 4);
    __m256i signed_a = _mm256_set1_epi32(a), ones = _mm256_set1_epi16(1), part[2];
    __m256i size_a = _mm256_abs_epi8(signed_a);
    memcpy(part, &sums, sizeof part);
    for (int half = 0; half < 2; half++) {
        __m256i w = _mm256_loadu_si256((const __m256i *)(weights + 32 * half));
        /* |a| * (w with a's sign): 2 * 127 * 127 fits 16 bits, so nothing saturates. */
        __m256i pairs = _mm256_maddubs_epi16(size_a, _mm256_sign_epi8(w, signed_a));
        part[half] = _mm256_add_epi32(part[half], _mm256_madd_epi16(pairs, ones));
    }
    memcpy(&sums, part, sizeof part);
    return sums;
#else
    int32_t parts[COLUMNS];
    memcpy(parts, &sums, sizeof parts);
    for (int c = 0; c < COLUMNS; c++)
        for (int i = 0; i < 4; i++) parts[c] += row[i] * weights[c * 4 + i];
    memcpy(&sums, parts, sizeof parts);
    return sums;
#endif
}

/* What dot4 adds too much for VNNI's sake: 128 * the sum of each column's weights. */
static inline ints excess(const Product *p, int64_t column) {
#if defined(__AVX512VNNI__)
    const int8_t *weights = p->weights + column * p->depth;
    __m512i sums = _mm512_setzero_si512(), many = _mm512_set1_epi8((char)128);
    for (int64_t k = 0; k < p->depth; k += 4) sums = _mm512_dpbusd_epi32(sums, many, _mm512_loadu_si512(weights + k * COLUMNS));
    return (ints)sums;
#else
    (void)p, (void)column;
    return no_ints();
#endif
}

static inline void finish(const Product *p, int64_t row, int64_t column, ints sums) {
    floats value = __builtin_convertvector(sums, floats) * p->row_scales[row] * load(p->scales + column);
    if (p->bias) value += load(p->bias + column);
    store_kind(p->out, row * p->width + column, value, p->kind);
}

/* 16 columns of up to 4 rows: every weight read serves all four. */
#define ROWS 4
static void columns_by_dot(const Product *p, int64_t row, int64_t rows, int64_t column, ints over) {
    const int8_t *weights = p->weights + column * p->depth;
    const int8_t *from[ROWS];
    for (int i = 0; i < ROWS; i++) from[i] = p->rows + (row + (i < rows ? i : 0)) * p->depth;
    ints sums[ROWS], second[ROWS];
    for (int i = 0; i < ROWS; i++) sums[i] = second[i] = no_ints();
    if (rows == 1) {
        for (int64_t k = 0; k < p->depth; k += 8) {
            sums[0] = dot4(sums[0], from[0] + k, weights + k * COLUMNS);
            second[0] = dot4(second[0], from[0] + k + 4, weights + (k + 4) * COLUMNS);
        }
        sums[0] += second[0];
    } else
        for (int64_t k = 0; k < p->depth; k += 4)
            for (int i = 0; i < ROWS; i++) sums[i] = dot4(sums[i], from[i] + k, weights + k * COLUMNS);
    for (int i = 0; i < rows; i++) finish(p, row + i, column, sums[i] - over);
}

static void strip_by_dot(const Product *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    for (int64_t c = column; c < column + columns; c += COLUMNS) {
        ints over = excess(p, c);
        for (int64_t r = 0; r < rows; r += ROWS) columns_by_dot(p, row + r, rows - r < ROWS ? rows - r : ROWS, c, over);
    }
}

#if defined(__AMX_INT8__)
#include "int8_amx.h"
#endif

static void strip(const Product *p, int64_t row, int64_t rows, int64_t column, int64_t columns, int amx) {
#if defined(__AMX_INT8__)
    if (amx) {
        strip_by_amx(p, row, rows, column, columns);
        return;
    }
#endif
    (void)amx;
    strip_by_dot(p, row, rows, column, columns);
}

/* out [count, width] of `out_kind` = x [count, inputs] of `kind` times the packed weights. `scratch` holds the quantised
 * rows (rows padded to 16, inputs to 64) and is followed by nothing; `row_scales` [count]. */
void linear_int8(const void *x, int kind, int64_t count, int64_t inputs, const int8_t *weights, const float *scales,
                 const float *bias, int64_t width, int8_t *scratch, float *row_scales, void *out, int out_kind, int amx,
                 int threads) {
    int64_t depth = (inputs + TILE - 1) / TILE * TILE;
    Product p = {scratch, row_scales, weights, scales, bias, out, count, depth, width, out_kind};
    int64_t strips = (width + STRIP - 1) / STRIP, chunks = (count + ROW_CHUNK - 1) / ROW_CHUNK;
    int64_t grain = strips > 256 ? 16 : 1;
#pragma omp parallel num_threads(threads)
    {
#if defined(__AMX_INT8__)
        if (amx) configure_tiles();
#endif
#pragma omp for schedule(static)
        for (int64_t row = 0; row < count; row++)
            row_scales[row] = quantise_row(x, row * inputs, kind, inputs, depth, scratch + row * depth);
#pragma omp for schedule(dynamic, grain)
        for (int64_t task = 0; task < strips * chunks; task++) {
            int64_t row = task / strips * ROW_CHUNK, column = task % strips * STRIP;
            int64_t rows = count - row < ROW_CHUNK ? count - row : ROW_CHUNK;
            int64_t columns = width - column < STRIP ? width - column : STRIP;
            strip(&p, row, rows, column, columns, amx);
        }
#if defined(__AMX_INT8__)
        if (amx) _tile_release();
#endif
    }
}
