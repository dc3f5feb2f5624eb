/* Building blocks of elementary functions, for one f32 ($n is f32) and for $N of them ($n is f32x$N).
   $F is their type, $U that of their bits. An empty line ends a function. Those of f32 alone come first. */

typedef float f32x$N __attribute__((vector_size($B)));
typedef uint32_t u32x$N __attribute__((vector_size($B)));
typedef int32_t i32x$N __attribute__((vector_size($B)));

static inline uint32_t bits_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float of_bits_f32(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint32_t where_f32(int is) {
  return 0u - (uint32_t)is;
}

static inline float all_f32(float x) {
  return x;
}

static inline float number_f32(uint32_t whole) {
  return (float)(int32_t)whole;
}

static inline $U bits_$n($F x) {
  return ($U)x;
}

static inline $F of_bits_$n($U bits) {
  return ($F)bits;
}

static inline $U where_$n(i32x$N is) {
  return ($U)is;
}

static inline $F all_$n(float x) {
  return x - ($F){0};
}

static inline $F number_$n($U whole) {
  return __builtin_convertvector((i32x$N)whole, $F);
}

/* Return whether a < b is false in a lane. */
static inline int some_beyond_$n($F a, $F b) {
  const $U within = where_$n(a < b);
  uint32_t bits[$N];
  uint32_t all = ~0u;
  memcpy(bits, &within, sizeof bits);
  for (int i = 0; i < $N; i++) all &= bits[i];
  return all == 0u;
}

static inline $F multiply_add_$n($F a, $F b, $F c) {
  return a * b + c;
}

static inline $F choose_$n($U where, $F a, $F b) {
  return of_bits_$n((bits_$n(a) & where) | (bits_$n(b) & ~where));
}

/* Where a < b, else d. */
static inline $F if_less_$n($F a, $F b, $F c, $F d) {
  return choose_$n(where_$n(a < b), c, d);
}

/* 0 where a < b, else d. */
static inline $F zero_if_less_$n($F a, $F b, $F d) {
  return of_bits_$n(bits_$n(d) & ~where_$n(a < b));
}

/* The larger; where x is not a number, x. */
static inline $F at_least_$n($F x, $F low) {
  return if_less_$n(x, low, low, x);
}

static inline $F at_most_$n($F x, $F high) {
  return if_less_$n(high, x, high, x);
}

static inline $F size_$n($F x) {
  return of_bits_$n(bits_$n(x) & 0x7fffffffu);
}

/* To a whole number below 2**22, as adding and taking away 1.5 * 2**23 rounds. */
static inline $F nearest_$n($F x) {
  return x + 12582912.0f - 12582912.0f;
}

static inline $F sqrt_$n($F x) {
  float lanes[$N];
  memcpy(lanes, &x, sizeof x);
  for (int i = 0; i < $N; i++) lanes[i] = __builtin_sqrtf(lanes[i]);
  memcpy(&x, lanes, sizeof x);
  return x;
}

/* x * 2**n in two factors, as 2**n may lie outside of what floats reach. The low bits of the sum are n + 254, the
   sum of both biased exponents; the first one is half of it. */
static inline $F scale_$n($F x, $F n) {
  const $U biased = bits_$n(n + 12583166.0f), first = (biased << 22) & 0x7f800000u;
  return x * of_bits_$n(first) * of_bits_$n((biased << 23) - first);
}

static inline $F exponent_$n($F x) {
  return number_$n(((bits_$n(x) >> 23) & 255u) - 127u);
}

/* Lanes that the definition is not for, by C's library. */
static __attribute__((noinline, cold)) $F ${f}_beyond_$n($F x, $F found) {
  for (int i = 0; i < $N; i++) {
    if (!(__builtin_fabsf(x[i]) < ${B}f)) found[i] = __builtin_${f}f(x[i]);
  }
  return found;
}

static inline float ${f}_beyond_f32(float x, float found) {
  (void)found;
  return __builtin_${f}f(x);
}
