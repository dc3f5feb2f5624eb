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

/* How elements are combined with those that are there: 0 replaced, 1 added, 2 multiplied, 3 larger, 4 smaller. */
#define COMBINE(type)                                                             \
  for (int64_t n = 0; n < count; n++, to += sizeof(type), from += sizeof(type)) { \
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
static void combine(char *to, const char *from, int64_t count, const int64_t *numbers, int64_t bytes) {
  int64_t how = numbers[0], type = numbers[1];
  if (how == 0) {
    memcpy(to, from, (size_t)(count * bytes));
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
    combine((char *)writes[0] + to * bytes, (const char *)reads[2] + n * bytes, 1, numbers, bytes);
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
    char *to = (char *)writes[0] + row * inner * bytes;
    combine(to, (const char *)reads[2] + n * inner * bytes, inner, numbers, bytes);
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

/* reads: truths x[sizes]; writes: the places of those that hold, a row for each axis, and how many there are;
   numbers: the sizes, behind their number */
int isamap_non_zero(reads_t reads, writes_t writes, const int64_t *numbers) {
  const unsigned char *holds = reads[0];
  int64_t rank = numbers[0], total = 1, count = 0, found = 0;
  for (int64_t d = 0; d < rank; d++) total *= numbers[1 + d];
  for (int64_t at = 0; at < total; at++) count += holds[at] != 0;
  for (int64_t at = 0; at < total && found < count; at++) {
    if (!holds[at]) continue;
    for (int64_t d = rank - 1, left = at; d >= 0; left /= numbers[1 + d], d--)
      ((int64_t *)writes[0])[d * count + found] = left % numbers[1 + d];
    found++;
  }
  *(int64_t *)writes[1] = count;
  return 0;
}

/* numbers: how many numbers are written, and these */
int isamap_sizes(reads_t reads, writes_t writes, const int64_t *numbers) {
  (void)reads;
  memcpy(writes[0], numbers + 1, (size_t)numbers[0] * 8);
  return 0;
}

/* What rows or boxes are sorted by: typed elements, `inner` of them each. */
typedef struct {
  const void *elements;
  int64_t kind, inner;
} keys_t;

#define COMPARED(TYPE)                                                                                        \
  for (int64_t n = 0; n < keys->inner; n++) {                                                                 \
    TYPE x = ((const TYPE *)keys->elements)[a * keys->inner + n], y = ((const TYPE *)keys->elements)[b * keys->inner + n]; \
    if (x < y || (x == x && y != y)) return -1;                                                               \
    if (y < x || (y == y && x != x)) return 1;                                                                \
  }                                                                                                           \
  return 0;

/* -1, 0 or 1 as a row comes before, is, or comes behind another; NaN is larger than every number. */
static int compare(const keys_t *keys, int64_t a, int64_t b) {
  switch (keys->kind) {
    case 1: COMPARED(float)
    case 2: COMPARED(double)
    case 3: COMPARED(int8_t)
    case 4: COMPARED(int16_t)
    case 5: COMPARED(int32_t)
    case 6: COMPARED(int64_t)
    case 7: COMPARED(uint8_t)
    case 8: COMPARED(uint16_t)
    case 9: COMPARED(uint32_t)
    default: COMPARED(uint64_t)
  }
}

static int is_before(const keys_t *keys, int64_t sign, int64_t a, int64_t b) {
  int found = compare(keys, a, b);
  return found ? found * sign < 0 : a < b;
}

/* Sort places by what is there, upwards or, where the sign is -1, downwards; equals stay in order. A heap sort. */
static void sort(const keys_t *keys, int64_t sign, int64_t *order, int64_t count) {
  for (int64_t n = 0; n < count; n++) order[n] = n;
  for (int64_t first = count / 2, end = count; end > 1;) {
    int64_t moved;
    if (first > 0) moved = order[--first];
    else {
      moved = order[--end];
      order[end] = order[0];
    }
    int64_t at = first;
    for (int64_t child; (child = 2 * at + 1) < end; at = child) {
      if (child + 1 < end && is_before(keys, sign, order[child], order[child + 1])) child++;
      if (!is_before(keys, sign, moved, order[child])) break;
      order[at] = order[child];
    }
    order[at] = moved;
  }
}

/* reads: x[rows, inner]; writes: the places of first ones, the number of each by place, how often, how many, and
   places to sort; numbers: rows, inner, the type, whether they are sorted */
int isamap_unique(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t rows = numbers[0], found = 0;
  int64_t *places = writes[0], *inverse = writes[1], *often = writes[2], *order = writes[4];
  keys_t keys = {reads[0], numbers[2], numbers[1]};
  sort(&keys, 1, order, rows);
  for (int64_t n = 0, first = 0; n < rows; n++) {
    if (n && compare(&keys, order[n - 1], order[n]) != 0) first = n;
    inverse[order[n]] = order[first];
    if (!numbers[3]) continue;
    if (first == n) {
      places[found] = order[n];
      often[found++] = 0;
    }
    often[found - 1]++;
  }
  if (numbers[3])
    for (int64_t k = 0, n = 0; k < found; k++)
      for (int64_t left = often[k]; left > 0; left--) inverse[order[n++]] = k;
  else
    for (int64_t n = 0; n < rows; n++) {
      if (inverse[n] == n) {
        places[found] = n;
        often[found] = 0;
        order[n] = found++;
      }
      inverse[n] = order[inverse[n]];
      often[inverse[n]]++;
    }
  *(int64_t *)writes[3] = found;
  return 0;
}

/* The part of two boxes' union that is in both. */
static float overlap_of(const float *a, const float *b, int64_t is_centre) {
  float low[2][2], high[2][2], area[2], both = 1;
  for (int box = 0; box < 2; box++) {
    const float *of = box ? b : a;
    for (int d = 0; d < 2; d++) {
      float one = is_centre ? of[d] - of[d + 2] / 2 : of[d], other = is_centre ? of[d] + of[d + 2] / 2 : of[d + 2];
      low[box][d] = one < other ? one : other;
      high[box][d] = one < other ? other : one;
    }
    area[box] = (high[box][0] - low[box][0]) * (high[box][1] - low[box][1]);
  }
  for (int d = 0; d < 2; d++) {
    float from = low[0][d] > low[1][d] ? low[0][d] : low[1][d], to = high[0][d] < high[1][d] ? high[0][d] : high[1][d];
    both *= to > from ? to - from : 0;
  }
  return area[0] > 0 && area[1] > 0 ? both / (area[0] + area[1] - both) : 0;
}

/* reads: boxes[batches, count, 4], scores[batches, classes, count], most of a class, the greatest overlap, the score
   to be above; writes: batch, class and box of those that are left, how many, and places to sort;
   numbers: batches, classes, count, whether boxes are centres and sizes */
int isamap_suppress(reads_t reads, writes_t writes, const int64_t *numbers) {
  int64_t count = numbers[2], most = *(const int64_t *)reads[2], found = 0;
  float greatest = *(const float *)reads[3], least = *(const float *)reads[4];
  int64_t(*chosen)[3] = writes[0], *order = writes[2];
  if (most > count) most = count;
  for (int64_t batch = 0; batch < numbers[0]; batch++)
    for (int64_t class = 0; class < numbers[1]; class++) {
      const float *boxes = (const float *)reads[0] + batch * count * 4;
      keys_t keys = {(const float *)reads[1] + (batch * numbers[1] + class) * count, 1, 1};
      sort(&keys, -1, order, count);
      int64_t first = found;
      for (int64_t n = 0; n < count && found - first < most; n++) {
        int is_left = ((const float *)keys.elements)[order[n]] > least;
        for (int64_t k = first; k < found && is_left; k++)
          is_left = overlap_of(boxes + 4 * order[n], boxes + 4 * chosen[k][2], numbers[3]) <= greatest;
        if (!is_left) continue;
        chosen[found][0] = batch, chosen[found][1] = class, chosen[found++][2] = order[n];
      }
    }
  *(int64_t *)writes[1] = found;
  return 0;
}
