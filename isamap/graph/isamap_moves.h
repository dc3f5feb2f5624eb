/* Moves whose places are data, or whose pieces are many: what kernels, whose indices are known, do not perform. */
#ifndef ISAMAP_MOVES_H
#define ISAMAP_MOVES_H

#include <stdint.h>

enum { isamap_moves_INDEX = 100 }; /* returned where an index lies outside of what it leads into */

int isamap_copy(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_join(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_gather(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_gather_elements(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_gather_nd(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_scatter_elements(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_scatter_nd(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_non_zero(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_sizes(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_suppress(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_unique(const void *const *reads, void *const *writes, const int64_t *numbers);
int isamap_top(const void *const *reads, void *const *writes, const int64_t *numbers);

#endif
