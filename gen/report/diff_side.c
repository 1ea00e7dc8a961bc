/* SPDX-License-Identifier: Apache-2.0 */
/* diff_side.c: one of the two trainers that `fsdpgen diff` compares. In: a folder,
 * possibly made by others, or a description. Out: its manifest and plan, checked, and the
 * texts of its files.
 *
 * Only our own file names and plain ones of the manifest are opened; links are not
 * followed; a file has at most 8 MiB. */
#include "report/diff.h"
#include "base/child.h"
#include "base/json_place.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_FILES = 4096, MAX_NAME_BYTES = 200 };
static const char again[] = "generate it again with `fsdpgen MODEL.lua -o DIR`";

void side_complain(DiffSide *s, const char *name, const char *help, const char *fmt, ...)
{
    const char *file = name ? gen_printf(s->g, "%s/%s", s->path, name) : s->path;
    va_list ap;

    va_start(ap, fmt);
    diag_add(s->g, DIAG_ERROR, (Pos){.file = file}, help, "%s",
             gen_vprintf(s->g, fmt, ap));
    va_end(ap);
}

/* ---- files ----------------------------------------------------------------------- */

static const char *made_text(const DiffSide *s, const char *name, size_t *bytes)
{
    for (int i = 0; i < s->made->base.files.count; i++) {
        const OutFile *f = &s->made->base.files.items[i];

        if (!strcmp(f->path, name)) {
            *bytes = f->bytes;
            return f->data;
        }
    }
    return NULL;
}

static const char *folder_text(DiffSide *s, const char *name, bool must, size_t *bytes)
{
    const char *path = gen_printf(s->g, "%s/%s", s->path, name);
    const char *read = NULL, *text = NULL;
    struct stat st;
    int e = lstat(path, &st) != 0 ? errno : 0;

    if (!e && S_ISLNK(st.st_mode)) {
        side_complain(s, name, again, "is a symbolic link, and links are not followed");
        return NULL;
    }
    e = e ? e : read_whole_file(path, &read, bytes);
    if (!e) {
        text = gen_strndup(s->g, read, *bytes);
        free((char *)read);
    }
    if (e == ENOENT && must)
        side_complain(s, name, again, "is missing");
    else if (e && e != ENOENT)
        side_complain(s, name, again, "cannot be read: %s", file_problem(e));
    return e ? NULL : text;
}

const char *side_text(DiffSide *s, const char *name, bool must, size_t *bytes)
{
    *bytes = 0;
    return s->made ? made_text(s, name, bytes) : folder_text(s, name, must, bytes);
}

const char *side_hash(const DiffSide *s, const char *name)
{
    return json_string_value(
        json_object_get(json_object_get(s->manifest, "files"), name));
}

static json_t *load_json(DiffSide *s, const char *name)
{
    size_t bytes;
    const char *text = side_text(s, name, true, &bytes);
    json_error_t e;
    json_t *o = text ? json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &e) : NULL;

    if (text && !o) {
        const char *file = gen_printf(s->g, "%s/%s", s->path, name);

        diag_source(s->g, file, text, bytes);
        diag_add(s->g, DIAG_ERROR, (Pos){file, e.line, e.column > 0 ? e.column : 1, 1},
                 again, "damaged: %s", json_problem(s->g, &e));
    } else if (o && !json_is_object(o)) {
        side_complain(s, name, again, "damaged: a JSON object is expected");
        json_decref(o);
        o = NULL;
    }
    return o;
}

int64_t side_integer(DiffSide *s, const json_t *o, const char *what, const char *key)
{
    const json_t *v = json_object_get(o, key);
    const int64_t n = json_is_integer(v) ? json_integer_value(v) : -1;

    if (n >= 0 && n <= INT64_C(1) << 62)
        return n;
    side_complain(s, "plan.json", again, "damaged: %s%s must be an integer of at least 0",
                  what, key);
    return 0;
}

/* ---- the manifest and the plan --------------------------------------------------- */

static bool is_hash(const char *s)
{
    return s && strspn(s, "0123456789abcdef") == 16 && !s[16];
}

/* The numbers of "1.2.3"; false: it is not a version. */
static bool read_version(const char *s, long part[3])
{
    for (int i = 0; i < 3; i++) {
        char *end;

        if (*s < '0' || *s > '9')
            return false;
        part[i] = strtol(s, &end, 10);
        if (*end != (i < 2 ? '.' : '\0'))
            return false;
        s = end + 1;
    }
    return true;
}

static bool is_newer(const char *version)
{
    long theirs[3], ours[3];

    gen_require(read_version(FSDPGEN_VERSION, ours), "the version " FSDPGEN_VERSION);
    if (!read_version(version, theirs))
        return true; /* no release has such a name yet */
    for (int i = 0; i < 3; i++)
        if (theirs[i] != ours[i])
            return theirs[i] > ours[i];
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* math.c, math.cu, kernels.cu: a plain name of at most 40 bytes. */
static bool is_mathematics(const char *name)
{
    const char *dot = strchr(name, '.');

    return (!strncmp(name, "math.", 5) || !strncmp(name, "kernels.", 8)) && dot[1] &&
           strlen(name) <= 40 &&
           strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz") == strlen(dot + 1);
}

static void read_manifest(DiffSide *s)
{
    json_t *root = load_json(s, "manifest.json"), *files, *value;
    const char *generator = json_string_value(json_object_get(root, "generator")), *name;

    s->owned[0] = root;
    if (!root)
        return;
    files = json_object_get(root, "files");
    s->numerics = json_string_value(json_object_get(root, "numerics"));
    if (!generator || strncmp(generator, "fsdpgen ", 8) != 0) {
        side_complain(s, "manifest.json", again, "this is not a manifest of fsdpgen");
        return;
    }
    s->generator = generator + 8;
    if (is_newer(s->generator)) {
        side_complain(s, "manifest.json", "compare them with that version of fsdpgen",
                      "made by fsdpgen %s, and this is " FSDPGEN_VERSION, s->generator);
        return;
    }
    if (!is_hash(s->numerics) || !json_is_object(files)) {
        side_complain(s, "manifest.json", again,
                      "damaged: \"numerics\" must be 16 hexadecimal digits, and "
                      "\"files\" an object");
        return;
    }
    json_object_foreach(files, name, value)
    {
        if (!is_hash(json_string_value(value))) {
            side_complain(s, "manifest.json", again,
                          "damaged: the hash of %s must be 16 hexadecimal digits", name);
            return;
        }
        if (is_mathematics(name))
            *gen_push(s->g, &s->maths) = gen_strdup(s->g, name);
    }
    if (s->maths.count)
        qsort(s->maths.items, (size_t)s->maths.count, sizeof *s->maths.items, by_text);
    s->manifest = root;
}

static void read_plan(DiffSide *s)
{
    json_t *root = load_json(s, "plan.json");
    const char *numerics = json_string_value(json_object_get(root, "numerics_hash"));

    s->owned[1] = root;
    if (!root)
        return;
    if (!numerics || strcmp(numerics, s->numerics) != 0)
        side_complain(s, "plan.json", again,
                      "damaged: its numerics_hash is %s, that of manifest.json %s",
                      numerics ? numerics : "missing", s->numerics);
    else if (!json_is_object(json_object_get(root, "bytes_per_rank")) ||
             !json_is_object(json_object_get(root, "step_bytes_per_rank")) ||
             !json_is_string(json_object_get(root, "name")))
        side_complain(s, "plan.json", again,
                      "damaged: name, bytes_per_rank or step_bytes_per_rank is missing");
    else
        s->plan = root;
}

/* ---- what was edited ------------------------------------------------------------- */

/* Relative, with no part that begins with a dot except .gitignore and .gitattributes. */
static bool is_plain_path(const char *s)
{
    if (!strcmp(s, ".gitignore") || !strcmp(s, ".gitattributes"))
        return true;
    return *s && *s != '/' && *s != '.' && strlen(s) <= MAX_NAME_BYTES &&
           !strstr(s, "/.") && !strstr(s, "//") &&
           strspn(s,
                  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-/") ==
               strlen(s);
}

/* Files that differ from the manifest, missing ones included. */
static void find_edits(DiffSide *s)
{
    json_t *files = json_object_get(s->manifest, "files"), *v;
    const char *name;

    json_object_foreach(files, name, v)
    {
        const char *text;
        size_t bytes;

        if (!is_plain_path(name)) {
            side_complain(s, "manifest.json", again,
                          "damaged: %s is not a name of a generated file", name);
            return;
        }
        text = side_text(s, name, false, &bytes);
        if (!text ||
            strcmp(json_string_value(v),
                   gen_printf(s->g, "%016" PRIx64, hash_bytes(text, bytes))) != 0)
            *gen_push(s->g, &s->edited) = gen_strdup(s->g, name);
    }
    if (s->edited.count)
        qsort(s->edited.items, (size_t)s->edited.count, sizeof *s->edited.items, by_text);
}

/* ---- opening --------------------------------------------------------------------- */

static void open_folder(DiffSide *s)
{
    struct stat st;
    static const char help[] = "give a folder that `fsdpgen MODEL.lua -o DIR` wrote, or "
                               "a description";

    if (stat(s->path, &st) != 0)
        side_complain(s, NULL, help, "%s", strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        side_complain(s, NULL, help, "neither a folder nor a file named *.lua");
    else if (lstat(gen_printf(s->g, "%s/%s", s->path, MARK_NAME), &st) == 0)
        side_complain(s, MARK_NAME, again, MARK_TEXT);
    else if (lstat(gen_printf(s->g, "%s/manifest.json", s->path), &st) != 0)
        side_complain(s, NULL, help, "not a generated folder: it has no manifest.json");
    else
        read_manifest(s);
}

int side_open(Gen *g, DiffSide *s, const char *path, MakeTrainer *make)
{
    size_t n = strlen(path);
    struct stat st;
    int code;

    while (n > 1 && path[n - 1] == '/') /* DIR/ is DIR */
        n--;
    *s = (DiffSide){.g = g, .path = gen_strndup(g, path, n)};
    if (n > 4 && !strcmp(s->path + n - 4, ".lua") &&
        !(stat(s->path, &st) == 0 && S_ISDIR(st.st_mode))) {
        s->made = gen_alloc(g, sizeof *s->made);
        s->made->opt = g->opt;
        s->made->opt.input = s->path;
        s->made->opt.command = "generate";
        code = make(s->made);
        if (code != EXIT_DONE)
            return code;
        read_manifest(s);
    } else {
        open_folder(s);
    }
    if (s->manifest)
        read_plan(s);
    if (s->plan && !s->made)
        find_edits(s);
    return EXIT_DONE;
}

void side_close(DiffSide *s)
{
    json_decref(s->owned[0]);
    json_decref(s->owned[1]);
}
