/* Matrix products in 8 bits: activations quantised row by row (so a row's result does not depend on its neighbours),
 * weights column by column, sums exact in 32-bit integers.
 *
 * Packed weights: [columns / 16][inputs / 4][16][4], which is at once the operand of VNNI's 4-wide dot product and, 16 x 64
 * bytes at a time, the tile that AMX multiplies. Inputs are padded to 64, columns are a multiple of 16.
 *
 * What follows a norm or a gate has a few channels far larger than the rest, and 8 bits lose the rest (3 % perplexity on a
 * model of 135 M). A `fine` product therefore writes a row as two lines of 8 bits, x = scale * (254 * high + low): twice the
 * multiplications, but each weight is still read once, and reading is what decoding waits for. */
#include <stdlib.h>

#include "operators.h"
#include "threads.h"
#include "vector.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define COLUMNS 16
#define TILE 64 /* inputs per tile */
#define STRIP 32 /* columns per task: two tiles */
#define STEP 254 /* of the high line, in steps of the low one */
#define ROW_CHUNK 256 /* rows per task: with 576 inputs, 147 kB of activations stay in L2 */

typedef struct {
    const void *x;
    int8_t *lines;         /* quantised activations, [lines][depth] */
    float *row_scales;     /* [rows] */
    const int8_t *weights; /* packed */
    const float *scales;   /* of the columns */
    const float *bias;     /* or NULL */
    void *out;
    int64_t rows, inputs, depth, width, columns_together; /* depth: padded inputs; width: columns */
    int kind, fine, gated, amx;
} Product;

/* Two times 16 columns (of the last strip perhaps one), and what their sums are multiplied by. */
typedef struct {
    int64_t column;
    int two;
    floats scales[2], bias[2];
} Strip;

typedef struct {
    const float *weight;
    int64_t inputs, depth;
    int8_t *packed;
    float *scales;
} Packing;

static void pack_columns(void *context, int64_t task) {
    const Packing *p = context;
    for (int64_t column = task * COLUMNS; column < (task + 1) * COLUMNS; column++) {
        const float *source = p->weight + column * p->inputs;
        float most = 0;
        for (int64_t i = 0; i < p->inputs; i++) most = fabsf(source[i]) > most ? fabsf(source[i]) : most;
        float inverse = most > 0 ? 127.0f / most : 0;
        p->scales[column] = most / 127.0f;
        int8_t *to = p->packed + column / COLUMNS * COLUMNS * p->depth + column % COLUMNS * 4;
        for (int64_t i = 0; i < p->inputs; i++) to[i / 4 * COLUMNS * 4 + i % 4] = (int8_t)lrintf(source[i] * inverse);
    }
}

/* [columns][inputs] float32 -> packed (zeroed by the caller); scales[column] = largest / 127. */
void pack_int8(const float *weight, int64_t columns, int64_t inputs, int8_t *packed, float *scales, int threads) {
    Packing p = {weight, inputs, (inputs + TILE - 1) / TILE * TILE, packed, scales};
    run_tasks(threads, columns / COLUMNS, pack_columns, &p);
}

typedef int8_t bytes __attribute__((vector_size(16)));

static inline ints nearest(floats v) { /* to even, as lrintf, for |v| < 2^22 */
    const float magic = 12582912.0f;
    return (ints)(v + magic) - (ints)all(magic);
}

static inline void store_bytes(int8_t *to, ints v) {
    bytes b = __builtin_convertvector(v, bytes);
    memcpy(to, &b, sizeof b);
}

/* One row of activations to one line, or to two when `low` is given; returns the scale. */
static float quantise_row(const Product *p, int64_t row, int8_t *high, int8_t *low) {
    int64_t inputs = p->inputs, depth = p->depth, at = row * inputs;
    floats most = all(0);
    for (int64_t i = 0; i < inputs; i += LANES) {
        floats v = load_kind(p->x, at + i, p->kind);
        most = larger(most, larger(v, -v));
    }
    float steps = low ? 127.0f * STEP : 127.0f, largest = largest_of(most);
    float inverse = largest > 0 ? steps / largest : 0;
    for (int64_t i = 0; i < inputs; i += LANES) {
        ints v = nearest(load_kind(p->x, at + i, p->kind) * inverse);
        ints upper_part = low ? nearest(__builtin_convertvector(v, floats) * (1.0f / STEP)) : v;
        store_bytes(high + i, upper_part);
        if (low) store_bytes(low + i, v - upper_part * STEP);
    }
    memset(high + inputs, 0, (size_t)(depth - inputs));
    if (low) memset(low + inputs, 0, (size_t)(depth - inputs));
    return largest / steps;
}

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
    return (ints)all(0);
#endif
}

static Strip strip_of(const Product *p, int64_t column) {
    Strip s = {column, column + COLUMNS < p->width, {all(0), all(0)}, {all(0), all(0)}};
    for (int half = 0; half <= s.two; half++) {
        s.scales[half] = load(p->scales + column + half * COLUMNS);
        if (p->bias) s.bias[half] = load(p->bias + column + half * COLUMNS);
    }
    return s;
}

/* One row's sums of a strip. `gated`: the left columns are the gates of the right ones, and half as many come out. */
static inline void finish(const Product *p, const Strip *s, int64_t row, floats left, floats right) {
    float scale = p->row_scales[row];
    left = left * scale * s->scales[0] + s->bias[0], right = right * scale * s->scales[1] + s->bias[1];
    if (p->gated) {
        store_kind(p->out, (row * p->width + s->column) / 2, gated(left, right), p->kind);
        return;
    }
    store_kind(p->out, row * p->width + s->column, left, p->kind);
    if (s->two) store_kind(p->out, row * p->width + s->column + COLUMNS, right, p->kind);
}

static inline floats real(ints v) { return __builtin_convertvector(v, floats); }
static inline floats joined(ints high, ints low) { return real(high) * (float)STEP + real(low); }

/* Lines lie in groups of 32: 32 rows, or 16 rows' high lines and then their low lines. */
static inline int64_t line_of(const Product *p, int64_t row) { return p->fine ? row / 16 * 32 + row % 16 : row; }

/* 16 columns of up to 4 lines: every weight read serves all four. */
#define LINES 4
static inline void dot_lines(const Product *p, const int8_t **lines, int count, int64_t column, ints *sums) {
    const int8_t *weights = p->weights + column * p->depth;
    ints second[LINES];
    for (int i = 0; i < count; i++) sums[i] = second[i] = (ints)all(0);
    for (int64_t k = 0; k < p->depth; k += 8) /* two chains, so that no sum waits for itself */
        for (int i = 0; i < count; i++) {
            sums[i] = dot4(sums[i], lines[i] + k, weights + k * COLUMNS);
            second[i] = dot4(second[i], lines[i] + k + 4, weights + (k + 4) * COLUMNS);
        }
    for (int i = 0; i < count; i++) sums[i] += second[i];
}

static inline void dot_some(const Product *p, const int8_t **lines, int count, int64_t column, ints *sums) {
    switch (count) { /* constants, so that the sums live in registers */
    case 1: dot_lines(p, lines, 1, column, sums); break;
    case 2: dot_lines(p, lines, 2, column, sums); break;
    case 3: dot_lines(p, lines, 3, column, sums); break;
    default: dot_lines(p, lines, 4, column, sums);
    }
}

static void strip_by_dot(const Product *p, const Strip *s, int64_t row, int64_t rows) {
    ints over[2] = {excess(p, s->column), (ints)all(0)}, sums[2][LINES];
    if (s->two) over[1] = excess(p, s->column + COLUMNS);
    const int8_t *lines[LINES];
    int64_t step = p->fine ? LINES / 2 : LINES;
    for (int64_t r = row; r < row + rows; r += step) {
        int taken = (int)(row + rows - r < step ? row + rows - r : step), count = p->fine ? 2 * taken : taken;
        for (int i = 0; i < taken; i++) {
            const int8_t *line = p->lines + line_of(p, r + i) * p->depth;
            if (p->fine)
                lines[2 * i] = line, lines[2 * i + 1] = line + 16 * p->depth;
            else
                lines[i] = line;
        }
        for (int half = 0; half <= s->two; half++)
            dot_some(p, lines, count, s->column + half * COLUMNS, sums[half]);
        for (int i = 0; i < taken; i++) {
            floats values[2] = {all(0), all(0)};
            for (int half = 0; half <= s->two; half++)
                values[half] = p->fine ? joined(sums[half][2 * i] - over[half], sums[half][2 * i + 1] - over[half])
                                       : real(sums[half][i] - over[half]);
            finish(p, s, r + i, values[0], values[1]);
        }
    }
}

#if defined(__AMX_INT8__)
#include "int8_amx.h"
#endif

#define QUANTISED_TOGETHER 8 /* rows per task */

static void quantise_rows(void *context, int64_t task) {
    const Product *p = context;
    int64_t end = (task + 1) * QUANTISED_TOGETHER < p->rows ? (task + 1) * QUANTISED_TOGETHER : p->rows;
    for (int64_t row = task * QUANTISED_TOGETHER; row < end; row++) {
        int8_t *line = p->lines + line_of(p, row) * p->depth;
        p->row_scales[row] = quantise_row(p, row, line, p->fine ? line + 16 * p->depth : NULL);
    }
}

/* A task is up to ROW_CHUNK rows times `strips_together` strips. */
static void multiply_strips(void *context, int64_t task) {
    const Product *p = context;
    int64_t across = (p->width + p->columns_together - 1) / p->columns_together;
    int64_t row = task / across * ROW_CHUNK, first = task % across * p->columns_together;
    int64_t rows = p->rows - row < ROW_CHUNK ? p->rows - row : ROW_CHUNK;
    int64_t end = first + p->columns_together < p->width ? first + p->columns_together : p->width;
#if defined(__AMX_INT8__)
    if (p->amx) configure_tiles(64, 16);
#endif
    for (int64_t c = first; c < end; c += STRIP) {
        Strip s = strip_of(p, c);
#if defined(__AMX_INT8__)
        if (p->amx) {
            strip_by_amx(p, &s, row, rows);
            continue;
        }
#endif
        strip_by_dot(p, &s, row, rows);
    }
#if defined(__AMX_INT8__)
    if (p->amx) _tile_release();
#endif
}

void linear_int8(const Matrix *matrix, const void *x, int kind, int64_t rows, int8_t *lines, float *row_scales, void *out,
                 int amx, int threads) {
    int64_t inputs = matrix->inputs, depth = (inputs + TILE - 1) / TILE * TILE, width = matrix->width;
    /* About 64 kB of weights a task when rows are few: enough to be worth handing over. */
    int64_t together = (65536 / depth + STRIP - 1) / STRIP * STRIP;
    if (rows >= 64) together = threads < 2 ? width : STRIP;
    Product p = {x,    lines,  row_scales, matrix->weights, matrix->scales, matrix->bias,  out,          rows,
                 inputs, depth, width,      together,        kind,           matrix->fine, matrix->gated, amx && rows > 1};
    run_tasks(threads, (rows + QUANTISED_TOGETHER - 1) / QUANTISED_TOGETHER, quantise_rows, &p);
    run_tasks(threads, (width + together - 1) / together * ((rows + ROW_CHUNK - 1) / ROW_CHUNK), multiply_strips, &p);
}

/* Whether this process may use AMX: the kernel hands out the tiles only on request. */
int may_use_tiles(void) {
#if defined(__AMX_INT8__) && defined(__linux__)
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* XTILEDATA */) == 0;
#else
    return 0;
#endif
}
