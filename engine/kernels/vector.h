/* Sixteen floats at a time, in the vector types of GCC and Clang: the compiler lowers them to whatever the variant has
 * (one AVX-512 register, two of AVX2, four of SSE or NEON), so one text serves every machine.
 *
 * bf16 is the upper half of a float; it is widened by a shift, and rounded to nearest even. */
#ifndef OPSCONSOLE_VECTOR_H
#define OPSCONSOLE_VECTOR_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define LANES 16
#define INLINE static inline __attribute__((always_inline)) /* where a constant argument must reach the loops */
enum { FLOAT32 = 0, BFLOAT16 = 1 }; /* the `kind` of a buffer; compiled.py knows the same two */

typedef float floats __attribute__((vector_size(64)));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32)));

static inline floats all(float x) { return (floats){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }

static inline floats load(const float *p) {
    floats v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, floats v) { memcpy(p, &v, sizeof v); }

static inline words load_words(const void *p) {
    words v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* A word holds two bf16 values: the earlier in its lower half. */
static inline floats lower(words v) { return (floats)(v << 16); }
static inline floats upper(words v) { return (floats)(v & 0xffff0000u); }

static inline floats load_kind(const void *p, int64_t at, int kind) {
    if (kind == FLOAT32) return load((const float *)p + at);
    halves h;
    memcpy(&h, (const uint16_t *)p + at, sizeof h);
    return (floats)(__builtin_convertvector(h, words) << 16);
}

static inline words rounded(floats v) {
    words bits = (words)v;
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

static inline void store_kind(void *p, int64_t at, floats v, int kind) {
    if (kind == FLOAT32) {
        store((float *)p + at, v);
        return;
    }
#if defined(__AVX512BF16__)
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
#else
    halves h = __builtin_convertvector(rounded(v), halves);
#endif
    memcpy((uint16_t *)p + at, &h, sizeof h);
}

static inline uint16_t to_bf16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

static inline float from_bf16(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float load_one(const void *p, int64_t at, int kind) {
    return kind == FLOAT32 ? ((const float *)p)[at] : from_bf16(((const uint16_t *)p)[at]);
}

static inline void store_one(void *p, int64_t at, float x, int kind) {
    if (kind == FLOAT32)
        ((float *)p)[at] = x;
    else
        ((uint16_t *)p)[at] = to_bf16(x);
}

static inline floats choose(ints mask, floats yes, floats no) {
    return (floats)((mask & (ints)yes) | (~mask & (ints)no));
}

static inline floats larger(floats a, floats b) {
#if defined(__AVX512F__)
    return (floats)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return choose(a > b, a, b);
#endif
}

static inline float sum_of(floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)v);
#endif
    float parts[LANES], total = 0;
    memcpy(parts, &v, sizeof v);
    for (int i = 0; i < 8; i++) parts[i] += parts[i + 8];
    for (int i = 0; i < 4; i++) parts[i] += parts[i + 4];
    for (int i = 0; i < 4; i++) total += parts[i];
    return total;
}

static inline float largest_of(floats v) {
#if defined(__AVX512F__)
    return _mm512_reduce_max_ps((__m512)v);
#endif
    float parts[LANES], best;
    memcpy(parts, &v, sizeof v);
    best = parts[0];
    for (int i = 1; i < LANES; i++) best = parts[i] > best ? parts[i] : best;
    return best;
}

/* e^x to 2 units in the last place: 2^n times a polynomial on [-ln2/2, ln2/2]. Below -87 next to nothing (from -110 exactly
 * 0), above 88 clamped. */
static inline floats exponential(floats x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it leaves round(x) in the low bits */
#if defined(__AVX512F__)
    x = larger(x, all(-110.0f));
#else
    ints tiny = x < all(-87.0f);
    x = larger(x, all(-87.0f));
#endif
    x = -larger(-x, all(-88.0f));
    floats shifted = x * 1.44269504f + magic, n = shifted - magic;
    floats r = x - n * 0.693145752f - n * 1.42860677e-6f;
    floats p = all(1.0f / 720);
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
#if defined(__AVX512F__)
    return (floats)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return choose(tiny, all(0), (floats)((ints)p + ((ints)shifted << 23)));
#endif
}

/* silu(gate) * up */
static inline floats gated(floats gate, floats up) { return gate / (1.0f + exponential(-gate)) * up; }

#endif
