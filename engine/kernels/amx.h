/* What every user of AMX needs: the shape of the eight tile registers. */
#ifndef OPSCONSOLE_AMX_H
#define OPSCONSOLE_AMX_H

#if defined(__AMX_TILE__)
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes_per_row[16];
    uint8_t rows[16];
} __attribute__((packed)) TileConfig;

/* All tiles 16 rows of 64 bytes, but tile 6 with rows of `bytes6` and tile 7 with `rows7` rows. */
static inline void configure_tiles(int bytes6, int rows7) {
    TileConfig config;
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int tile = 0; tile < 8; tile++) config.bytes_per_row[tile] = 64, config.rows[tile] = 16;
    config.bytes_per_row[6] = (uint16_t)bytes6;
    config.rows[7] = (uint8_t)rows7;
    _tile_loadconfig(&config);
}
#endif
#endif
