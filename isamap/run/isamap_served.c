/* The main program around emitted functions for another architecture: calls come on standard input, results go
   to standard output. isamap/run/emulated.py writes the one and reads the other, and describes both.

   Bytes of numbers come and go the least first, here turned where the processor has the other order.

   Each operand lies in pages of its own between two that must not be touched, at the place that is asked for. Where no
   operating system protects pages, what was written to those two is told behind each call. A result is written as soon
   as its call returns: where a call ends the process, those before it have arrived. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#include <sys/mman.h>
#endif

#include "isamap_served.h"

enum { FREE, AT_END, AT_START, NOWHERE = 3, POISON = 0xFF };
/* What fills pages that are not protected, and how a process ends that wrote there: as shells say of SIGSEGV. What is
   read there shows where it matters: on the other side of the data lies POISON. */
enum { BESIDE = 0x3C, WROTE_BESIDE = 128 + 11 };

typedef struct {
  unsigned char *start; /* of the whole mapping */
  size_t pages;         /* bytes between the two that must not be touched */
  unsigned char *data;
  uint64_t size, element;
  int is_guarded;
} region;

static size_t page;

static void read_all(void *to, size_t size) {
  for (unsigned char *at = to; size > 0;) {
    ssize_t n = read(0, at, size);
    if (n <= 0) _exit(NOWHERE);
    at += n, size -= (size_t)n;
  }
}

static void write_all(const void *from, size_t size) {
  for (const unsigned char *at = from; size > 0;) {
    ssize_t n = write(1, at, size);
    if (n <= 0) _exit(NOWHERE);
    at += n, size -= (size_t)n;
  }
}

/* The bytes of so many numbers in this processor's order, or from it. */
static void turn(void *numbers, uint64_t size, uint64_t element) {
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  unsigned char *at = numbers;
  for (uint64_t first = 0; element > 1 && first + element <= size; first += element)
    for (uint64_t i = 0; i < element / 2; i++) {
      unsigned char kept = at[first + i];
      at[first + i] = at[first + element - 1 - i], at[first + element - 1 - i] = kept;
    }
#else
  (void)numbers, (void)size, (void)element;
#endif
}

static uint64_t read_word(void) {
  uint64_t word;
  read_all(&word, sizeof word);
  turn(&word, sizeof word, sizeof word);
  return word;
}

#ifdef __linux__
static size_t page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static unsigned char *take_pages(size_t size) {
  void *start = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return start == MAP_FAILED ? 0 : start;
}

static void protect(unsigned char *start) { mprotect(start, page, PROT_NONE); }

static void check_beside(const region *r) { (void)r; }

static void release(region r) { munmap(r.start, r.pages + 2 * page); }

static int has(const isamap_feature *f) { return getauxval(f->key) >> f->bit & 1; }
#else
static size_t page_bytes(void) { return 4096; }

static unsigned char *take_pages(size_t size) { return aligned_alloc(page, size); }

static void protect(unsigned char *start) { memset(start, BESIDE, page); }

static void check_beside(const region *r) {
  for (size_t i = 0; r->is_guarded && i < page; i++)
    if (r->start[i] != BESIDE || r->start[page + r->pages + i] != BESIDE) _exit(WROTE_BESIDE);
}

static void release(region r) { free(r.start); }

static int has(const isamap_feature *f) { return f != 0; /* what it lacks, it refuses to load */ }
#endif

static region make_region(uint64_t size, uint64_t slack, uint64_t place) {
  region r = {.size = size, .is_guarded = place != FREE};
  r.pages = (size + slack + page - 1) / page * page;
  if (r.pages == 0) r.pages = page;
  r.start = take_pages(r.pages + 2 * page);
  if (!r.start) _exit(NOWHERE);
  memset(r.start + page, POISON, r.pages);
  if (r.is_guarded) {
    protect(r.start);
    protect(r.start + page + r.pages);
  }
  r.data = r.start + page + (place == AT_END ? r.pages - size - slack : 0);
  return r;
}

static const isamap_function *find(const char *name) {
  for (const isamap_function *f = isamap_functions; f->name; f++)
    if (strcmp(f->name, name) == 0) return f;
  _exit(NOWHERE);
}

/* The numbers are the members of the struct of arguments: for an address which region's, else the bits of the value. */
static void run(const isamap_function *f, region *regions, const uint64_t *numbers, uint64_t count, uint64_t place,
                uint64_t answer[2]) {
  region arguments = make_region(f->arguments_bytes, 0, place);
  for (uint64_t i = 0; i < count; i++) {
    const isamap_member *m = &f->members[i];
    uint64_t bits = numbers[i];
    turn(&bits, sizeof bits, sizeof bits); /* the least byte first, then those that count in this processor's order */
    turn(&bits, m->size, m->size);
    memcpy(arguments.data + m->offset, m->is_address ? (const void *)&regions[numbers[i]].data : &bits, m->size);
  }
  answer[1] = f->workspace_bytes(arguments.data);
  region workspace = make_region(answer[1], 0, place);
  answer[0] = (uint64_t)(int64_t)f->program(arguments.data, workspace.data, 0);
  check_beside(&workspace), release(workspace);
  check_beside(&arguments), release(arguments);
}

static void serve(void) {
  uint64_t length = read_word(), place = read_word(), count = read_word(), numbers_count = read_word();
  char *name = calloc(length + 1, 1);
  region *regions = calloc(count + 1, sizeof *regions);
  unsigned char **data = calloc(count + 1, sizeof *data);
  uint64_t *numbers = calloc(numbers_count + 1, sizeof *numbers);
  if (!name || !regions || !data || !numbers) _exit(NOWHERE);
  read_all(name, length);
  read_all(numbers, numbers_count * sizeof *numbers);
  turn(numbers, numbers_count * sizeof *numbers, sizeof *numbers);
  for (uint64_t i = 0; i < count; i++) {
    uint64_t size = read_word(), slack = read_word(), element = read_word();
    regions[i] = make_region(size, slack, place);
    regions[i].element = element;
    data[i] = regions[i].data;
    read_all(data[i], size);
    turn(data[i], size, element);
  }
  const isamap_function *f = find(name);
  uint64_t answer[2] = {0, 0};
  if (f->workspace_bytes)
    run(f, regions, numbers, numbers_count, place, answer);
  else
    f->check(data, (const int64_t *)numbers);
  for (uint64_t i = 0; i < count; i++) check_beside(&regions[i]);
  turn(answer, sizeof answer, sizeof *answer);
  write_all(answer, sizeof answer);
  for (uint64_t i = 0; i < count; i++) {
    turn(data[i], regions[i].size, regions[i].element);
    write_all(data[i], regions[i].size);
    release(regions[i]);
  }
  free(name), free(regions), free(data), free(numbers);
}

/* What the processor lacks is told by the operating system: instructions of it would end the process, or do others' work. */
static void check_features(void) {
  for (const isamap_feature *f = isamap_needed; f->name; f++)
    if (!has(f)) {
      fprintf(stderr, "the processor lacks %s\n", f->name);
      exit(NOWHERE);
    }
}

int main(void) {
  check_features();
  page = page_bytes();
  for (uint64_t calls = read_word(); calls > 0; calls--) serve();
  return 0;
}
