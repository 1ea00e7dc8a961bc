/* SPDX-License-Identifier: MIT-0 */
/* rt_tensors.c: reads safetensors files. In: paths. Out: a table of tensors by name:
 * place, shape and dtype. A file that violates a rule of the format is refused with that
 * rule: a header of at most 100 MB that starts with `{`, unique names, adjacent tensors
 * from the first byte to the last, sizes that match the shapes. */
#include "checkpoint/rt_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_HEADER_BYTES = 100000000 };

static const char out_of_memory[] = "out of memory";

static bool refuse(char *error, const char *path, const char *what)
{
    if (what == out_of_memory) {
        errno = ENOMEM;
        return rt_file_error(error, "allocate memory for", path);
    }
    snprintf(error, RT_ERROR_BYTES, "%.600s: %s", path, what);
    return false;
}

/* Bytes per element; 0: unknown dtype. Dtypes that no weight here has may occur, but only
 * in tensors that are skipped. */
static int64_t read_dtype(RtJson *j, RtTensor *t)
{
    static const struct {
        const char *name;
        RtDtype d;
        int bytes; /* of other dtypes */
    } known[] = {
        {"F32", RT_F32, 0}, {"F64", RT_F64, 0}, {"BF16", RT_BF16, 0}, {"F16", RT_F16, 0},
        {"BOOL", 0, 1},     {"U8", 0, 1},       {"I8", 0, 1},         {"I16", 0, 2},
        {"U16", 0, 2},      {"I32", 0, 4},      {"U32", 0, 4},        {"I64", 0, 8},
        {"U64", 0, 8},      {"F8_E4M3", 0, 1},  {"F8_E5M2", 0, 1},
    };
    char name[16];
    if (!rt_json_text(j, name, sizeof name))
        return 0;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0) {
            t->dtype = known[i].d;
            t->other = known[i].bytes > 0;
            return t->other ? known[i].bytes : (int64_t)rt_dtype_bytes(t->dtype);
        }
    }
    return 0;
}

/* Numbers of a list, at most `most`; returns how many, or -1. */
static int read_numbers(RtJson *j, int64_t *out, int most)
{
    int n = 0;
    bool first = true;
    if (!rt_json_open(j, '['))
        return -1;
    while (rt_json_item(j, ']', &first)) {
        if (n == most || !rt_json_int(j, &out[n]) || out[n] < 0)
            return -1;
        n++;
    }
    return j->failed ? -1 : n;
}

/* "NAME": {"dtype": .., "shape": .., "data_offsets": [begin, end]} */
static bool read_entry(RtJson *j, RtTensor *t)
{
    char key[32];
    int64_t range[2], bytes = 0;
    unsigned seen = 0;
    bool first = true;
    if (!rt_json_open(j, '{'))
        return false;
    while (rt_json_item(j, '}', &first)) {
        unsigned bit = 0;
        if (!rt_json_key(j, key, sizeof key))
            return false;
        if (strcmp(key, "dtype") == 0) {
            bytes = read_dtype(j, t);
            bit = bytes > 0 ? 1 : 0;
        } else if (strcmp(key, "shape") == 0) {
            t->n_dims = read_numbers(j, t->dim, RT_MAX_DIMS);
            bit = t->n_dims >= 0 ? 2 : 0;
        } else if (strcmp(key, "data_offsets") == 0) {
            bit = read_numbers(j, range, 2) == 2 && range[0] <= range[1] ? 4 : 0;
        }
        if (bit == 0 || (seen & bit) != 0)
            return false;
        seen |= bit;
    }
    if (j->failed || seen != 7)
        return false;
    for (int i = 0; i < t->n_dims; i++)
        if (__builtin_mul_overflow(bytes, t->dim[i], &bytes))
            return false;
    t->at = range[0];
    t->bytes = bytes;
    return range[1] - range[0] == bytes;
}

static RtTensor *new_tensor(RtTensors *s)
{
    if (s->n_tensors == s->cap_tensors) {
        const int cap = s->cap_tensors > 0 ? 2 * s->cap_tensors : 256;
        RtTensor *more = realloc(s->tensors, (size_t)cap * sizeof *more);
        if (more == NULL)
            return NULL;
        s->tensors = more;
        s->cap_tensors = cap;
    }
    s->tensors[s->n_tensors] = (RtTensor){.fd_index = s->n_files - 1};
    return &s->tensors[s->n_tensors++];
}

static const char *read_header(RtTensors *s, const char *text, int64_t bytes)
{
    RtJson j = {text, text + bytes, false};
    char name[256];
    bool first = true;
    if (bytes == 0 || text[0] != '{' || !rt_json_open(&j, '{'))
        return "its header is not a JSON object";
    while (rt_json_item(&j, '}', &first)) {
        if (!rt_json_key(&j, name, sizeof name)) {
            return "its header is not JSON, or a name is longer than 255 bytes or has "
                   "control characters";
        }
        if (strcmp(name, "__metadata__") == 0) {
            if (!rt_json_skip(&j))
                return "its metadata is not JSON";
            continue;
        }
        RtTensor *t = new_tensor(s);
        if (t == NULL || (t->name = strdup(name)) == NULL)
            return out_of_memory;
        if (!read_entry(&j, t)) {
            return "an entry is not a tensor of a known dtype with at most 4 dimensions, "
                   "whose product its offsets span";
        }
    }
    return rt_json_done(&j) ? NULL : "its header does not end as JSON";
}

static int by_place(const void *a, const void *b)
{
    const RtTensor *x = a, *y = b;
    return x->at != y->at         ? (x->at < y->at ? -1 : 1)
           : x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1)
                                  : 0;
}

/* Tensors [first, n) of one file fill it from byte `data` to its end. */
static const char *check_places(RtTensors *s, int first, int64_t data, int64_t file_bytes)
{
    int64_t at = 0;
    RtTensor *t = s->tensors + first;
    const int n = s->n_tensors - first;
    if (n > 0)
        qsort(t, (size_t)n, sizeof *t, by_place);
    for (int i = 0; i < n; i++) {
        if (t[i].at != at)
            return "its tensors overlap, or there is a hole between them";
        if (t[i].bytes > file_bytes - data - at)
            return "its size is not that of its tensors";
        at += t[i].bytes;
        t[i].at += data;
    }
    return data + at == file_bytes ? NULL : "its size is not that of its tensors";
}

bool rt_tensors_add(RtTensors *s, const char *path, char *error)
{
    unsigned char size[8];
    struct stat st;
    uint64_t bytes = 0;
    const int first = s->n_tensors;
    struct RtTensorFile *more =
        realloc(s->files, (size_t)(s->n_files + 1) * sizeof *more);
    if (more == NULL)
        return refuse(error, path, out_of_memory);
    s->files = more;
    char *name = strdup(path);
    if (name == NULL)
        return refuse(error, path, out_of_memory);
    const int fd = rt_file_open(path, O_RDONLY | O_NONBLOCK, error);
    if (fd < 0) {
        free(name);
        return false;
    }
    s->files[s->n_files++] = (struct RtTensorFile){name, fd};
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return refuse(error, path, "is not a file");
    if (!rt_file_read(fd, path, size, 8, 0, error))
        return false;
    for (int i = 0; i < 8; i++)
        bytes |= (uint64_t)size[i] << 8 * i;
    if (memcmp(size, "version ", 8) == 0)
        return refuse(error, path, "is a pointer of Git LFS, not the file: git lfs pull");
    if (bytes > MOST_HEADER_BYTES || (int64_t)bytes > st.st_size - 8)
        return refuse(error, path, "its header is longer than the file or 100 MB");
    char *text = malloc(bytes + 1);
    if (text == NULL)
        return refuse(error, path, out_of_memory);
    bool ok = rt_file_read(fd, path, text, (int64_t)bytes, 8, error);
    if (ok) {
        const char *wrong = read_header(s, text, (int64_t)bytes);
        wrong = wrong != NULL ? wrong
                              : check_places(s, first, 8 + (int64_t)bytes, st.st_size);
        ok = wrong == NULL || refuse(error, path, wrong);
    }
    free(text);
    return ok;
}

/* ---- by name --------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const RtTensor *)a)->name, ((const RtTensor *)b)->name);
}

bool rt_tensors_sort(RtTensors *s, char *error)
{
    if (s->n_tensors > 0)
        qsort(s->tensors, (size_t)s->n_tensors, sizeof *s->tensors, by_name);
    for (int i = 1; i < s->n_tensors; i++) {
        if (by_name(&s->tensors[i - 1], &s->tensors[i]) == 0) {
            snprintf(error, RT_ERROR_BYTES, "%.500s: %.200s is there twice",
                     s->files[s->tensors[i].fd_index].path, s->tensors[i].name);
            return false;
        }
    }
    return true;
}

RtTensor *rt_tensors_find(RtTensors *s, const char *name)
{
    const RtTensor key = {.name = (char *)(uintptr_t)name};
    return s->n_tensors > 0 ? bsearch(&key, s->tensors, (size_t)s->n_tensors,
                                      sizeof *s->tensors, by_name)
                            : NULL;
}

void rt_tensors_close(RtTensors *s)
{
    for (int i = 0; i < s->n_files; i++) {
        close(s->files[i].fd);
        free(s->files[i].path);
    }
    for (int i = 0; i < s->n_tensors; i++)
        free(s->tensors[i].name);
    free(s->files);
    free(s->tensors);
    *s = (RtTensors){0};
}
