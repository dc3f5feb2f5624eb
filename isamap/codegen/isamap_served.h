/* What isamap_served.c calls: a table of emitted functions, ended by one without a name. */
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const char *name;
  int (*program)(const void *arguments, void *workspace, void *pool);
  size_t (*workspace_bytes)(const void *arguments); /* a program has it, a check of an instruction does not */
  void (*check)(unsigned char *const *data, const int64_t *numbers);
} isamap_function;

extern const isamap_function isamap_functions[];
