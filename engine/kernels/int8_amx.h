/* The same product with AMX: 32 lines by 32 columns in four accumulator tiles, 64 inputs per multiplication.
 * Included by int8.c alone. Tiles 0-3 sums, 4-5 lines, 6-7 columns. */

#include "amx.h"

static inline ints line_at(const int32_t *sums, int64_t i) {
    ints line;
    memcpy(&line, sums + i * COLUMNS, sizeof line);
    return line;
}

/* 16 rows by 16 columns; `low` holds the sums of their low lines when the product is fine. */
static void finish_tile(const Product *p, const int32_t *sums, const int32_t *low, int64_t row, int64_t column) {
    int64_t rows = p->rows - row < 16 ? p->rows - row : 16;
    for (int64_t i = 0; i < rows; i++)
        finish(p, row + i, column, low ? joined(line_at(sums, i), line_at(low, i)) : real(line_at(sums, i)));
}

static void strip_by_amx(const Product *p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
    const int8_t *left = p->weights + column * p->depth;
    const int8_t *right = columns > COLUMNS ? left + COLUMNS * p->depth : left;
    int32_t sums[4][16 * COLUMNS] __attribute__((aligned(64)));
    int64_t step = p->fine ? 16 : 32;
    for (int64_t r = row; r < row + rows; r += step) {
        const int8_t *first = p->lines + line_of(p, r) * p->depth, *second = first + 16 * p->depth;
        int two = p->fine || r + 16 < row + rows;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        for (int64_t k = 0; k < p->depth; k += TILE) {
            _tile_loadd(4, first + k, p->depth);
            _tile_loadd(6, left + k * COLUMNS, 64);
            _tile_dpbssd(0, 4, 6);
            _tile_loadd(7, right + k * COLUMNS, 64);
            _tile_dpbssd(1, 4, 7);
            if (!two) continue;
            _tile_loadd(5, second + k, p->depth);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
        _tile_stored(0, sums[0], 64);
        _tile_stored(1, sums[1], 64);
        _tile_stored(2, sums[2], 64);
        _tile_stored(3, sums[3], 64);
        for (int c = 0; c * COLUMNS < columns; c++) {
            finish_tile(p, sums[c], p->fine ? sums[2 + c] : NULL, r, column + c * COLUMNS);
            if (two && !p->fine) finish_tile(p, sums[2 + c], NULL, r + 16, column + c * COLUMNS);
        }
    }
}
