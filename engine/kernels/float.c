/* Matrix products in float32 and bf16 over packed weights, so that a step needs no other threads than these, and every
 * row's sum runs in one order whatever stands beside it.
 *
 * Packed float32: [columns / 16][inputs][16]; packed bf16: [columns / 16][inputs / 2][16][2], pairs of inputs together, which
 * 16 pairs at a time is the tile that AMX multiplies. Inputs are padded to 32 with zeros, columns are a multiple of 16. */
#include "amx.h"
#include "operators.h"
#include "threads.h"
#include "vector.h"

#define COLUMNS 16
#define DEPTH 32      /* inputs are padded to this */
#define STRIP 32      /* columns per task when rows are many */
#define ROW_CHUNK 192 /* rows per task */
#if defined(__AVX512F__)
#define LINES 8 /* rows at once: as many sums as registers hold */
#else
#define LINES 4
#endif

typedef struct {
    const void *x, *weights;
    const float *bias;
    void *lines; /* the rows as the products want them: float32, or bf16 for AMX; [padded rows][depth] */
    void *out;
    int64_t rows, inputs, depth, width, columns_together;
    int kind, weight_kind, gated, amx;
} Product;

typedef struct {
    const void *weight;
    void *packed;
    int64_t inputs, depth;
    int kind;
} Packing;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t padded_depth(int64_t inputs) { return (inputs + DEPTH - 1) / DEPTH * DEPTH; }

static void pack_columns(void *context, int64_t task) {
    const Packing *p = context;
    for (int64_t column = task * COLUMNS; column < (task + 1) * COLUMNS; column++) {
        int64_t to = task * COLUMNS * p->depth, from = column * p->inputs, c = column % COLUMNS;
        for (int64_t i = 0; i < p->inputs; i++)
            if (p->kind == FLOAT32)
                ((float *)p->packed)[to + i * COLUMNS + c] = ((const float *)p->weight)[from + i];
            else
                ((uint16_t *)p->packed)[to + (i / 2 * COLUMNS + c) * 2 + i % 2] = ((const uint16_t *)p->weight)[from + i];
    }
}

/* [columns][inputs] -> packed, of the same kind; `packed` is zeroed by the caller. */
void pack_float(const void *weight, int kind, int64_t columns, int64_t inputs, void *packed, int threads) {
    Packing p = {weight, packed, inputs, padded_depth(inputs), kind};
    run_tasks(threads, columns / COLUMNS, pack_columns, &p);
}

static void prepare_rows(void *context, int64_t task) {
    const Product *p = context;
    int kind = p->amx ? BFLOAT16 : FLOAT32;
    for (int64_t row = task * 8; row < least(task * 8 + 8, p->rows); row++) {
        int64_t to = row * p->depth;
        for (int64_t i = 0; i < p->inputs; i += LANES)
            store_kind(p->lines, to + i, load_kind(p->x, row * p->inputs + i, p->kind), kind);
        for (int64_t i = p->inputs; i < p->depth; i++) store_one(p->lines, to + i, 0, kind);
    }
}

/* One row of a strip: two times 16 columns, of the last strip perhaps one. `gated`: the left ones are the gates of the right
 * ones, and half as many come out. */
static inline void finish(const Product *p, int64_t row, int64_t column, floats left, floats right) {
    int two = column + COLUMNS < p->width;
    if (p->bias) {
        left += load(p->bias + column);
        if (two) right += load(p->bias + column + COLUMNS);
    }
    if (p->gated) {
        store_kind(p->out, (row * p->width + column) / 2, gated(left, right), p->kind);
        return;
    }
    store_kind(p->out, row * p->width + column, left, p->kind);
    if (two) store_kind(p->out, row * p->width + column + COLUMNS, right, p->kind);
}

/* Sums of 16 columns of `count` (a constant) rows. */
INLINE void multiply_lines(const Product *p, int64_t row, int count, int64_t column, floats *result) {
    const float *line = (const float *)p->lines + row * p->depth;
    int64_t depth = p->depth;
    floats sum[LINES];
    for (int i = 0; i < count; i++) sum[i] = all(0);
    if (p->weight_kind == FLOAT32) {
        const float *weights = (const float *)p->weights + column * depth;
        for (int64_t k = 0; k < depth; k++) {
            floats w = load(weights + k * COLUMNS);
            for (int i = 0; i < count; i++) sum[i] += w * line[i * depth + k];
        }
    } else {
        const uint16_t *weights = (const uint16_t *)p->weights + column * depth;
        for (int64_t k = 0; k < depth; k += 2) {
            words pair = load_words(weights + k * COLUMNS);
            floats even = lower(pair), odd = upper(pair);
            for (int i = 0; i < count; i++) {
                sum[i] += even * line[i * depth + k];
                sum[i] += odd * line[i * depth + k + 1];
            }
        }
    }
    for (int i = 0; i < count; i++) result[i] = sum[i];
}

INLINE void multiply_rows(const Product *p, int64_t row, int count, int64_t column) {
    floats left[LINES], right[LINES];
    multiply_lines(p, row, count, column, left);
    if (column + COLUMNS < p->width)
        multiply_lines(p, row, count, column + COLUMNS, right);
    else
        for (int i = 0; i < count; i++) right[i] = all(0);
    for (int i = 0; i < count; i++) finish(p, row + i, column, left[i], right[i]);
}

static void strip_by_vectors(const Product *p, int64_t row, int64_t rows, int64_t column) {
    int64_t r = row, end = row + rows;
    for (; r + LINES <= end; r += LINES) multiply_rows(p, r, LINES, column);
    for (; r + 4 <= end; r += 4) multiply_rows(p, r, 4, column);
    for (; r + 2 <= end; r += 2) multiply_rows(p, r, 2, column);
    if (r < end) multiply_rows(p, r, 1, column);
}

#if defined(__AMX_BF16__)
static void finish_tiles(const Product *p, const float *left, const float *right, int64_t row, int64_t column) {
    for (int64_t i = 0; i < least(p->rows - row, 16); i++)
        finish(p, row + i, column, load(left + i * COLUMNS), load(right + i * COLUMNS));
}

/* 32 rows by 32 columns in tiles 0-3, from rows in 4-5 and columns in 6-7. */
static void strip_by_tiles(const Product *p, int64_t row, int64_t rows, int64_t column) {
    const uint16_t *left = (const uint16_t *)p->weights + column * p->depth;
    const uint16_t *right = column + COLUMNS < p->width ? left + COLUMNS * p->depth : left;
    float sums[4][16 * COLUMNS] __attribute__((aligned(64)));
    for (int64_t r = row; r < row + rows; r += 32) {
        const uint16_t *first = (const uint16_t *)p->lines + r * p->depth, *second = first + 16 * p->depth;
        int two = r + 16 < row + rows;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < p->depth; k += 32) {
            _tile_loadd(4, first + k, p->depth * 2);
            _tile_loadd(6, left + k * COLUMNS, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_loadd(7, right + k * COLUMNS, 64);
            _tile_dpbf16ps(1, 4, 7);
            if (!two) continue;
            _tile_loadd(5, second + k, p->depth * 2);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        _tile_stored(2, sums[2], 64);
        _tile_stored(3, sums[3], 64);
        finish_tiles(p, sums[0], sums[1], r, column);
        if (two) finish_tiles(p, sums[2], sums[3], r + 16, column);
    }
}
#endif

static void multiply_strips(void *context, int64_t task) {
    const Product *p = context;
    int64_t across = (p->width + p->columns_together - 1) / p->columns_together;
    int64_t row = task / across * ROW_CHUNK, first = task % across * p->columns_together;
    int64_t rows = least(p->rows - row, ROW_CHUNK), end = least(first + p->columns_together, p->width);
#if defined(__AMX_BF16__)
    if (p->amx) {
        configure_tiles(64, 16);
        for (int64_t c = first; c < end; c += STRIP) strip_by_tiles(p, row, rows, c);
        _tile_release();
        return;
    }
#endif
    for (int64_t c = first; c < end; c += STRIP) strip_by_vectors(p, row, rows, c);
}

void linear_float(const Matrix *matrix, const void *x, int kind, int64_t rows, void *lines, void *out, int amx,
                  int threads) {
    int64_t depth = padded_depth(matrix->inputs), bytes = depth * (matrix->kind == FLOAT32 ? 4 : 2);
    int64_t width = matrix->width, together = (131072 / bytes + STRIP - 1) / STRIP * STRIP;
    if (rows >= 64) together = threads < 2 ? width : STRIP;
    Product p = {x, matrix->weights, matrix->bias, lines, out,  rows,         matrix->inputs, depth,
                 width, together,    kind, matrix->kind, matrix->gated, amx && matrix->kind == BFLOAT16};
    run_tasks(threads, (rows + 7) / 8, prepare_rows, &p);
    run_tasks(threads, (width + together - 1) / together * ((rows + ROW_CHUNK - 1) / ROW_CHUNK), multiply_strips, &p);
}
