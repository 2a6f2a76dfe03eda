/* All that a decoder does between two attentions, which is row by row: the rest of one layer, then the next one's norm, its
 * queries, keys and values.
 *
 * Many rows go in panels that one thread carries all the way, so that everything in between stays in its core's cache: what
 * passes through memory otherwise costs more than the products. Few rows go operator by operator, each shared by all
 * threads. The numbers are the same: every operator treats a row alike whatever stands beside it. */
#include <stdlib.h>

#include "operators.h"
#include "threads.h"
#include "vector.h"

#define MANY 64        /* rows from which on panels pay */
#define PANEL 128      /* rows at most: activations of SmolLM2's width take 1.5 MB, and each weight read serves many */
#define LINE_PADDING 64

/* As compiled.py fills it. What is NULL is left out. */
typedef struct {
    const Matrix *output, *gate_up, *down, *qkv; /* the first three of the layer left, qkv of the one entered */
    const float *mlp_norm, *norm, *q_norm, *k_norm;
    int64_t hidden, heads, kv_heads, size, block_size;
    float eps, head_eps;
    int32_t kind, kv_kind, amx;
} Stretch;

/* Of one call: [rows, ...] each. `mixed` is what attention gave; `out` takes q, or the normed rows where no layer follows,
 * and may be `mixed` itself where rows are as wide: a panel reads its rows of it before it writes them. */
typedef struct {
    const Stretch *stretch;
    float *x;
    const void *mixed;
    const float *turns;
    const int64_t *slots;
    void *keys, *values, *out;
    int64_t rows, panel;
} Passage;

/* Where one panel's intermediate rows lie. */
typedef struct {
    char *lines, *narrow, *wide; /* quantised rows; rows as wide as the residual; rows of the widest product */
    float *scales;
} Room;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t padded(int64_t count, int64_t to) { return (count + to - 1) / to * to; }

/* The thread's own, kept between calls and never given back: a few MB. */
static Room room_for(const Stretch *s, int64_t rows) {
    static _Thread_local char *kept;
    static _Thread_local int64_t kept_bytes;
    const Matrix *all_of[] = {s->output, s->gate_up, s->down, s->qkv};
    int64_t inputs = 0, width = s->hidden, each = s->kind == FLOAT32 ? 4 : 2;
    for (int i = 0; i < 4; i++)
        if (all_of[i]) {
            inputs = most(inputs, all_of[i]->inputs);
            width = most(width, all_of[i]->width / (all_of[i]->gated ? 2 : 1));
        }
    int64_t lines = padded(rows, 32) * padded(inputs, LINE_PADDING) * 4, scales = padded(rows * 4, 64);
    int64_t narrow = padded(rows * s->hidden * each, 64), wide = padded(rows * width * each, 64);
    int64_t bytes = lines + narrow + wide + scales;
    if (bytes > kept_bytes) {
        free(kept);
        kept = aligned_alloc(64, (size_t)bytes);
        kept_bytes = bytes;
    }
    return (Room){kept, kept + lines, kept + lines + narrow, (float *)(kept + lines + narrow + wide)};
}

static void multiply(const Stretch *s, const Matrix *m, const void *x, int64_t rows, const Room *room, void *out,
                     int threads) {
    if (m->kind == INT8)
        linear_int8(m, x, s->kind, rows, (int8_t *)room->lines, room->scales, out, s->amx, threads);
    else
        linear_float(m, x, s->kind, rows, room->lines, out, s->amx, threads);
}

static void pass(const Passage *p, int64_t row, int64_t rows, int threads) {
    const Stretch *s = p->stretch;
    int64_t each = s->kind == FLOAT32 ? 4 : 2, q_width = s->heads * s->size;
    Room room = room_for(s, rows);
    float *x = p->x + row * s->hidden;
    const void *delta = NULL;
    if (s->output) {
        multiply(s, s->output, (const char *)p->mixed + row * s->output->inputs * each, rows, &room, room.narrow, threads);
        add_rms_norm(x, room.narrow, s->kind, s->mlp_norm, room.narrow, s->kind, rows, s->hidden, s->eps, threads);
        multiply(s, s->gate_up, room.narrow, rows, &room, room.wide, threads);
        multiply(s, s->down, room.wide, rows, &room, room.narrow, threads);
        delta = room.narrow;
    }
    void *normed = s->qkv ? (void *)room.narrow : (char *)p->out + row * s->hidden * each;
    add_rms_norm(x, delta, s->kind, s->norm, normed, s->kind, rows, s->hidden, s->eps, threads);
    if (!s->qkv) return;
    multiply(s, s->qkv, normed, rows, &room, room.wide, threads);
    rotate_and_store(room.wide, s->kind, p->turns + row * s->size, s->q_norm, s->k_norm, s->head_eps, p->slots + row,
                     p->keys, p->values, s->kv_kind, (char *)p->out + row * q_width * each, rows, s->heads, s->kv_heads,
                     s->size, s->block_size, threads);
}

static void pass_panel(void *context, int64_t task) {
    const Passage *p = context;
    int64_t row = task * p->panel, left = p->rows - row;
    pass(p, row, left < p->panel ? left : p->panel, 1);
}

void between(const Stretch *stretch, float *x, const void *mixed, const float *turns, const int64_t *slots, void *keys,
             void *values, void *out, int64_t rows, int threads) {
    Passage p = {stretch, x, mixed, turns, slots, keys, values, out, rows, rows};
    if (rows < MANY || threads < 2) {
        for (int64_t row = 0; row < rows; row += PANEL) pass(&p, row, rows - row < PANEL ? rows - row : PANEL, threads);
        return;
    }
    /* As many panels for every thread. */
    int64_t panels = padded((rows + PANEL - 1) / PANEL, threads);
    p.panel = padded((rows + panels - 1) / panels, 16);
    run_tasks(threads, (rows + p.panel - 1) / p.panel, pass_panel, &p);
}
