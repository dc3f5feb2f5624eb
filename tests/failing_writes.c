/* Preloaded: makes the n-th call fail that changes a file of given places, as a full or a broken disk does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char places[4 * PATH_MAX];
static long seen, first, last, parent;

/* Calls from the `begin`-th to the `end`-th fail, in this process alone. The files are those whose absolute paths
   begin with one of the texts in `where`, each with a line end behind it. */
void fail_writes(const char *where, long begin, long end) {
  snprintf(places, sizeof places, "%s", where);
  seen = 0, first = begin, last = end, parent = getpid();
}

long writes_seen(void) { return seen; }

static int fails(int inside) {
  if (!inside || parent != getpid()) return 0;
  seen++;
  if (seen < first || seen > last) return 0;
  errno = ENOSPC;
  return 1;
}

static int is_inside(const char *path) {
  for (const char *at = places, *end; (end = strchr(at, '\n')) != NULL; at = end + 1) {
    if (strncmp(path, at, (size_t)(end - at)) == 0) return 1;
  }
  return 0;
}

static int is_file(int fd) {
  char name[64], path[PATH_MAX] = "";
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
  return places[0] && readlink(name, path, sizeof path - 1) > 0 && is_inside(path);
}

#define FAILING(type, name, taken, given, inside) \
  type name taken { \
    static type(*real) taken; \
    if (!real) real = (type(*) taken)dlsym(RTLD_NEXT, #name); \
    return fails(inside) ? -1 : real given; \
  }

FAILING(ssize_t, write, (int fd, const void *data, size_t n), (fd, data, n), is_file(fd))
FAILING(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), is_file(fd))
FAILING(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), is_file(fd))
FAILING(int, ftruncate, (int fd, off_t n), (fd, n), is_file(fd))
FAILING(int, ftruncate64, (int fd, off64_t n), (fd, n), is_file(fd))
FAILING(int, fsync, (int fd), (fd), is_file(fd))
FAILING(int, fdatasync, (int fd), (fd), is_file(fd))
FAILING(int, rename, (const char *a, const char *b), (a, b), is_inside(b))
FAILING(int, renameat2, (int f, const char *a, int g, const char *b, unsigned how), (f, a, g, b, how), is_inside(b))
FAILING(int, mkdir, (const char *path, mode_t mode), (path, mode), is_inside(path))
FAILING(int, chmod, (const char *path, mode_t mode), (path, mode), is_inside(path))
FAILING(int, link, (const char *a, const char *b), (a, b), is_inside(b))

#define OPENING(name) \
  int name(const char *path, int flags, ...) { \
    static int (*real)(const char *, int, ...); \
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \
    va_list more; \
    va_start(more, flags); \
    const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0; \
    va_end(more); \
    return flags & (O_WRONLY | O_RDWR | O_CREAT) && fails(is_inside(path)) ? -1 : real(path, flags, mode); \
  }

OPENING(open)
OPENING(open64)
