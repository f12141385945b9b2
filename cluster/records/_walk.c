/* The walk over the heads of a batch's records, equivalent to `walk_plain.py`, which lists the checks,
   and the walk over the batches of a segment, equivalent to `producer_walk.py`.

   One pass over the bytes. Every read is bounded by the end of the record or of the data. A walk over
   many bytes lets other threads run meanwhile.
*/

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

/* Increase this with every change of a function's arguments, checks or results; see `walk.py`. */
#define WALK_VERSION 2

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

static PyObject *
tuple_of(const long long *fields, Py_ssize_t count)
{
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
    const long long fields[] = {
        walked.problem, walked.index,   walked.least,
        walked.most,    walked.keyless, walked.is_numbered,
    }; /* of `walk_plain.Walked` */
    return tuple_of(fields, sizeof(fields) / sizeof(fields[0]));
}

/* The batches of producers */

#define HEADER_BYTES 61
#define LENGTH_OVERHEAD_BYTES 12
#define TRANSACTIONAL_BIT 0x10
#define CONTROL_BIT 0x20
#define MAX_INT32 0x7fffffff
/* So many batches of a producer are remembered (`producer_state.BATCHES_KEPT`). */
#define KEPT 5

enum { DATA, OPENING, CONTROL };

typedef struct {
    int64_t producer_id;
    int64_t last_sequence;
    int64_t last_offset;
    int64_t offset_delta;
    int64_t timestamp;
    Py_ssize_t position;
    int16_t epoch;
    int8_t kind;
    int8_t is_superseded;
} Batch;

typedef struct {
    int64_t producer_id;
    int32_t newest[KEPT]; /* a ring of its last data batches */
    int32_t count;
    int8_t is_used;
    int8_t has_begun; /* since its last marker, a batch that may have opened a transaction */
} Producer;

typedef struct {
    Batch *batches;
    Producer *producers; /* a hash table that is never more than half full */
    size_t mask;
    Py_ssize_t count;
    Py_ssize_t position;
    int is_sound;
} Batches;

static inline uint64_t
read_big(const uint8_t *at, int size)
{
    uint64_t value = 0;
    for (int index = 0; index < size; index++)
        value = value << 8 | at[index];
    return value;
}

static inline Producer *
producer_of(Batches *found, int64_t producer_id)
{
    size_t slot = (size_t)(((uint64_t)producer_id * 0x9e3779b97f4a7c15u) >> 32) & found->mask;
    while (found->producers[slot].is_used && found->producers[slot].producer_id != producer_id)
        slot = (slot + 1) & found->mask;
    Producer *producer = &found->producers[slot];
    producer->is_used = 1;
    producer->producer_id = producer_id;
    return producer;
}

/* Mark the producer's batch that the newest `KEPT` make superfluous. */
static inline void
supersede(Batches *found, Producer *producer, Batch *batch)
{
    int32_t *place = &producer->newest[producer->count % KEPT];
    if (producer->count >= KEPT && found->batches[*place].kind == DATA)
        found->batches[*place].is_superseded = 1;
    *place = (int32_t)(batch - found->batches);
    producer->count++;
}

static void
walk_over_batches(const uint8_t *data, Py_ssize_t end, Py_ssize_t most, Batches *found)
{
    Py_ssize_t position = found->position;
    for (; most > 0 && position < end; most--) {
        const uint8_t *at = data + position;
        if (end - position < HEADER_BYTES)
            break;
        int64_t length = (int32_t)read_big(at + 8, 4);
        if (length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES
            || length > end - position - LENGTH_OVERHEAD_BYTES)
            break;
        int64_t producer_id = (int64_t)read_big(at + 43, 8);
        if (producer_id >= 0) {
            unsigned attributes = (unsigned)read_big(at + 21, 2);
            int64_t sequence = (int32_t)read_big(at + 53, 4);
            Batch *batch = &found->batches[found->count++];
            batch->producer_id = producer_id;
            batch->epoch = (int16_t)read_big(at + 51, 2);
            batch->offset_delta = (int32_t)read_big(at + 23, 4);
            batch->last_offset = (int64_t)(read_big(at, 8) + (uint64_t)batch->offset_delta);
            batch->last_sequence =
                sequence < 0 ? -1 : (sequence + batch->offset_delta) & MAX_INT32;
            batch->timestamp = (int64_t)read_big(at + 35, 8);
            batch->position = position;
            batch->is_superseded = 0;
            batch->kind = DATA;
            Producer *producer = producer_of(found, producer_id);
            if (attributes & CONTROL_BIT) {
                batch->kind = CONTROL;
                producer->has_begun = 0;
            }
            else {
                if (attributes & TRANSACTIONAL_BIT && read_big(at + 57, 4) != 0
                    && !producer->has_begun) {
                    batch->kind = OPENING;
                    producer->has_begun = 1;
                }
                supersede(found, producer, batch);
            }
        }
        position += (Py_ssize_t)length + LENGTH_OVERHEAD_BYTES;
    }
    found->position = position;
    found->is_sound = most == 0 || position >= end;
}

static PyObject *
list_of(const Batches *found)
{
    PyObject *rows = PyList_New(0);
    if (rows == NULL)
        return NULL;
    for (Py_ssize_t index = 0; index < found->count; index++) {
        const Batch *batch = &found->batches[index];
        if (batch->is_superseded)
            continue;
        const long long fields[] = {
            batch->producer_id,  batch->epoch,     batch->last_sequence, batch->last_offset,
            batch->offset_delta, batch->timestamp, batch->kind,          batch->position,
        };
        PyObject *row = tuple_of(fields, sizeof(fields) / sizeof(fields[0]));
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_XDECREF(row);
            Py_DECREF(rows);
            return NULL;
        }
        Py_DECREF(row);
    }
    return rows;
}

static PyObject *
producer_batches(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    Py_buffer data;
    Py_ssize_t end, most;
    Batches found = {0};
    PyObject *rows = NULL;
    if (!PyArg_ParseTuple(arguments, "y*nnn", &data, &found.position, &end, &most))
        return NULL;
    if (found.position < 0 || end > data.len || most < 1 || most > 1 << 20) {
        PyErr_SetString(PyExc_ValueError, "producer_batches(data, position, end, most)");
        goto done;
    }
    size_t slots = 2;
    while (slots < 2 * (size_t)most)
        slots *= 2;
    found.mask = slots - 1;
    found.batches = PyMem_RawMalloc((size_t)most * sizeof(Batch));
    found.producers = PyMem_RawCalloc(slots, sizeof(Producer));
    if (found.batches == NULL || found.producers == NULL) {
        PyErr_NoMemory();
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    walk_over_batches(data.buf, end, most, &found);
    Py_END_ALLOW_THREADS
    rows = list_of(&found);
done:
    PyMem_RawFree(found.batches);
    PyMem_RawFree(found.producers);
    PyBuffer_Release(&data);
    if (rows == NULL)
        return NULL;
    return Py_BuildValue("(NnO)", rows, found.position, found.is_sound ? Py_True : Py_False);
}

static PyMethodDef methods[] = {
    {"walk", (PyCFunction)(void (*)(void))walk, METH_FASTCALL,
     "walk(data, record_count): see walk_plain.walk."},
    {"producer_batches", producer_batches, METH_VARARGS,
     "producer_batches(data, position, end, most): see producer_walk.producer_batches."},
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
