/* C functions that expressions use, for `c_functions.py`: $n is a type of the language, $t its type in C. An empty
   line ends a function. Narrow floats are rounded to nearest even, once; subnormals are kept, and a NaN is quiet. */

static inline uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline uint64_t double_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static inline double double_from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static inline int64_t floor_mod(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static inline uint64_t low_bits(int64_t count) {
  return count >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

/* To the last bit rounded to odd, so that rounding once more gives what one rounding would have given. */
static inline float f64_to_odd_f32(double x) {
  float y = (float)x;
  double back = (double)y;
  uint32_t bits = float_bits(y);
  if (back == x || x != x || (bits & 1) != 0) return y;
  return float_from_bits((back < x) == (x > 0) ? bits + 1 : bits - 1);
}

/* a*b + c of narrow floats: the product is exact, what the sum loses makes its last bit odd. */
static inline float fma_to_odd_f32(float a, float b, float c) {
  double product = (double)a * (double)b, addend = (double)c, sum = product + addend, back = sum - product;
  double lost = (product - (sum - back)) + (addend - back);
  uint64_t bits;
  memcpy(&bits, &sum, sizeof bits);
  if (lost - lost == 0 && lost != 0 && (bits & 1) == 0) {
    bits = (lost > 0) == (sum > 0) ? bits + 1 : bits - 1;
    memcpy(&sum, &bits, sizeof sum);
  }
  return f64_to_odd_f32(sum);
}

/* Exact below 2**53; above, the bits that do not fit are folded into an odd last one. */
static inline double ${n}_to_f64($t x) {
  if ($inside) return (double)x;
  return (double)(x >> 11 | ((x & 0x7ff) != 0)) * 2048.0;
}

static inline float wide_value(uint32_t magnitude, int fraction, int bias, uint32_t infinite, uint32_t nan) {
  uint32_t bits = (magnitude << (23 - fraction)) + ((uint32_t)(127 - bias) << 23);
  if (magnitude == infinite) return float_from_bits(0x7f800000u);
  if (magnitude >= nan) return float_from_bits(0x7fc00000u);
  if (magnitude >> fraction != 0) return float_from_bits(bits);
  return (float)magnitude * float_from_bits((uint32_t)(128 - bias - fraction) << 23);
}

/* Rounds to `fraction` bits and an exponent biased by `bias`; `largest` are the bits of the largest finite
   value, `beyond` those of what is larger, `nan` those of not-a-number. */
static inline uint32_t narrow_bits(float x, int fraction, int bias, uint32_t largest, uint32_t beyond,
                                   uint32_t nan) {
  uint32_t bits = float_bits(x) & 0x7fffffffu;
  int exponent = (int)(bits >> 23) - 127;
  int drop = 23 - fraction;
  uint32_t result;
  if (bits > 0x7f800000u) return nan;
  if (bits == 0x7f800000u) return beyond;
  if (exponent < 1 - bias) {
    uint32_t whole = (bits & 0x7fffffu) | (bits >> 23 ? 0x800000u : 0);
    drop += 1 - bias - exponent;
    if (drop > 25) drop = 25;
    result = (whole + ((1u << (drop - 1)) - 1) + (whole >> drop & 1)) >> drop;
  } else {
    bits -= (uint32_t)(127 - bias) << 23;
    result = (bits + ((1u << (drop - 1)) - 1) + (bits >> drop & 1)) >> drop;
  }
  return result > largest ? beyond : result;
}

static inline float bf16_to_f32(uint16_t x) {
  return float_from_bits((uint32_t)x << 16);
}

static inline uint16_t f32_to_bf16(float x) {
  uint32_t bits = float_bits(x);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
  return (uint16_t)(x != x ? bits >> 16 | 0x40u : rounded);
}

static inline float ${n}_to_f32($t x) {
  float size = wide_value(x & ${all_but_sign}u, $fraction, $bias, ${infinite}u, ${first_nan}u);
  return x >> $top ? -size : size;
}

static inline $t f32_to_$n(float x) {
  uint32_t sign = float_bits(x) >> 31 << $top;
  return ($t)(sign | narrow_bits(x, $fraction, $bias, ${largest}u, ${beyond}u, ${nan}u));
}

static inline float round_tf32(float x) {
  uint32_t bits = float_bits(x);
  uint32_t rounded = (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
  return x - x != 0 ? x : float_from_bits(rounded);
}

static inline float round_$n(float x) {
  return ${n}_to_f32(f32_to_$n(x));
}

static inline $t saturate_$n(double x) {
  return x != x ? 0 : x >= $above ? $high : x <= $below ? $low : ($t)x;
}

static inline $t rounding_shift_$n($t x, $t n) {
  n = n < 0 ? 0 : n > $last ? $last : n;
  $t whole = x >> n;$rest$half
  return whole + ($upward);
}

#ifdef __SIZEOF_INT128__
typedef __int128 wide_int;
#else
typedef _BitInt(128) wide_int;
#endif

static inline uint64_t wrap_float(double x) {
  double size = x < 0 ? -x : x;
  uint64_t bits, whole;
  if (size < 9223372036854775808.0) return (uint64_t)(int64_t)x;
  memcpy(&bits, &x, sizeof bits);
  int shift = (int)(bits >> 52 & 0x7ff) - 1075;
  whole = shift < 64 ? ((bits & 0xfffffffffffffu) | 0x10000000000000u) << shift : 0;
  return x < 0 ? 0 - whole : whole;
}

/* Keep the value where it is: hoisted out of loops, it would take a register from their sums. */
static inline $t made_here_$t($t x) {
  __asm__ volatile("" : "+m"(x));
  return x;
}

#if defined(__aarch64__)
#define VECTOR_CLASS "w"
#elif defined(__AVX512F__)
#define VECTOR_CLASS "v"
#elif defined(__SSE2__)
#define VECTOR_CLASS "x"
#endif

#ifdef VECTOR_CLASS
#define IN_VECTOR "+" VECTOR_CLASS
#else
#define IN_VECTOR "+m"
#endif

/* Read once: compilers would read memory again for each of the two or three instructions that use it. */
#ifdef VECTOR_CLASS
#define READ_ONCE(x) __asm__("" : "+" VECTOR_CLASS(x))
#else
#define READ_ONCE(x) ((void)0)
#endif

/* The last use of x: without it, compilers end the sum before in its register, and move it back later. */
#ifdef VECTOR_CLASS
#define LAST_USE(x, sum) __asm__("" : "+" VECTOR_CLASS(sum) : VECTOR_CLASS(x))
#else
#define LAST_USE(x, sum) ((void)0)
#endif

/* Make the sum after the loop the one inside. Without it, gcc keeps a second sum of its own type. */
#ifdef VECTOR_CLASS
#define ONE_SUM(sum) __asm__("" : "+" VECTOR_CLASS(sum))
#else
#define ONE_SUM(sum) ((void)0)
#endif

static inline $t ${op}_$n($t a, $t b) {
  return a $sign b || a != a ? a : b;
}

static inline double ${op}_f64(double x) {
  return $c;
}
