/* Moves whose places are data: see isamap_moves.h. Indices may be negative, and count from the end then. */
#include "isamap_moves.h"

#include <string.h>

typedef const void *const *reads_t;
typedef void *const *writes_t;

static int64_t index_at(const void *indices, int64_t bytes, int64_t at) {
  return bytes == 8 ? ((const int64_t *)indices)[at] : ((const int32_t *)indices)[at];
}

/* The place that an index means, -1 where it is outside. */
static int64_t place_of(int64_t index, int64_t length) {
  if (index < 0) index += length;
  return index >= 0 && index < length ? index : -1;
}

/* numbers: bytes */
int isamap_copy(reads_t reads, writes_t writes, const int64_t *numbers) {
  memcpy(writes[0], reads[0], (size_t)numbers[0]);
  return 0;
}

/* numbers: how many rows, how many parts, bytes of each part's row */
int isamap_join(reads_t reads, writes_t writes, const int64_t *numbers) {
  char *to = writes[0];
  for (int64_t row = 0; row < numbers[0]; row++)
    for (int64_t part = 0; part < numbers[1]; part++) {
      size_t bytes = (size_t)numbers[2 + part];
      memcpy(to, (const char *)reads[part] + (size_t)row * bytes, bytes);
      to += bytes;
    }
  return 0;
}

/* reads: x[outer, length, inner], indices[count]; numbers: outer, length, bytes of inner, count, bytes of an index */
int isamap_gather(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t outer = numbers[0], length = numbers[1], bytes = numbers[2], count = numbers[3];
  const char *from = reads[0];
  char *to = writes[0];
  for (int64_t row = 0; row < outer; row++)
    for (int64_t n = 0; n < count; n++, to += bytes) {
      int64_t place = place_of(index_at(reads[1], numbers[4], n), length);
      if (place < 0) return isamap_moves_INDEX;
      memcpy(to, from + (row * length + place) * bytes, (size_t)bytes);
    }
  return 0;
}

/* The offset in x of the element that an element of indices leads to, along one axis; -1 outside.
   numbers: rank, axis, bytes of an element, bytes of an index, sizes of x, sizes of indices */
static int64_t lead(const int64_t *numbers, const void *indices, int64_t at) {
  int64_t rank = numbers[0], axis = numbers[1], offset = 0, stride = 1, left = at;
  const int64_t *sizes = numbers + 4, *own = numbers + 4 + rank;
  for (int64_t d = rank - 1; d >= 0; d--) {
    int64_t place = left % own[d];
    left /= own[d];
    if (d == axis) place = place_of(index_at(indices, numbers[3], at), sizes[d]);
    if (place < 0) return -1;
    offset += place * stride;
    stride *= sizes[d];
  }
  return offset;
}

static int64_t product(const int64_t *sizes, int64_t count) {
  int64_t found = 1;
  for (int64_t n = 0; n < count; n++) found *= sizes[n];
  return found;
}

int isamap_gather_elements(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t rank = numbers[0], bytes = numbers[2], count = product(numbers + 4 + rank, rank);
  for (int64_t n = 0; n < count; n++) {
    int64_t from = lead(numbers, reads[1], n);
    if (from < 0) return isamap_moves_INDEX;
    memcpy((char *)writes[0] + n * bytes, (const char *)reads[0] + from * bytes, (size_t)bytes);
  }
  return 0;
}

/* How many rows into x the indices of a tuple lead, -1 outside. */
static int64_t tuple(const void *indices, int64_t first, int64_t depth, const int64_t *sizes) {
  int64_t offset = 0;
  for (int64_t d = 0; d < depth; d++) {
    int64_t place = place_of(index_at(indices, 8, first + d), sizes[d]);
    if (place < 0) return -1;
    offset = offset * sizes[d] + place;
  }
  return offset;
}

/* reads: x[batch, sizes, inner], indices[batch, count, depth]; numbers: batch, count, depth, bytes of inner, sizes */
int isamap_gather_nd(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t batch = numbers[0], count = numbers[1], depth = numbers[2], bytes = numbers[3];
  int64_t rows = product(numbers + 4, depth);
  char *to = writes[0];
  for (int64_t b = 0; b < batch; b++)
    for (int64_t n = 0; n < count; n++, to += bytes) {
      int64_t row = tuple(reads[1], (b * count + n) * depth, depth, numbers + 4);
      if (row < 0) return isamap_moves_INDEX;
      memcpy(to, (const char *)reads[0] + (b * rows + row) * bytes, (size_t)bytes);
    }
  return 0;
}

/* How an element is combined with the one that is there: 0 replaced, 1 added, 2 multiplied, 3 larger, 4 smaller. */
#define COMBINE(type)                                                             \
  {                                                                               \
    type a, b;                                                                    \
    memcpy(&a, to, sizeof a);                                                     \
    memcpy(&b, from, sizeof b);                                                   \
    if (how == 1) a = (type)(a + b);                                              \
    if (how == 2) a = (type)(a * b);                                              \
    if (how == 3) a = a != a || a > b ? a : b;                                    \
    if (how == 4) a = a != a || a < b ? a : b;                                    \
    memcpy(to, &a, sizeof a);                                                     \
  }

/* Types by number: 1 f32, 2 f64, 3 i8, 4 i16, 5 i32, 6 i64, 7 u8, 8 u16, 9 u32, 10 u64. */
static void combine(char *to, const char *from, int64_t how, int64_t type, int64_t bytes) {
  if (how == 0) {
    memcpy(to, from, (size_t)bytes);
    return;
  }
  switch (type) {
    case 1: COMBINE(float) break;
    case 2: COMBINE(double) break;
    case 3: COMBINE(int8_t) break;
    case 4: COMBINE(int16_t) break;
    case 5: COMBINE(int32_t) break;
    case 6: COMBINE(int64_t) break;
    case 7: COMBINE(uint8_t) break;
    case 8: COMBINE(uint16_t) break;
    case 9: COMBINE(uint32_t) break;
    default: COMBINE(uint64_t)
  }
}

/* reads: x, indices, updates; numbers: how, type, then as `lead` has them */
int isamap_scatter_elements(reads_t reads, writes_t writes, const int64_t *numbers) {
  const int64_t *own = numbers + 2;
  int64_t rank = own[0], bytes = own[2], count = product(own + 4 + rank, rank);
  memcpy(writes[0], reads[0], (size_t)(product(own + 4, rank) * bytes));
  for (int64_t n = 0; n < count; n++) {
    int64_t to = lead(own, reads[1], n);
    if (to < 0) return isamap_moves_INDEX;
    combine((char *)writes[0] + to * bytes, (const char *)reads[2] + n * bytes, numbers[0], numbers[1], bytes);
  }
  return 0;
}

/* reads: x[sizes, inner], indices[count, depth], updates[count, inner];
   numbers: how, type, count, depth, elements of inner, bytes of an element, sizes */
int isamap_scatter_nd(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t count = numbers[2], depth = numbers[3], inner = numbers[4], bytes = numbers[5];
  memcpy(writes[0], reads[0], (size_t)(product(numbers + 6, depth) * inner * bytes));
  for (int64_t n = 0; n < count; n++) {
    int64_t row = tuple(reads[1], n * depth, depth, numbers + 6);
    if (row < 0) return isamap_moves_INDEX;
    for (int64_t e = 0; e < inner; e++)
      combine((char *)writes[0] + (row * inner + e) * bytes, (const char *)reads[2] + (n * inner + e) * bytes,
              numbers[0], numbers[1], bytes);
  }
  return 0;
}

#define BEFORE(type)                                                              \
  {                                                                               \
    type a, b;                                                                    \
    memcpy(&a, one, sizeof a);                                                    \
    memcpy(&b, other, sizeof b);                                                  \
    return largest ? a > b : a < b;                                               \
  }

/* NaN is above all numbers, as ONNX's reference and onnxruntime sort it. */
#define FLOAT_BEFORE(type)                                                        \
  {                                                                               \
    type a, b;                                                                    \
    memcpy(&a, one, sizeof a);                                                    \
    memcpy(&b, other, sizeof b);                                                  \
    if (a != a || b != b) return largest ? a != a && b == b : a == a && b != b;   \
    return largest ? a > b : a < b;                                               \
  }

static int before(const char *one, const char *other, int64_t largest, int64_t type) {
  switch (type) {
    case 1: FLOAT_BEFORE(float)
    case 2: FLOAT_BEFORE(double)
    case 3: BEFORE(int8_t)
    case 4: BEFORE(int16_t)
    case 5: BEFORE(int32_t)
    case 6: BEFORE(int64_t)
    case 7: BEFORE(uint8_t)
    case 8: BEFORE(uint16_t)
    case 9: BEFORE(uint32_t)
    default: BEFORE(uint64_t)
  }
}

/* The k first of each line in order, of equals the one with the smaller index; writes values and indices (int64).
   reads: x[outer, length, inner]; numbers: outer, length, inner, k, largest, type, bytes of an element */
int isamap_top(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t outer = numbers[0], length = numbers[1], inner = numbers[2], k = numbers[3], bytes = numbers[6];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < inner; i++) {
      const char *line = (const char *)reads[0] + (o * length * inner + i) * bytes;
      char *values = (char *)writes[0] + (o * k * inner + i) * bytes;
      int64_t *places = (int64_t *)writes[1] + o * k * inner + i, filled = 0;
      for (int64_t n = 0; n < length; n++) {
        const char *one = line + n * inner * bytes;
        int64_t at = filled;
        while (at > 0 && before(one, line + places[(at - 1) * inner] * inner * bytes, numbers[4], numbers[5])) at--;
        if (at == k) continue;
        if (filled < k) filled++;
        for (int64_t m = filled - 1; m > at; m--) places[m * inner] = places[(m - 1) * inner];
        places[at * inner] = n;
      }
      for (int64_t m = 0; m < filled; m++)
        memcpy(values + m * inner * bytes, line + places[m * inner] * inner * bytes, (size_t)bytes);
    }
  return 0;
}
