/* The walk over the heads of a batch's records, equivalent to `walk_plain.py`, which lists the checks.

   One pass over the bytes, no allocation but for the result. Every read is bounded by the end of the
   record or of the data. From 256 KiB on it lets other threads run meanwhile.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* Increase this with every change of a function's arguments, checks or results; see `walk.py`. */
#define WALK_VERSION 1

#define WITHOUT_GIL_FROM_BYTES (256 * 1024)

enum { GOOD, MISSING, NUMBER, SIZE, FIELD, HEADERS, FILL, LEFT_OVER };

typedef struct {
    const uint8_t *at;
    const uint8_t *end;
} Cursor;

/* An unsigned number of at most `most` bytes, with at most `last` bits in the last one; 0 if none. */
static inline int
read_unsigned(Cursor *cursor, int most, unsigned last, uint64_t *number)
{
    const uint8_t *at = cursor->at;
    uint64_t value = 0;
    for (int index = 0; index < most; index++) {
        if (at >= cursor->end)
            return 0;
        uint8_t byte = *at++;
        if (index == most - 1 && byte >= (1u << last))
            return 0;
        value |= (uint64_t)(byte & 0x7f) << (7 * index);
        if (byte < 0x80) {
            cursor->at = at;
            *number = value;
            return 1;
        }
    }
    return 0;
}

static inline int
read_int32(Cursor *cursor, int64_t *number)
{
    uint64_t value;
    if (cursor->at < cursor->end && *cursor->at < 0x80)
        value = *cursor->at++;
    else if (!read_unsigned(cursor, 5, 4, &value))
        return 0;
    *number = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    return 1;
}

static inline int
read_int64(Cursor *cursor, int64_t *number)
{
    uint64_t value;
    if (cursor->at < cursor->end && *cursor->at < 0x80)
        value = *cursor->at++;
    else if (!read_unsigned(cursor, 10, 1, &value))
        return 0;
    *number = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    return 1;
}

/* Pass over a field of at least `least` bytes, where -1 stands for null; also return its size. */
static inline int
pass_field(Cursor *cursor, int64_t least, int64_t *size)
{
    if (!read_int32(cursor, size))
        return NUMBER;
    if (*size < least || *size > cursor->end - cursor->at)
        return FIELD;
    if (*size > 0)
        cursor->at += *size;
    return GOOD;
}

typedef struct {
    int64_t timestamp_delta;
    int64_t offset_delta;
    int64_t key_size;
} Head;

/* Pass over the record at `*at`. */
static inline int
pass_record(const uint8_t **at, const uint8_t *end, Head *head)
{
    Cursor cursor = {*at, end};
    int64_t size, count, ignored;
    int problem;
    if (cursor.at == end)
        return MISSING;
    if (!read_int32(&cursor, &size))
        return NUMBER;
    if (size <= 0 || size > end - cursor.at)
        return SIZE;
    cursor.end = cursor.at + size;
    cursor.at++; /* attributes: none are defined */
    if (!read_int64(&cursor, &head->timestamp_delta) || !read_int32(&cursor, &head->offset_delta))
        return NUMBER;
    if ((problem = pass_field(&cursor, -1, &head->key_size)) != GOOD)
        return problem;
    if ((problem = pass_field(&cursor, -1, &ignored)) != GOOD)
        return problem;
    if (!read_int32(&cursor, &count))
        return NUMBER;
    if (count < 0 || count > cursor.end - cursor.at)
        return HEADERS;
    for (; count > 0; count--) {
        if ((problem = pass_field(&cursor, 0, &ignored)) != GOOD)
            return problem;
        if ((problem = pass_field(&cursor, -1, &ignored)) != GOOD)
            return problem;
    }
    if (cursor.at != cursor.end)
        return FILL;
    *at = cursor.at;
    return GOOD;
}

typedef struct {
    int problem;
    long long index;
    int64_t least;
    int64_t most;
    long long keyless;
    int is_numbered;
} Walked;

static void
walk_over(const uint8_t *at, const uint8_t *end, long long count, Walked *walked)
{
    Head head;
    walked->least = INT64_MAX;
    walked->most = INT64_MIN;
    walked->keyless = -1;
    walked->is_numbered = 1;
    for (long long index = 0; index < count; index++) {
        int problem = pass_record(&at, end, &head);
        if (problem != GOOD) {
            walked->problem = problem;
            walked->index = index;
            return;
        }
        if (head.timestamp_delta < walked->least)
            walked->least = head.timestamp_delta;
        if (head.timestamp_delta > walked->most)
            walked->most = head.timestamp_delta;
        if (head.key_size < 0 && walked->keyless < 0)
            walked->keyless = index;
        if (head.offset_delta != index)
            walked->is_numbered = 0;
    }
    walked->problem = at == end ? GOOD : LEFT_OVER;
    walked->index = count;
}

/* The fields of `walk_plain.Walked`. */
static PyObject *
tuple_of(const Walked *walked)
{
    const long long fields[] = {
        walked->problem, walked->index,   walked->least,
        walked->most,    walked->keyless, walked->is_numbered,
    };
    const Py_ssize_t count = sizeof(fields) / sizeof(fields[0]);
    PyObject *found = PyTuple_New(count);
    if (found == NULL)
        return NULL;
    for (Py_ssize_t place = 0; place < count; place++) {
        PyObject *field = PyLong_FromLongLong(fields[place]);
        if (field == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyTuple_SET_ITEM(found, place, field);
    }
    return found;
}

static PyObject *
walk(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t given)
{
    Py_buffer data;
    Walked walked;
    if (given != 2) {
        PyErr_SetString(PyExc_TypeError, "walk(data, record_count)");
        return NULL;
    }
    long long count = PyLong_AsLongLong(arguments[1]);
    if (count == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(arguments[0], &data, PyBUF_SIMPLE) < 0)
        return NULL;
    const uint8_t *start = data.buf;
    if (data.len >= WITHOUT_GIL_FROM_BYTES) {
        Py_BEGIN_ALLOW_THREADS
        walk_over(start, start + data.len, count, &walked);
        Py_END_ALLOW_THREADS
    }
    else
        walk_over(start, start + data.len, count, &walked);
    PyBuffer_Release(&data);
    if (walked.problem != GOOD) {
        walked.least = walked.most = walked.is_numbered = 0;
        walked.keyless = -1;
    }
    return tuple_of(&walked);
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL,
     "walk(data, record_count): see walk_plain.walk."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_walk",
    .m_doc = "The walk over the heads of a batch's records.",
    .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__walk(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddIntConstant(module, "VERSION", WALK_VERSION) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
