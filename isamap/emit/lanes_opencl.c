/* The first OpenCL device of this computer, by the library that is found when the program runs. Memory of the
   caller is used where it lies. */

typedef struct { const void *at; size_t bytes; } isamap_value;
typedef void *isamap_memory;

enum { ISAMAP_MEMORIES = 64, CL_USE_HOST_POINTER = 8, CL_MAP_READ_WRITE = 3 };

typedef struct {
  int status, count;
  void *library, *context, *queue, *program;
  struct { void *memory; size_t bytes; } memories[ISAMAP_MEMORIES];
} isamap_device;

#define LAUNCH(name) #name
#define CL(function, result, ...) ((result(*)(__VA_ARGS__))dlsym(d->library, #function))

static void isamap_check(isamap_device *d, int error) {
  if (error != 0 && d->status == 0) d->status = ISAMAP_DEVICE_FAILED;
}

static void isamap_open(isamap_device *d, const char *text) {
  *d = (isamap_device){.library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL)};
  void *platform = NULL, *device = NULL;
  uint32_t count = 0;
  int error = d->library == NULL;
  if (!error) error = CL(clGetPlatformIDs, int32_t, uint32_t, void **, uint32_t *)(1, &platform, &count);
  if (!error) {
    error = CL(clGetDeviceIDs, int32_t, void *, uint64_t, uint32_t, void **, uint32_t *)(
        platform, UINT64_C(0xffffffff), 1, &device, &count);
  }
  if (!error) {
    d->context = CL(clCreateContext, void *, const void *, uint32_t, void **, void *, void *, int *)(
        NULL, 1, &device, NULL, NULL, &error);
  }
  if (!error) {
    d->queue = CL(clCreateCommandQueue, void *, void *, void *, uint64_t, int *)(d->context, device, 0, &error);
  }
  if (!error) {
    d->program =
        CL(clCreateProgramWithSource, void *, void *, uint32_t, const char **, const size_t *, int *)(
            d->context, 1, &text, NULL, &error);
  }
  if (!error) {
    error = CL(clBuildProgram, int32_t, void *, uint32_t, void **, const char *, void *, void *)(
        d->program, 1, &device, "", NULL, NULL);
  }
  isamap_check(d, error);
}

static isamap_memory isamap_share(isamap_device *d, const void *at, size_t bytes) {
  int error = d->count == ISAMAP_MEMORIES;
  if (d->status != 0 || error) {
    isamap_check(d, error);
    return NULL;
  }
  void *memory = CL(clCreateBuffer, void *, void *, uint64_t, size_t, void *, int *)(
      d->context, at == NULL ? 1 : 1 | CL_USE_HOST_POINTER, bytes, (void *)(uintptr_t)at, &error);
  isamap_check(d, error);
  d->memories[d->count].memory = memory;
  d->memories[d->count++].bytes = at == NULL ? 0 : bytes; /* to bring back */
  return memory;
}

/* Memory of the device alone: what the caller lends for it is not used. */
static isamap_memory isamap_reserve(isamap_device *d, void *at, size_t bytes) {
  (void)at;
  return isamap_share(d, NULL, bytes);
}

static void isamap_launch(
    isamap_device *d, const char *name, int64_t blocks, int64_t lanes, const isamap_value *given, int count) {
  if (d->status != 0 || blocks <= 0) return;
  int error = 0;
  const size_t all = (size_t)(blocks * lanes), own = (size_t)lanes;
  void *kernel = CL(clCreateKernel, void *, void *, const char *, int *)(d->program, name, &error);
  for (int at = 0; at < count && !error; at++) {
    error = CL(clSetKernelArg, int32_t, void *, uint32_t, size_t, const void *)(
        kernel, (uint32_t)at, given[at].bytes, given[at].at);
  }
  if (!error) {
    error = CL(clEnqueueNDRangeKernel, int32_t, void *, void *, uint32_t, const size_t *, const size_t *,
               const size_t *, uint32_t, const void *, void *)(
        d->queue, kernel, 1, NULL, &all, &own, 0, NULL, NULL);
  }
  if (kernel != NULL) CL(clReleaseKernel, int32_t, void *)(kernel);
  isamap_check(d, error);
}

static int isamap_close(isamap_device *d) {
  int error = 0;
  for (int at = 0; at < d->count && d->status == 0; at++) {
    void *memory = d->memories[at].memory;
    if (d->memories[at].bytes == 0) continue;
    void *here = CL(clEnqueueMapBuffer, void *, void *, void *, uint32_t, uint64_t, size_t, size_t, uint32_t,
                    const void *, void *, int *)(
        d->queue, memory, 1, CL_MAP_READ_WRITE, 0, d->memories[at].bytes, 0, NULL, NULL, &error);
    if (!error) {
      error = CL(clEnqueueUnmapMemObject, int32_t, void *, void *, void *, uint32_t, const void *, void *)(
          d->queue, memory, here, 0, NULL, NULL);
    }
    isamap_check(d, error);
  }
  if (d->queue != NULL) isamap_check(d, CL(clFinish, int32_t, void *)(d->queue));
  for (int at = 0; at < d->count; at++) {
    if (d->memories[at].memory != NULL) CL(clReleaseMemObject, int32_t, void *)(d->memories[at].memory);
  }
  if (d->program != NULL) CL(clReleaseProgram, int32_t, void *)(d->program);
  if (d->queue != NULL) CL(clReleaseCommandQueue, int32_t, void *)(d->queue);
  if (d->context != NULL) CL(clReleaseContext, int32_t, void *)(d->context);
  return d->status;
}
