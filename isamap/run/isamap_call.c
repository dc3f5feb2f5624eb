/* A call that is like one before: its arrays and scalars are checked and passed on in a microsecond.

   numpy says what an array is in a capsule with the struct of its array interface, version 3
   (https://numpy.org/doc/stable/reference/arrays.interface.html), other libraries in one with a struct of
   DLPack (https://dmlc.github.io/dlpack/latest/c_api.html). What is used of the interpreter is declared here,
   as its headers need not be installed; all of it is in its stable ABI. */
#include <stdint.h>
#include <string.h>

typedef struct object object;
extern object PyFloat_Type, PyLong_Type;
extern object *PyDict_GetItem(object *dict, object *key); /* borrowed */
extern object *PyObject_Type(object *of);
extern object *PyObject_GetAttr(object *of, object *name);
extern object *PyObject_CallFunctionObjArgs(object *function, ...);
extern void *PyCapsule_GetPointer(object *capsule, const char *name);
extern int PyCapsule_IsValid(object *capsule, const char *name);
extern double PyFloat_AsDouble(object *value);
extern long long PyLong_AsLongLongAndOverflow(object *value, int *overflow);
extern intptr_t PyDict_Size(object *dict);
extern void PyErr_Clear(void);
extern void Py_DecRef(object *of);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *state);

enum { ALIGNED = 0x100, NOT_SWAPPED = 0x200, WRITEABLE = 0x400, CPU = 1, UNLIKE = -1 };
enum { MOST_ARRAYS = 32, MOST_BYTES = 1024 };

typedef struct {
  int two, dimensions;
  char kind;
  int item_bytes, flags;
  intptr_t *shape, *strides;
  char *data;
} numpy_array;

typedef struct {
  char *data;
  int32_t device, device_number, dimensions;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides; /* in elements; NULL where they are dense */
  uint64_t offset_bytes;
} dlpack_array;

/* What an array has to be: its type to numpy and to DLPack, its shape, the bytes from an element to the next
   along each axis and from its first to its last, and where its address belongs in the argument struct. */
typedef struct {
  object *name, *dtype;
  int64_t code, item_bytes, dimensions, written, span_bytes, offset;
  const int64_t *shape, *strides;
} expected_array;

typedef struct {
  object *name;
  int64_t is_float, bytes, offset;
  double low, high;
} expected_scalar;

typedef struct {
  int64_t arrays, scalars, bytes;
  const expected_array *array;
  const expected_scalar *scalar;
  const char *arguments; /* those of a call that was checked in full */
  int (*function)(const void *arguments, void *workspace, void *pool);
  object *numpy_type, *array_struct, *dtype; /* numpy.ndarray and the names of attributes */
  object *capsule_of;                        /* makes a DLPack capsule of what is no numpy.ndarray, or None */
} like;

/* Nothing is reached along an axis of one element. */
static int is_placed_so(const expected_array *e, const int64_t *shape, const int64_t *strides, int64_t unit) {
  int64_t dense = e->item_bytes;
  for (int64_t axis = e->dimensions - 1; axis >= 0; --axis) {
    const int64_t stride = strides ? strides[axis] * unit : dense;
    if (shape[axis] != e->shape[axis] || (shape[axis] > 1 && stride != e->strides[axis])) return 0;
    dense *= shape[axis];
  }
  return 1;
}

static char *address_of_numpy(const like *l, const expected_array *e, object *array) {
  object *dtype = PyObject_GetAttr(array, l->dtype);
  if (dtype == 0) return 0;
  Py_DecRef(dtype); /* the array has it */
  object *capsule = dtype == e->dtype ? PyObject_GetAttr(array, l->array_struct) : 0;
  if (capsule == 0) return 0;
  const numpy_array *a = PyCapsule_GetPointer(capsule, 0);
  const int needed = ALIGNED | NOT_SWAPPED | (e->written ? WRITEABLE : 0);
  char *data = 0;
  if (a && a->dimensions == e->dimensions && (a->flags & needed) == needed &&
      is_placed_so(e, (int64_t *)a->shape, (int64_t *)a->strides, 1))
    data = a->data;
  Py_DecRef(capsule);
  return data;
}

static char *address_of_dlpack(const like *l, const expected_array *e, object *array) {
  object *capsule = PyObject_CallFunctionObjArgs(l->capsule_of, array, (object *)0);
  if (capsule == 0) return 0;
  const dlpack_array *a =
      PyCapsule_IsValid(capsule, "dltensor") ? PyCapsule_GetPointer(capsule, "dltensor") : 0;
  char *data = 0;
  if (a && a->device == CPU && a->dimensions == e->dimensions && a->code == e->code &&
      a->bits == 8 * e->item_bytes && a->lanes == 1 && is_placed_so(e, a->shape, a->strides, e->item_bytes) &&
      ((uintptr_t)a->data + a->offset_bytes) % e->item_bytes == 0)
    data = a->data + a->offset_bytes;
  Py_DecRef(capsule);
  return data;
}

static int are_arrays_placed(const like *l, object *values, char *arguments) {
  const char *begins[MOST_ARRAYS];
  for (int64_t n = 0; n < l->arrays; ++n) {
    const expected_array *e = &l->array[n];
    object *array = PyDict_GetItem(values, e->name);
    if (array == 0) return 0;
    object *type = PyObject_Type(array);
    Py_DecRef(type); /* the array has it */
    char *data = type == l->numpy_type ? address_of_numpy(l, e, array) : address_of_dlpack(l, e, array);
    if (data == 0) return 0;
    for (int64_t other = 0; other < n; ++other) {
      const expected_array *o = &l->array[other];
      const int apart = data + e->span_bytes <= begins[other] || begins[other] + o->span_bytes <= data;
      if ((e->written || o->written) && !apart) return 0;
    }
    begins[n] = data;
    memcpy(arguments + e->offset, &data, sizeof data);
  }
  return 1;
}

static int are_scalars_placed(const like *l, object *values, char *arguments) {
  for (int64_t n = 0; n < l->scalars; ++n) {
    const expected_scalar *e = &l->scalar[n];
    object *value = PyDict_GetItem(values, e->name);
    if (value == 0) return 0;
    object *type = PyObject_Type(value);
    Py_DecRef(type);
    if (type != (e->is_float ? &PyFloat_Type : &PyLong_Type)) return 0;
    if (e->is_float) {
      const double number = PyFloat_AsDouble(value);
      const float single = (float)number;
      if (!(e->low <= number && number <= e->high)) return 0;
      memcpy(arguments + e->offset, e->bytes == 8 ? (const void *)&number : &single, e->bytes);
    } else { /* the bytes of a smaller number come first */
      int overflow = 0;
      const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
      if (overflow || number < (int64_t)e->low || number > (int64_t)e->high) return 0;
      memcpy(arguments + e->offset, &number, e->bytes);
    }
  }
  return 1;
}

/* The status of the function; UNLIKE, and nothing is done, where a value is not as expected or may share bytes
   with one that is written, which is for others to look at. */
int isamap_again(const like *l, object *values, void *workspace, void *pool) {
  _Alignas(16) char arguments[MOST_BYTES];
  if (l->arrays > MOST_ARRAYS || l->bytes > MOST_BYTES || PyDict_Size(values) != l->arrays + l->scalars)
    return UNLIKE;
  memcpy(arguments, l->arguments, l->bytes);
  if (!are_arrays_placed(l, values, arguments) || !are_scalars_placed(l, values, arguments)) {
    PyErr_Clear();
    return UNLIKE;
  }
  void *state = PyEval_SaveThread();
  const int status = l->function(arguments, workspace, pool);
  PyEval_RestoreThread(state);
  return status;
}
