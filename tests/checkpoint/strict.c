/* SPDX-License-Identifier: Apache-2.0 */
/* strict.c: reads safetensors as its specification says, with none of the runtime's code:
 * what another program would accept. In: files. Out: a line for each tensor: name, dtype,
 * shape, the sum of its bytes' hash; exit 1 and the rule that is broken. */
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *path;

static _Noreturn void broken(const char *rule)
{
    fprintf(stderr, "%s: %s\n", path, rule);
    exit(1);
}

static json_int_t item_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        int bytes;
    } known[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (dtype && !strcmp(dtype, known[i].name))
            return known[i].bytes;
    broken("unknown dtype");
}

typedef struct Tensor {
    const char *name, *dtype;
    json_int_t begin, end;
    json_t *shape;
} Tensor;

static int by_begin(const void *a, const void *b)
{
    const Tensor *x = a, *y = b;

    return x->begin != y->begin ? (x->begin > y->begin) - (x->begin < y->begin)
                                : (x->end > y->end) - (x->end < y->end);
}

static Tensor read_tensor(const char *name, const json_t *v)
{
    Tensor t = {.name = name,
                .dtype = json_string_value(json_object_get(v, "dtype")),
                .shape = json_object_get(v, "shape")};
    const json_t *range = json_object_get(v, "data_offsets");
    json_int_t bytes = item_bytes(t.dtype);

    if (json_object_size(v) != 3 || !json_is_array(t.shape) ||
        json_array_size(range) != 2)
        broken("an entry is not {dtype, shape, data_offsets}");
    t.begin = json_integer_value(json_array_get(range, 0));
    t.end = json_integer_value(json_array_get(range, 1));
    for (size_t i = 0; i < json_array_size(t.shape); i++)
        bytes *= json_integer_value(json_array_get(t.shape, i));
    if (t.end - t.begin != bytes)
        broken("offsets span something else than the shape");
    return t;
}

static void print_tensor(const Tensor *t, const unsigned char *data)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325); /* FNV-1a */

    for (json_int_t i = t->begin; i < t->end; i++)
        h = (h ^ data[i]) * UINT64_C(0x100000001b3);
    printf("%s %s [", t->name, t->dtype);
    for (size_t i = 0; i < json_array_size(t->shape); i++)
        printf("%s%" JSON_INTEGER_FORMAT, i ? ", " : "",
               json_integer_value(json_array_get(t->shape, i)));
    printf("] %016" PRIx64 "\n", h);
}

static void check(const unsigned char *file, size_t size)
{
    uint64_t n = 0;
    json_error_t error;
    json_t *root, *v;
    const char *key;
    json_int_t at = 0;
    int count = 0;

    for (int i = 0; size >= 8 && i < 8; i++)
        n |= (uint64_t)file[i] << 8 * i;
    if (size < 8 || n > 100000000 || n > size - 8 || n == 0 || file[8] != '{')
        broken("no header");
    root = json_loadb((const char *)file + 8, n, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root))
        broken(root ? "the header is not an object" : error.text);
    Tensor *t = calloc(json_object_size(root) + 1, sizeof *t);
    json_object_foreach(root, key, v)
    {
        const char *meta;
        json_t *text;

        if (strcmp(key, "__metadata__")) {
            t[count++] = read_tensor(key, v);
            continue;
        }
        json_object_foreach(v, meta, text)
        {
            if (!json_is_string(text))
                broken("metadata is not text");
        }
        if (strcmp(json_string_value(json_object_get(v, "format")), "pt"))
            broken("metadata lacks format: pt");
    }
    qsort(t, (size_t)count, sizeof *t, by_begin);
    for (int i = 0; i < count; at = t[i++].end)
        if (t[i].begin != at)
            broken("a hole, or tensors overlap");
    if (8 + n + (uint64_t)at != size)
        broken("the file is not as long as its tensors");
    for (int i = 0; i < count; i++)
        print_tensor(&t[i], file + 8 + n);
    free(t);
    json_decref(root);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f;
        long size;

        path = argv[i];
        f = fopen(path, "rb");
        if (!f || fseek(f, 0, SEEK_END) || (size = ftell(f)) < 0)
            broken("cannot be read");
        rewind(f);
        unsigned char *bytes = malloc((size_t)size + 1);
        if (!bytes || fread(bytes, 1, (size_t)size, f) != (size_t)size)
            broken("cannot be read");
        fclose(f);
        check(bytes, (size_t)size);
        free(bytes);
    }
    return 0;
}
