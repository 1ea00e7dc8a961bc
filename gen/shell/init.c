/* SPDX-License-Identifier: Apache-2.0 */
/* init.c: `fsdpgen init`. In: a folder or the name of a description, options. Out: a
 * commented description to start with, and what editors need: settings, annotations, the
 * architectures. It writes all files, or, if a description is there already, none. */
#define _GNU_SOURCE /* memmem */
#include "shell/shell.h"

#include "base/take_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct InitFile {
    const char *path, *data;
    size_t bytes;
    bool library; /* ours: updated with the program */
} InitFile;

typedef struct Init {
    Gen *g;
    const char *folder; /* "" or with a / at the end */
    const char *file;   /* the description, in that folder */
    const char *name;   /* the trainer's name */
    bool kept;          /* the folder has settings for editors: those stay */
    struct {
        InitFile *items;
        int count, cap;
    } files;
} Init;

const char *init_arch_name(int i)
{
    static const char *const names[] = {"llama", "gpt2", NULL};

    return names[i];
}

static int complain(const char *path, const char *problem)
{
    print_line(stderr, "fsdpgen: error: ", "init: %s: %s", path, problem);
    return EXIT_DIAG;
}

/* ---- the contents ---------------------------------------------------------------- */

/* The file's stem as a legal trainer name. */
static const char *name_of(Gen *g, const char *file)
{
    char *name = gen_strdup(g, file), *dot = strrchr(name, '.');

    if (dot && dot != name)
        *dot = '\0';
    for (char *p = name; *p; p++) {
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9')))
            *p = '_';
    }
    if (!(*name >= 'a' && *name <= 'z'))
        name = gen_printf(g, "m%s", name);
    if (strlen(name) > 64)
        name[64] = '\0';
    return name;
}

static const char *value_of(const Init *in, const char *key, size_t bytes)
{
    const char *target = in->g->opt.target;
    const bool cuda = target && !strcmp(target, "cuda");

    if (bytes == 4 && !strncmp(key, "file", 4))
        return in->file;
    if (bytes == 4 && !strncmp(key, "name", 4))
        return in->name;
    if (bytes == 5 && !strncmp(key, "param", 5))
        return cuda ? "bf16" : "f32";
    if (bytes == 5 &&
        !strncmp(key, "shard", 5)) /* so small a model hides no collective */
        return cuda ? "1" : "2";
    gen_require(bytes == 6 && !strncmp(key, "target", 6), "init: no value for %.10s",
                key);
    return cuda ? "target = cuda { gpu = \"h100\" }," : "target = cpu {},";
}

/* The template with its ${names} replaced. */
static void add_description(Init *in, const Embedded *template)
{
    Text t = {.g = in->g};
    const char *at = (const char *)template->data, *end = at + template->bytes, *hole;

    while ((hole = memmem(at, (size_t)(end - at), "${", 2)) != NULL) {
        const char *close = memchr(hole, '}', (size_t)(end - hole));

        gen_require(close, "init: a name without an end");
        text_add(&t, at, (size_t)(hole - at));
        text_printf(&t, "%s", value_of(in, hole + 2, (size_t)(close - hole - 2)));
        at = close + 1;
    }
    text_add(&t, at, (size_t)(end - at));
    *gen_push(in->g, &in->files) =
        (InitFile){gen_printf(in->g, "%s%s", in->folder, in->file), t.s, t.len, false};
}

/* For editors with the Lua language server: the globals of descriptions, and nothing
 * else. One file serves all descriptions of a folder, and may have been edited. */
static void add_settings(Init *in)
{
    static const char settings[] =
        "{\n"
        "    \"runtime.version\": \"Lua 5.4\",\n"
        "    \"runtime.path\": [\"?.lua\", \"?/init.lua\"],\n"
        "    \"runtime.builtin\": {\n"
        "        \"coroutine\": \"disable\", \"debug\": \"disable\", \"io\": "
        "\"disable\",\n"
        "        \"os\": \"disable\", \"package\": \"disable\"\n"
        "    },\n"
        "    \"workspace.library\": [\".fsdpgen\"],\n"
        "    \"workspace.checkThirdParty\": false\n"
        "}\n";

    const char *path = gen_printf(in->g, "%s.luarc.json", in->folder);
    struct stat s;

    in->kept = !in->g->opt.force && lstat(path, &s) == 0 && S_ISREG(s.st_mode);
    if (!in->kept)
        *gen_push(in->g, &in->files) =
            (InitFile){path, settings, sizeof settings - 1, false};
}

/* Annotations and architectures: the editor's library, in .fsdpgen/. */
static void add_library(Init *in)
{
    for (int i = 0; i < embedded_count; i++) {
        const Embedded *e = &embedded_files[i];
        const char *path = e->path;

        if (strcmp(path, "models/fsdpgen.lua") != 0 &&
            strncmp(path, "models/arch/", 12) != 0)
            continue;
        *gen_push(in->g, &in->files) = (InitFile){
            gen_printf(in->g, "%s.fsdpgen/%s", in->folder, path + strlen("models/")),
            (const char *)e->data, e->bytes, true};
    }
}

/* ---- writing --------------------------------------------------------------------- */

static int make_folders(const Init *in, const char *path)
{
    char *s = gen_strdup(in->g, path);

    for (char *p = s + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(s, 0777) != 0 && errno != EEXIST)
            return complain(s, strerror(errno));
        *p = '/';
    }
    return EXIT_DONE;
}

/* The library is not written through a link, to where other files of its names may be. */
static int check_library(const Init *in)
{
    static const char *const folders[] = {".fsdpgen", ".fsdpgen/arch"};
    struct stat s;

    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *path = gen_printf(in->g, "%s%s", in->folder, folders[i]);

        if (lstat(path, &s) == 0 && !S_ISDIR(s.st_mode))
            return complain(path, S_ISLNK(s.st_mode)
                                      ? "is a symbolic link; move it away"
                                      : "exists, and is not a folder; move it away");
    }
    return EXIT_DONE;
}

/* Reports every file that exists already. */
static int check_free(const Init *in)
{
    struct stat s;
    int code = check_library(in);

    for (int i = 0; i < in->files.count; i++) {
        const char *path = in->files.items[i].path;

        if (lstat(path, &s) != 0)
            continue;
        if (!S_ISREG(s.st_mode))
            code = complain(path, "exists, and is not a regular file");
        else if (!in->g->opt.force && !in->files.items[i].library)
            code = complain(path, "exists; --force replaces it");
    }
    return code;
}

/* Writes the whole file or nothing. */
static int write_one(const Init *in, const InitFile *f)
{
    const char *path = gen_printf(in->g, "%s.%d.part", f->path, (int)getpid());
    const bool replace = in->g->opt.force || f->library;
    int fd, error = 0;

    if (make_folders(in, f->path) != EXIT_DONE)
        return EXIT_DIAG;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return complain(f->path, strerror(errno));
    for (size_t done = 0; done < f->bytes && !error;) {
        const ssize_t n = write(fd, f->data + done, f->bytes - done);

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            error = n == 0 ? ENOSPC : errno;
    }
    if (close(fd) != 0 && !error)
        error = errno;
    if (!error && replace ? rename(path, f->path) != 0
                          : !error && !take_name(AT_FDCWD, path, AT_FDCWD, f->path))
        error = errno;
    if (!error)
        return EXIT_DONE;
    unlink(path);
    return complain(f->path, strerror(error));
}

static void say_what_is_next(const Init *in)
{
    const char *cd = *in->folder ? gen_printf(in->g, "  cd %s\n", in->folder) : "";

    print_line(stdout, "", "%s%s: a description to begin with", in->folder, in->file);
    print_line(stdout, "", "%s.luarc.json%s, %s.fsdpgen/: for editors with the Lua %s",
               in->folder, in->kept ? " (kept as it is)" : "", in->folder,
               "language server");
    printf("\nNext:\n%s"
           "  fsdpgen plan %s\n"
           "  fsdpgen %s -o build/%s\n"
           "  make -C build/%s\n"
           "  build/%s/trainer --data FILE\n",
           cd, in->file, in->file, in->name, in->name, in->name);
}

/* ---- the command ----------------------------------------------------------------- */

static bool is_description(const char *word)
{
    const size_t n = strlen(word);

    return n > 4 && !strcmp(word + n - 4, ".lua");
}

/* The name goes into a comment of the description and into commands to be copied. */
static bool is_plain(const char *word)
{
    for (const char *c = word; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return true;
}

int init_run(Gen *g)
{
    const char *word = g->opt.input ? g->opt.input : "";
    const char *arch = g->opt.arch ? g->opt.arch : init_arch_name(0);
    const char *slash = strrchr(word, '/');
    const Embedded *template = embed_find(gen_printf(g, "templates/init/%s.lua", arch));
    Init in = {.g = g, .folder = "", .file = "model.lua"};
    int code;

    gen_require(template, "init: no template %s", arch);
    if (!is_plain(word)) {
        print_line(stderr, "fsdpgen: error: ", "init %s: the name has control characters",
                   word);
        return EXIT_USAGE;
    }
    if (is_description(word)) {
        in.folder = slash ? gen_strndup(g, word, (size_t)(slash - word) + 1) : "";
        in.file = slash ? slash + 1 : word;
    } else if (*word) {
        in.folder = word[strlen(word) - 1] == '/' ? word : gen_printf(g, "%s/", word);
    }
    in.name = name_of(g, in.file);
    add_description(&in, template);
    add_settings(&in);
    add_library(&in);
    code = check_free(&in);
    for (int i = 0; i < in.files.count && code == EXIT_DONE; i++)
        code = write_one(&in, &in.files.items[i]);
    if (code == EXIT_DONE)
        say_what_is_next(&in);
    return code;
}
