/* SPDX-License-Identifier: MIT-0 */
/* rt_outputs.c: the files that --log, --stats and similar flags write. In: their
 * paths. Out: those files; or, before anything is computed, what is wrong with a path.
 *
 * An existing file is overwritten if it is empty or starts like a file of that flag;
 * any other file belongs to someone else, and stays unless --force is given. Files of
 * checkpoints and files that the run reads stay even then. Devices and pipes are
 * accepted. Files that are written in one go are either complete or unchanged. */
#include "job/rt_door.h"
#include "job/rt_file.h"
#include "job/rt_out.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- whose file is it? ----------------------------------------------------------- */

enum { HEAD_BYTES = 256 };

typedef struct Named {
    const char *flag, *path;
    const char *begins; /* #: a number, or null */
    bool whole;         /* it is written beside its name first */
    const char *began;  /* in earlier versions; or NULL */
} Named;

static bool is_of_number(char c)
{
    return isalnum((unsigned char)c) || c == '.' || c == '-' || c == '+';
}

/* Does the text start like that, or is it a truncated version of that start? */
static bool begins_as(const char *text, const char *end, const char *begins)
{
    for (; *begins != '\0' && text < end; begins++) {
        if (*begins != '#') {
            if (*text++ != *begins)
                return false;
            continue;
        }
        const char *number = text;
        while (text < end && is_of_number(*text))
            text++;
        if (text == number)
            return false;
    }
    return true;
}

static bool is_ours(const char *path, const char *begins, bool *read_it)
{
    char head[HEAD_BYTES];
    FILE *f = fopen(path, "re");
    const size_t bytes = f != NULL ? fread(head, 1, sizeof head, f) : 0;
    *read_it = f != NULL && ferror(f) == 0;
    if (f != NULL)
        fclose(f);
    return begins_as(head, head + bytes, begins);
}

/* ---- may it be written? ---------------------------------------------------------- */

static bool wrong(const Named *n, const char *why, char *error)
{
    snprintf(error, RT_ERROR_BYTES, "--%s %.*s: %s", n->flag, 500, n->path, why);
    return false;
}

/* Is it the regular file behind stdout or stderr? Lines and file would overwrite each
 * other. */
static bool is_stream(const struct stat *s)
{
    for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO; fd++) {
        struct stat stream;
        if (fstat(fd, &stream) == 0 && stream.st_dev == s->st_dev &&
            stream.st_ino == s->st_ino)
            return true;
    }
    return false;
}

/* The file that a name leads to, through links, even if it does not exist yet. */
static bool follow(const char *path, char to[PATH_MAX])
{
    char link[PATH_MAX];
    if (realpath(path, to) != NULL)
        return true;
    int n = snprintf(to, PATH_MAX, "%s", path);
    for (int links = 0; n < PATH_MAX; links++) {
        const ssize_t bytes = readlink(to, link, sizeof link - 1);
        if (bytes < 0)
            return true; /* not a link: the file will be here */
        if (links == 40) {
            errno = ELOOP;
            return false;
        }
        link[bytes] = '\0';
        const char *slash = strrchr(to, '/');
        const int folder = link[0] != '/' && slash != NULL ? (int)(slash - to + 1) : 0;
        n = folder + (int)bytes;
        if (n < PATH_MAX)
            memcpy(to + folder, link, (size_t)bytes + 1);
    }
    errno = ENAMETOOLONG;
    return false;
}

/* The folder of a name; its last part. */
static const char *folder_of(const char *path, struct stat *folder)
{
    char text[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(text, sizeof text, "%.*s", slash != NULL ? (int)(slash - path + 1) : 1,
             slash != NULL ? path : ".");
    if (stat(text, folder) != 0)
        memset(folder, 0, sizeof *folder);
    return slash != NULL ? slash + 1 : path;
}

static bool same_inode(const struct stat *x, const struct stat *y)
{
    return x->st_dev == y->st_dev && x->st_ino == y->st_ino;
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) == 0 && stat(b, &y) == 0)
        return S_ISREG(x.st_mode) && same_inode(&x, &y);
    return strcmp(folder_of(a, &x), folder_of(b, &y)) == 0 && same_inode(&x, &y);
}

/* Is the file in the folder, or below it, under any name? `own`: files directly in the
 * folder count, too. */
static bool holds(int at, const char *folder, const struct stat *file, bool own,
                  int depth)
{
    const int fd = openat(at, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    bool found = false;
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    for (struct dirent *e; !found && (e = readdir(d)) != NULL;) {
        struct stat s;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
            fstatat(fd, e->d_name, &s, 0) != 0)
            continue;
        found = S_ISDIR(s.st_mode)
                    ? depth > 0 && holds(fd, e->d_name, file, true, depth - 1)
                    : own && same_inode(&s, file);
    }
    closedir(d);
    return found;
}

/* Does the name lead to that file, or to one in that folder? */
static bool is_of(const char *path, const char *read, bool own)
{
    enum { DEPTH = 2 }; /* step-00000001/optimizer */
    struct stat x, y;
    if (read == NULL || stat(path, &x) != 0 || !S_ISREG(x.st_mode) || stat(read, &y) != 0)
        return false;
    return S_ISDIR(y.st_mode) ? holds(AT_FDCWD, read, &x, own, DEPTH)
                              : same_inode(&x, &y);
}

/* Does a --data or --eval, [FORMAT:]GLOB[=WEIGHT], name the file? */
static bool is_data(const char *word, const struct stat *file)
{
    const char *colon = strchr(word, ':'), *equals = strrchr(word, '=');
    bool found = false;
    /* A path may itself have a colon or an equals sign: all four readings are tried. */
    for (int form = 0; form < 4 && !found; form++) {
        const char *from = (form & 1) != 0 && colon != NULL ? colon + 1 : word;
        const char *end = (form & 2) != 0 && equals != NULL && equals > from
                              ? equals
                              : word + strlen(word);
        char pattern[PATH_MAX];
        struct stat s;
        glob_t g = {0};
        snprintf(pattern, sizeof pattern, "%.*s", (int)(end - from), from);
        glob(pattern, GLOB_NOSORT, NULL, &g);
        for (size_t i = 0; i < g.gl_pathc; i++)
            found = found || (stat(g.gl_pathv[i], &s) == 0 && same_inode(&s, file));
        found = found || (stat(pattern, &s) == 0 && same_inode(&s, file));
        globfree(&g);
    }
    return found;
}

/* ---- does it stay even with --force? --------------------------------------------- */

static bool has_manifest(const char *folder)
{
    char path[PATH_MAX + RT_NAME_BYTES];
    struct stat s;
    bool read_it;
    return snprintf(path, sizeof path, "%s/MANIFEST", folder) < (int)sizeof path &&
           stat(path, &s) == 0 && S_ISREG(s.st_mode) &&
           is_ours(path, "fsdpgen checkpoint #\n", &read_it);
}

/* Is the folder a checkpoint? By its name, beside others, also one that is damaged or is
 * being written. */
static bool is_checkpoint(const char *folder)
{
    const char *name = strrchr(folder, '/') + 1;
    char dir[PATH_MAX], step[PATH_MAX + RT_NAME_BYTES], ignored[RT_ERROR_BYTES];
    int64_t *steps;
    bool found = has_manifest(folder);
    if (found || (rt_file_step_of(folder) < 0 && !rt_file_is_rest(name)))
        return found;
    snprintf(dir, sizeof dir, "%.*s", (int)(name - folder), folder);
    const int n = rt_file_steps(dir, &steps, ignored);
    for (int i = 0; i < n && !found; i++) {
        snprintf(step, sizeof step, "%sstep-%08lld", dir, (long long)steps[i]);
        found = has_manifest(step);
    }
    free(steps);
    return found;
}

/* Is the folder a checkpoint, STEP or STEP/optimizer? */
static bool is_of_checkpoint(const char *folder)
{
    char at[PATH_MAX], *slash;
    bool found = false;
    if (realpath(folder, at) == NULL)
        return false;
    for (int i = 0; i < 2 && !found && (slash = strrchr(at, '/')) > at; i++) {
        found = is_checkpoint(at);
        *slash = '\0';
    }
    return found;
}

/* The folder that the name leads to. */
static bool find_folder(const char *path, char folder[PATH_MAX])
{
    if (!follow(path, folder))
        return false;
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, ".");
    else
        slash[slash == folder] = '\0';
    return true;
}

/* Can a file be created beside it? */
static bool check_folder(const Named *n, char *error)
{
    char folder[PATH_MAX];
    if (!find_folder(n->path, folder))
        return wrong(n, strerror(errno), error);
    if (is_of_checkpoint(folder))
        return wrong(n, "its folder is a checkpoint, and goes with it: name another one",
                     error);
    if (access(folder, W_OK | X_OK) == 0)
        return true;
    return wrong(n,
                 errno == ENOENT ? "No such file or directory: make its folder first"
                                 : strerror(errno),
                 error);
}

static bool is_in_checkpoint(const char *path)
{
    char folder[PATH_MAX];
    return find_folder(path, folder) && is_of_checkpoint(folder);
}

bool rt_kernels_path(const RtFlags *f, const char *beside, char path[PATH_MAX])
{
    if (f->kernels == NULL)
        rt_file_beside_trainer(path, PATH_MAX, "kernels.wis");
    else if (snprintf(path, PATH_MAX, "%s", f->kernels) >= PATH_MAX)
        return false;
    char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    const int room = (int)(path + PATH_MAX - name);
    return beside == NULL || snprintf(name, (size_t)room, "%s", beside) < room;
}

/* Why the file stays; NULL: the flags' files may replace it. */
static const char *stays(const RtFlags *f, const char *path)
{
    if (is_of(path, f->init, true))
        return "--init reads that file: name another one";
    if (is_of(path, f->secret, true))
        return "--secret reads that file: name another one";
#ifdef RT_CUDA
    char kernels[PATH_MAX];
    if (rt_kernels_path(f, NULL, kernels) && is_of(path, kernels, true))
        return "--kernels reads that file: name another one";
    if (rt_kernels_path(f, "attention.lua", kernels) && is_of(path, kernels, true))
        return "--tune-kernels wrote that file for fsdpgen: name another one";
#endif
    if (is_of(path, f->checkpoint, false) || is_in_checkpoint(path))
        return "a checkpoint has that file: name another one";
    if (is_of(path, "/proc/self/exe", true))
        return "that is the trainer itself: name another one";
    return NULL;
}

/* The flag for data that reads the file; NULL: none. --force does not replace it. */
static const char *read_by(const RtFlags *f, const struct stat *file)
{
    for (int i = 0; i < f->n_data; i++)
        if (is_data(f->data[i], file))
            return "data";
    for (int i = 0; i < f->n_eval; i++)
        if (is_data(f->eval[i], file))
            return "eval";
    return NULL;
}

/* The file has other contents than the flag writes. */
static bool wrong_contents(const RtFlags *f, const Named *n, const struct stat *s,
                           char *error)
{
    const char *reads = read_by(f, s);
    char why[160];
    if (reads != NULL)
        snprintf(why, sizeof why, "--%s reads that file: name another one", reads);
    else
        snprintf(why, sizeof why,
                 "the file is there and does not begin as what --%s writes: name another "
                 "one, or replace it with --force",
                 n->flag);
    return wrong(n, why, error);
}

static bool check_one(const RtFlags *f, const Named *n, char *error)
{
    struct stat s;
    bool read_it = true;
    if (stat(n->path, &s) != 0) {
        if (errno != ENOENT || strlen(n->path) >= PATH_MAX)
            return wrong(n, strerror(errno != ENOENT ? errno : ENAMETOOLONG), error);
        return check_folder(n, error);
    }
    if (S_ISDIR(s.st_mode))
        return wrong(n, "Is a directory: name a file in it", error);
    if (!S_ISREG(s.st_mode))
        return true;
    if (is_stream(&s))
        return wrong(n, "stdout or stderr goes there: name another file", error);
    const char *why = stays(f, n->path);
    if (why != NULL)
        return wrong(n, why, error);
    if (!f->force && s.st_size > 0 && !is_ours(n->path, n->begins, &read_it) &&
        (n->began == NULL || !is_ours(n->path, n->began, &read_it)))
        return wrong_contents(f, n, &s, error);
    if (!read_it || access(n->path, W_OK) != 0)
        return wrong(n, strerror(errno), error);
    return !n->whole || check_folder(n, error);
}

enum { N_NAMED = 5 };

static void name_all(const RtFlags *f, Named *named)
{
    const Named all[N_NAMED] = {
        {"log", f->log, "{\"run\": {\"model\": \"", false, "{\"step\": #, \"loss\": #"},
        {"stats", f->stats, "{\"world_size\": #, \"steps\": #, \"arena_bytes\": #", true,
         NULL},
        {"debug-gradients", f->debug_gradients, "{\"loss\": #, \"parameters\": [", true,
         NULL},
        {"profile", f->profile, "{\"steps\": #, \"step_seconds\": #, \"kernels\": [",
         true, NULL},
        {"calibrate", f->calibrate, "{\"fsdpgen_rates\": #", true, NULL},
    };
    memcpy(named, all, sizeof all);
}

static bool check_named(const RtFlags *f, const Named *named, int i, char *error)
{
    for (int k = 0; k < i; k++) {
        if (named[k].path != NULL && same_file(named[i].path, named[k].path)) {
            char why[64];
            snprintf(why, sizeof why, "--%s names the same file", named[k].flag);
            return wrong(&named[i], why, error);
        }
    }
    return check_one(f, &named[i], error);
}

int rt_outputs_try(const RtFlags *f, RtTell *tell, void *ctx)
{
    Named named[N_NAMED];
    char error[RT_ERROR_BYTES];
    int n = 0;
    name_all(f, named);
    for (int i = 0; i < N_NAMED; i++) {
        if (named[i].path == NULL)
            continue;
        n++;
        if (!check_named(f, named, i, error))
            tell(ctx, error);
    }
    return n;
}

void rt_outputs_fail(void *rt, const char *why)
{
    rt_fail(rt, RT_EXIT_ERROR, "%s", why);
}

void rt_outputs_check(Rt *rt)
{
    rt_outputs_try(&rt->state->flags, rt_outputs_fail, rt);
}

void rt_outputs_spare(const RtFlags *f, const char *flag, uint64_t device, uint64_t inode,
                      RtTell *tell, void *ctx)
{
    Named named[N_NAMED];
    name_all(f, named);
    for (int i = 0; i < N_NAMED; i++) {
        struct stat s;
        if (named[i].path != NULL && stat(named[i].path, &s) == 0 && s.st_dev == device &&
            s.st_ino == inode) {
            char why[64], error[RT_ERROR_BYTES];
            snprintf(why, sizeof why, "--%s reads that file: name another one", flag);
            wrong(&named[i], why, error);
            tell(ctx, error);
        }
    }
}

/* ---- files written in one go ----------------------------------------------------- */

const char *rt_output_begins(const Rt *rt, const char *flag)
{
    Named named[N_NAMED];
    int i = 0;
    name_all(&rt->state->flags, named);
    while (strcmp(named[i].flag, flag) != 0)
        i++;
    return rt->state->flags.force ? NULL : named[i].begins;
}

bool rt_output_may_replace(const char *path, const char *begins)
{
    struct stat s;
    bool read_it;
    return stat(path, &s) != 0 || !S_ISREG(s.st_mode) || is_ours(path, begins, &read_it);
}

/* Unlike stdout's, its flags are not shared with other programs, because it is opened
 * here. */
int rt_output_open(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat s;
    if (fd < 0 && errno == ENXIO && stat(path, &s) == 0 && S_ISFIFO(s.st_mode)) {
        rt_say("trainer: %.500s: a pipe, which waits for its reader", path);
        fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    const int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0)
        return fd;
    const int reason = errno;
    if (fd >= 0)
        close(fd);
    errno = reason;
    return -1;
}

/* Of a device or a pipe: what is written is sent at the end. */
static bool begin_stream(RtOutput *o, const char *path)
{
    o->stream = rt_output_open(path);
    if (o->stream < 0)
        return false;
    if (!rt_text_open(&o->text)) {
        close(o->stream);
        return false;
    }
    o->f = o->text.f;
    return true;
}

/* The target of the name: the target of a link is written, the link stays. */
bool rt_output_begin(RtOutput *o, const char *path, const char *begins)
{
    struct stat s;
    const bool there = stat(path, &s) == 0;
    o->begins = begins;
    o->part[0] = '\0';
    if (there && !S_ISREG(s.st_mode))
        return begin_stream(o, path);
    if (!follow(path, o->path))
        return false;
    unsigned char random[8] = {0}; /* numbers of processes are not unique in containers */
    char letters[2 * sizeof random + 1];
    rt_random_bytes(random, sizeof random);
    rt_hex(random, sizeof random, letters);
    if (snprintf(o->part, sizeof o->part, "%s.%s.part", o->path, letters) >=
        (int)sizeof o->part) {
        errno = ENAMETOOLONG;
        return false;
    }
    const int fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                        there ? s.st_mode & 0777 : 0666);
    o->f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (fd >= 0 && o->f == NULL) {
        close(fd);
        unlink(o->part);
    }
    return o->f != NULL;
}

/* link() takes a free name without replacing anything. */
static bool take_name(const RtOutput *o)
{
    struct stat s;
    bool read_it;
    if (o->begins != NULL && link(o->part, o->path) == 0) {
        unlink(o->part);
        return true;
    }
    if (o->begins != NULL && stat(o->path, &s) == 0 && s.st_size > 0 &&
        !is_ours(o->path, o->begins, &read_it)) {
        rt_say("trainer: warning: %.500s came to be during the run and stays: what was "
               "to be there is in %.500s",
               o->path, o->part);
        errno = EEXIST;
        return false;
    }
    return rename(o->part, o->path) == 0;
}

static bool end_stream(Rt *rt, RtOutput *o)
{
    char *text = rt_text_end(&o->text);
    const ssize_t sent =
        text != NULL ? rt_stream_send(rt, o->stream, text, o->text.bytes, true) : -1;
    const int reason = sent >= 0 ? ETIMEDOUT : errno;
    const bool good = sent >= 0 && (size_t)sent == o->text.bytes;
    free(text);
    if (close(o->stream) != 0 && good)
        return false;
    errno = reason;
    return good;
}

bool rt_output_end(Rt *rt, RtOutput *o)
{
    if (o->part[0] == '\0')
        return end_stream(rt, o);
    bool good = fflush(o->f) == 0 && !ferror(o->f);
    if (good)
        good = fsync(fileno(o->f)) == 0 || errno == EINVAL;
    const int reason = errno;
    if (fclose(o->f) != 0 || !good) {
        errno = good ? errno : reason;
        good = false;
    }
    if (good)
        good = take_name(o);
    if (!good && errno != EEXIST) {
        const int why = errno;
        unlink(o->part);
        errno = why;
    }
    return good;
}

const char *rt_output_reason(void)
{
    return errno == ETIMEDOUT ? "its reader has stopped reading" : strerror(errno);
}

void rt_output_lost(Rt *rt, const char *flag, const char *path)
{
    char *lost = rt->state->lost;
    if (lost[0] == '\0')
        snprintf(lost, RT_ERROR_BYTES, "--%s %.500s: %s", flag, path, rt_output_reason());
}
