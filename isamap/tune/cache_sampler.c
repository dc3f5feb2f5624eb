typedef void timed(unsigned char *const *data, const int64_t *numbers, int64_t trips);

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The last of the numbers says how long nothing is touched before a sample. */
void sample(timed *f, unsigned char *const *data, const int64_t *numbers, int64_t trips, int64_t count,
            int64_t *ns) {
  const int64_t one_block[1] = {1};
  for (int64_t n = 0; n < count; ++n) {
    f(data, numbers, 2);
    int64_t start = now();
    while (now() - start < numbers[1]) f(data, one_block, 1);  /* wide units fall asleep, and wake slowly */
    start = now();
    f(data, numbers, trips);
    ns[n] = now() - start;
  }
}
