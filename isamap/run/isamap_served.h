/* What isamap_served.c calls: a table of emitted functions, and one of what the processor must have; each is ended by
   an entry without a name. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
  size_t offset, size;
  int is_address;
} isamap_member;

typedef struct {
  const char *name;
  int (*program)(const void *arguments, void *workspace, void *pool);
  size_t (*workspace_bytes)(const void *arguments); /* a program has it, a check of an instruction does not */
  void (*check)(unsigned char *const *data, const int64_t *numbers);
  const isamap_member *members; /* of a program's struct of arguments, as many as numbers are given */
  size_t arguments_bytes;
} isamap_function;

extern const isamap_function isamap_functions[];

typedef struct {
  const char *name;
  unsigned long key; /* which word of the auxiliary vector tells of it, and which bit of that */
  int bit;
} isamap_feature;

extern const isamap_feature isamap_needed[];
