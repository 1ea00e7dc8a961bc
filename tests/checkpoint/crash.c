/* SPDX-License-Identifier: Apache-2.0 */
/* crash.c: what a disk may hold after the machine stopped between two calls. In: the
 * folder before, the folder after, the record of the calls between (io.c). Out: one of
 * the states that a POSIX filesystem may leave, as a folder.
 *
 *   crash FOLDER BEFORE AFTER LOG          the number of states
 *   crash FOLDER BEFORE AFTER LOG N OUT    builds state N in OUT; prints the newest step
 * that a person had been told of
 *
 * FOLDER is the path in the log. For each call there are three states just after it:
 * only what was fsynced is there; all names are there, but of files only what was
 * fsynced; names up to a place between, with zeros for bytes that were not fsynced. Names
 * become durable when their folder is fsynced, and then, as on ordered filesystems, all
 * names before them too, unless ORDER=weak: then only those of that folder. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 4096, PATH = 600 };

typedef struct Extent {
    long at, bytes;
    bool durable;
} Extent;
typedef struct Node { /* a file or folder */
    bool folder, sized;
    char source[PATH]; /* where its bytes are found */
    long size;
    Extent *extent;
    int n_extents;
} Node;
/* A name: of `node`, in folder node `in`. */
typedef struct Name {
    int in, node;
    char text[256];
} Name;
typedef struct Names {
    Name item[MOST];
    int n;
} Names;
typedef struct Op { /* of names, not yet durable */
    int in;
    bool add;
    Name name;
    int with; /* the other half of a rename, or -1 */
} Op;

static Node node[MOST];
static int n_nodes;
static Names now, durable;
static Op pending[MOST];
static int n_pending;
static bool weak;

static _Noreturn void die(const char *what, const char *name)
{
    fprintf(stderr, "crash: %s %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static int new_node(bool folder)
{
    if (n_nodes == MOST)
        die("too many", "files");
    node[n_nodes] = (Node){.folder = folder};
    return n_nodes++;
}

static int find(const Names *names, int in, const char *text)
{
    for (int i = 0; i < names->n; i++)
        if (names->item[i].in == in && !strcmp(names->item[i].text, text))
            return i;
    return -1;
}

static void apply(Names *names, const Op *op)
{
    int at = find(names, op->in, op->name.text);

    if (at >= 0)
        names->item[at] = names->item[--names->n];
    if (op->add)
        names->item[names->n++] = op->name;
}

/* The folder's node and last part of a path below FOLDER; -1: it is not there. */
static int walk(const char *root, const char *path, char *last)
{
    char copy[PATH], *part, *rest;
    int in = 0;

    snprintf(copy, sizeof copy, "%s", path + strlen(root));
    part = strtok_r(copy, "/", &rest);
    for (;;) {
        char *next = strtok_r(NULL, "/", &rest);
        int at;

        snprintf(last, 256, "%s", part ? part : "");
        if (!next)
            return in;
        at = find(&now, in, part);
        if (at < 0)
            return -1;
        in = now.item[at].node;
        part = next;
    }
}

static int node_of(const char *root, const char *path)
{
    char last[256];
    int in = walk(root, path, last), at;

    if (!*last)
        return 0;
    at = in < 0 ? -1 : find(&now, in, last);
    return at < 0 ? -1 : now.item[at].node;
}

static void change(int in, bool add, const char *text, int which, int with)
{
    Op op = {.in = in, .add = add, .name = {in, which, ""}, .with = with};

    snprintf(op.name.text, sizeof op.name.text, "%s", text);
    apply(&now, &op);
    if (n_pending == MOST)
        die("too many", "names");
    pending[n_pending++] = op;
}

/* ---- the folder before: all of it durable ---------------------------------------- */

static const char *before_root;

static int add_before(const char *path, const struct stat *st, int type, struct FTW *f)
{
    char last[256];
    int in, which;

    (void)f;
    if (!strcmp(path, before_root))
        return 0;
    in = walk(before_root, path, last);
    which = new_node(type == FTW_D);
    if (type != FTW_D) {
        Node *x = &node[which];

        snprintf(x->source, sizeof x->source, "%s", path);
        x->size = (long)st->st_size;
        x->sized = true;
        x->extent = malloc(sizeof *x->extent);
        x->extent[x->n_extents++] = (Extent){0, x->size, true};
    }
    now.item[now.n] = (Name){in, which, ""};
    snprintf(now.item[now.n++].text, 256, "%s", last);
    return 0;
}

/* ---- calls ----------------------------------------------------------------------- */

static void sync_folder(int which)
{
    int kept = 0;

    for (int i = 0; i < n_pending; i++) {
        bool all = !weak || pending[i].in == which;

        if (all)
            apply(&durable, &pending[i]);
        else
            pending[kept++] = pending[i];
    }
    n_pending = kept;
}

static void sync_file(Node *x)
{
    x->sized = true;
    for (int i = 0; i < x->n_extents; i++)
        x->extent[i].durable = true;
}

/* True for a line that is a call. */
static bool replay(const char *root, const char *after, const char *line, long *told,
                   long *renamed)
{
    char a[PATH], b[PATH], last[256], last2[256];
    long at, bytes;
    int which;

    if (!strncmp(line, "told", 4)) {
        *told = *renamed;
        return true;
    }
    if (sscanf(line, "rename %599s %599s", a, b) == 2) {
        int from = walk(root, a, last), to = walk(root, b, last2);
        long step;

        which = node_of(root, a);
        change(from, false, last, which, 1);
        change(to, true, last2, which, -1);
        if (sscanf(last2, "step-%8ld", &step) == 1)
            *renamed = step;
    } else if (sscanf(line, "write %599s %ld %ld", a, &at, &bytes) == 3) {
        Node *x = &node[node_of(root, a)];

        x->extent = realloc(x->extent, sizeof *x->extent * (size_t)(x->n_extents + 1));
        x->extent[x->n_extents++] = (Extent){at, bytes, false};
        x->size = at + bytes > x->size ? at + bytes : x->size;
    } else if (sscanf(line, "size %599s %ld", a, &bytes) == 2) {
        node[node_of(root, a)].size = bytes;
    } else if (sscanf(line, "create %599s", a) == 1 ||
               sscanf(line, "mkdir %599s", a) == 1) {
        int in = walk(root, a, last);
        const char *inside = strchr(a + strlen(root) + 1, '/');
        long step = 0;

        sscanf(a + strlen(root) + 1, ".tmp-step-%8ld", &step);
        if (step == 0)
            sscanf(a + strlen(root) + 1, "step-%8ld", &step);
        which = new_node(line[0] == 'm');
        if (step > 0) /* else it is gone afterwards: what it held does not matter */
            snprintf(node[which].source, PATH, "%.400s/step-%08ld%.160s", after, step,
                     inside ? inside : "");
        change(in, true, last, which, -1);
    } else if (sscanf(line, "fsync %599s", a) == 1) {
        which = node_of(root, a);
        if (which >= 0 && node[which].folder)
            sync_folder(which);
        else if (which >= 0)
            sync_file(&node[which]);
    } else if (sscanf(line, "remove %599s", a) == 1) {
        int in = walk(root, a, last);

        change(in, false, last, node_of(root, a), -1);
    } else {
        die("a call that no model is of:", line);
    }
    return true;
}

/* ---- the state ------------------------------------------------------------------- */

static void write_file(const Node *x, const char *path, int kind)
{
    long size = kind == 1 && !x->sized ? 0 : x->size;
    int from = open(x->source, O_RDONLY), to = open(path, O_WRONLY | O_CREAT, 0666);

    if (to < 0 || ftruncate(to, size))
        die("cannot write", path);
    for (int i = 0; i < x->n_extents; i++) {
        const Extent *e = &x->extent[i];
        char *bytes = malloc((size_t)e->bytes + 1);

        if (e->durable && x->source[0] != '\0') {
            if (from < 0 || pread(from, bytes, (size_t)e->bytes, e->at) != e->bytes ||
                pwrite(to, bytes, (size_t)e->bytes, e->at) != e->bytes)
                die("cannot copy", x->source);
        }
        free(bytes);
    }
    if (from >= 0)
        close(from);
    close(to);
}

static void write_folder(const Names *names, int in, const char *path, int kind)
{
    if (mkdir(path, 0777))
        die("cannot make", path);
    for (int i = 0; i < names->n; i++) {
        const Name *x = &names->item[i];
        char below[2 * PATH];

        if (x->in != in)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, x->text);
        if (node[x->node].folder)
            write_folder(names, x->node, below, kind);
        else
            write_file(&node[x->node], below, kind);
    }
}

int main(int argc, char **argv)
{
    char line[2000];
    long state = argc > 5 ? atol(argv[5]) : -1, told = 0, renamed = 0, calls = 0;
    const char *order = getenv("ORDER");
    FILE *log;

    if (argc != 5 && argc != 7)
        die("usage:", "FOLDER BEFORE AFTER LOG [N OUT]");
    weak = order && !strcmp(order, "weak");
    new_node(true);
    before_root = argv[2];
    if (nftw(before_root, add_before, 8, FTW_PHYS))
        die("cannot read", before_root);
    durable = now;
    for (int i = 0; i < now.n; i++) { /* what there was has been told of */
        long step;

        if (sscanf(now.item[i].text, "step-%8ld", &step) == 1 && step > told)
            told = renamed = step;
    }
    log = fopen(argv[4], "r");
    if (!log)
        die("cannot read", argv[4]);
    while ((state < 0 || calls <= state / 3) && fgets(line, sizeof line, log))
        calls += replay(argv[1], argv[3], line, &told, &renamed);
    fclose(log);
    if (state < 0) {
        printf("%ld\n", 3 * calls);
        return 0;
    }
    /* which names that are not durable survive: none, all, the first ones */
    int kind = (int)(state % 3), survive = kind == 0 ? 0
                                           : kind == 1
                                               ? n_pending
                                               : (int)(state / 3 * 7 % (n_pending + 1));
    for (int i = 0; i < survive; i++) {
        apply(&durable, &pending[i]);
        if (pending[i].with == 1 && i + 1 < n_pending && i + 1 == survive)
            survive++; /* a rename is one change */
    }
    write_folder(&durable, 0, argv[6], kind);
    printf("%ld\n", told);
    return 0;
}
