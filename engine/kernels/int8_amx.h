/* The same product with AMX: 32 lines by 32 columns in four accumulator tiles, 64 inputs per multiplication.
 * Included by int8.c alone. Tiles 0-3 sums, 4-5 lines, 6-7 columns.
 *
 * Turning sums into floats takes as many cycles as half the multiplications, on other ports of the core: each block's sums
 * are finished a few rows at a time between the multiplications of the next block. */

#include "amx.h"

/* The sums of one block: lines 0-15 of the left and right columns, then lines 16-31. */
typedef struct {
    int32_t tiles[4][16 * COLUMNS] __attribute__((aligned(64)));
    int64_t row, rows; /* whose sums these are; `rows` already limited to those that exist */
} Block;

static inline ints line_at(const int32_t *sums, int64_t i) {
    ints line;
    memcpy(&line, sums + i * COLUMNS, sizeof line);
    return line;
}

static inline void finish_row(const Product *p, const Strip *s, const Block *b, int64_t i) {
    if (p->fine) {
        finish(p, s, b->row + i, joined(line_at(b->tiles[0], i), line_at(b->tiles[2], i)),
               joined(line_at(b->tiles[1], i), line_at(b->tiles[3], i)));
    } else {
        const int32_t(*tiles)[16 * COLUMNS] = b->tiles + i / 16 * 2;
        finish(p, s, b->row + i, real(line_at(tiles[0], i % 16)), real(line_at(tiles[1], i % 16)));
    }
}

/* The weights of the following strip, fetched a few lines at a time: the hardware does not see tile loads coming. */
typedef struct {
    const char *from, *end;
    int64_t step; /* bytes per multiplication */
} Ahead;

static inline void fetch_some(Ahead *ahead) {
    const char *until = ahead->end - ahead->from < ahead->step ? ahead->end : ahead->from + ahead->step;
    for (; ahead->from < until; ahead->from += 64) __builtin_prefetch(ahead->from, 0, 2);
}

/* Multiplies the block that begins at `row`, and meanwhile finishes the one before. */
static inline void multiply_block(const Product *p, const Strip *s, Block *b, int two, const Block *before, Ahead *ahead) {
    const int8_t *left = p->weights + s->column * p->depth, *right = s->two ? left + COLUMNS * p->depth : left;
    const int8_t *first = p->lines + line_of(p, b->row) * p->depth, *second = first + 16 * p->depth;
    int64_t done = 0, share = (before->rows * TILE + p->depth - 1) / p->depth;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t k = 0; k < p->depth; k += TILE) {
        fetch_some(ahead);
        _tile_loadd(4, first + k, p->depth);
        _tile_loadd(6, left + k * COLUMNS, 64);
        _tile_dpbssd(0, 4, 6);
        _tile_loadd(7, right + k * COLUMNS, 64);
        _tile_dpbssd(1, 4, 7);
        if (two) {
            _tile_loadd(5, second + k, p->depth);
            _tile_dpbssd(2, 5, 6);
            _tile_dpbssd(3, 5, 7);
        }
        int64_t until = done + share < before->rows ? done + share : before->rows;
        for (; done < until; done++) finish_row(p, s, before, done);
    }
    _tile_stored(0, b->tiles[0], 64);
    _tile_stored(1, b->tiles[1], 64);
    _tile_stored(2, b->tiles[2], 64);
    _tile_stored(3, b->tiles[3], 64);
}

static void strip_by_amx(const Product *p, const Strip *s, int64_t row, int64_t rows) {
    Block blocks[2];
    int64_t step = p->fine ? 16 : 32, end = row + rows;
    Block *now = blocks, *before = blocks + 1;
    int64_t size = STRIP * p->depth, rounds = (rows + step - 1) / step * (p->depth / TILE);
    const char *next = (const char *)p->weights + s->column * p->depth + size;
    int64_t left = (const char *)p->weights + p->width * p->depth - next;
    Ahead ahead = {next, next + (left < size ? left : size), (size / rounds + 63) / 64 * 64};
    before->rows = 0;
    for (int64_t r = row; r < end; r += step) {
        now->row = r, now->rows = end - r < step ? end - r : step;
        multiply_block(p, s, now, p->fine || r + 16 < end, before, &ahead);
        Block *free = before;
        before = now, now = free;
    }
    for (int64_t i = 0; i < before->rows; i++) finish_row(p, s, before, i);
}
