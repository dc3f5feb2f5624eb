/* The main program around emitted functions for another architecture: calls come on standard input, results go
   to standard output. isamap/codegen/emulated.py writes the one and reads the other, and describes both.

   Each operand lies in pages of its own between two that must not be touched, at the place that is asked for. A
   result is written as soon as its call returns: where a call ends the process, those before it have arrived. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "isamap_served.h"

enum { FREE, AT_END, AT_START, NOWHERE = 3, POISON = 0xFF };

typedef struct {
  unsigned char *start; /* of the whole mapping */
  size_t pages;         /* bytes between the two that must not be touched */
  unsigned char *data;
  uint64_t size;
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

static uint64_t read_word(void) {
  uint64_t word;
  read_all(&word, sizeof word);
  return word;
}

static region make_region(uint64_t size, uint64_t slack, uint64_t place) {
  region r = {.size = size};
  r.pages = (size + slack + page - 1) / page * page;
  if (r.pages == 0) r.pages = page;
  r.start = mmap(0, r.pages + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (r.start == MAP_FAILED) _exit(NOWHERE);
  memset(r.start + page, POISON, r.pages);
  if (place != FREE) {
    mprotect(r.start, page, PROT_NONE);
    mprotect(r.start + page + r.pages, page, PROT_NONE);
  }
  r.data = r.start + page + (place == AT_END ? r.pages - size - slack : 0);
  return r;
}

static const isamap_function *find(const char *name) {
  for (const isamap_function *f = isamap_functions; f->name; f++)
    if (strcmp(f->name, name) == 0) return f;
  _exit(NOWHERE);
}

/* The last region of a program is its struct of arguments; pairs of numbers say which of its bytes hold the address
   of which region. */
static void run(const isamap_function *f, region *regions, const uint64_t *numbers, uint64_t pairs, uint64_t place,
                uint64_t count, uint64_t answer[2]) {
  unsigned char *arguments = regions[count - 1].data;
  for (uint64_t i = 0; i < pairs; i++) memcpy(arguments + numbers[2 * i], &regions[numbers[2 * i + 1]].data, 8);
  answer[1] = f->workspace_bytes(arguments);
  region workspace = make_region(answer[1], 0, place);
  answer[0] = (uint64_t)(int64_t)f->program(arguments, workspace.data, 0);
  munmap(workspace.start, workspace.pages + 2 * page);
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
  for (uint64_t i = 0; i < count; i++) {
    uint64_t size = read_word(), slack = read_word();
    regions[i] = make_region(size, slack, place);
    data[i] = regions[i].data;
    read_all(data[i], size);
  }
  const isamap_function *f = find(name);
  uint64_t answer[2] = {0, 0};
  if (f->workspace_bytes)
    run(f, regions, numbers, numbers_count / 2, place, count, answer);
  else
    f->check(data, (const int64_t *)numbers);
  write_all(answer, sizeof answer);
  for (uint64_t i = 0; i < count; i++) {
    write_all(data[i], regions[i].size);
    munmap(regions[i].start, regions[i].pages + 2 * page);
  }
  free(name), free(regions), free(data), free(numbers);
}

/* What the processor lacks is told by the operating system: instructions of it would end the process, or do others' work. */
static void check_features(void) {
  for (const isamap_feature *f = isamap_needed; f->name; f++)
    if (!(getauxval(f->key) >> f->bit & 1)) {
      fprintf(stderr, "the processor lacks %s\n", f->name);
      exit(NOWHERE);
    }
}

int main(void) {
  check_features();
  page = (size_t)sysconf(_SC_PAGESIZE);
  for (uint64_t calls = read_word(); calls > 0; calls--) serve();
  return 0;
}
