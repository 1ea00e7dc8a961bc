/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_files.c: checks files before hours of work. In: the options. Out: whether
 * the inputs exist and are text or JSON lines (not an archive of them), and whether
 * the output may get its name: at most a regular file exists there, and it is not an
 * input. */
#include "tokenize/tokenize.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- inputs ---------------------------------------------------------------------- */

static bool has_suffix(const char *s, const char *suffix)
{
    const size_t n = strlen(s), m = strlen(suffix);

    return n >= m && !strcasecmp(s + n - m, suffix);
}

bool tok_is_lines(const TokOptions *o, const char *name)
{
    return o->jsonl || o->template || has_suffix(name, ".jsonl") ||
           has_suffix(name, ".ndjson") || has_suffix(name, ".jsonl.zst") ||
           has_suffix(name, ".ndjson.zst");
}

static bool begins(const char *s, size_t n, const char *with, size_t bytes)
{
    return n >= bytes && !memcmp(s, with, bytes);
}

/* Does it begin with bytes that texts lack? */
static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n && i < 64; i++)
        if (iscntrl((unsigned char)s[i]) && !isspace((unsigned char)s[i]))
            return true;
    return false;
}

const char *tok_no_text(const char *s, size_t n, const char *end)
{
    /* end: a text may begin so; this ends the file, or, where it was cut short, bytes
     * that texts lack follow */
    static const struct {
        const char *begin, *end, *says;
        size_t bytes;
    } kinds[] = {
        {"\x1f\x8b", NULL, "is gzip: unpack it first", 2},
        {"\x28\xb5\x2f\xfd", NULL, "is zstd: unpack it first", 4},
        {"PK\3\4", NULL, "is zip: unpack it first", 4},
        {"PAR1", "PAR1", "is Parquet: write it as JSON lines first", 4},
        {"PARE", "PARE", "is encrypted Parquet: write it as JSON lines first", 4},
        {"version https://git-lfs.github.com/spec/v1", NULL,
         "is a Git LFS pointer, not the file: git lfs pull", 42},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (begins(s, n, kinds[i].begin, kinds[i].bytes) &&
            (!kinds[i].end || begins(end, 4, kinds[i].end, 4) || has_control(s, n)))
            return kinds[i].says;
    return NULL;
}

static bool check_input(const TokOptions *o, const char *name, char *error)
{
    FileMark mark;
    const int fd = file_open(name, &mark);
    char begin[64], end[4] = "";
    const char *problem = fd >= 0 ? NULL
                          : errno == ENOENT
                              ? "there is no such file: name the texts to read"
                              : file_problem(errno);
    ssize_t n = 0;

    if (!problem) {
        n = pread(fd, begin, sizeof begin, 0);
        if (mark.bytes >= 4 && pread(fd, end, sizeof end, mark.bytes - 4) != 4)
            end[0] = '\0';
        problem = n < 0 ? file_problem(errno)
                  : !tok_is_zstd(name, begin, (size_t)n)
                      ? tok_no_text(begin, (size_t)n, end)
                  : tok_without_zstd[0] ? tok_without_zstd
                                        : NULL;
        close(fd);
    }
    if (!problem && o->field && !tok_is_lines(o, name))
        problem = "is a text, which has no --field; --jsonl takes it as JSON lines";
    if (!problem && o->held_out && !tok_is_lines(o, name))
        problem = "is a text, which is one document: --held-out is for JSON lines";
    if (problem)
        snprintf(error, TOK_ERROR_BYTES, "%.200s: %s", name, problem);
    return !problem;
}

/* ---- the output ------------------------------------------------------------------ */

/* A link is refused. If it were followed, the file would be separated from its mask,
 * which lies beside the name; if it were replaced, other names would still lead to the
 * old file. */
static bool check_output(const char *name, char *error)
{
    struct stat out, to;
    const char *problem = NULL;

    if (lstat(name, &out) != 0)
        return true; /* opening it reports why, unless it just does not exist */
    if (S_ISLNK(out.st_mode)) {
        problem = stat(name, &to) == 0 && !S_ISREG(to.st_mode)
                      ? "is not a regular file"
                      : "is a symbolic link; name the file that it leads to";
    } else if (!S_ISREG(out.st_mode)) {
        problem = "is not a regular file";
    } else if (input_is(&out)) {
        problem = INPUT_TEXT;
    }
    if (problem)
        snprintf(error, TOK_ERROR_BYTES, "%.200s: %s", name, problem);
    return !problem;
}

bool tok_check_files(Gen *g, const TokOptions *o, char *error)
{
    for (int i = 0; i < o->inputs.count; i++)
        if (!check_input(o, o->inputs.items[i], error))
            return false;
    if (o->template) /* the other inputs have been opened */
        input_note(o->template);
    return check_output(o->output, error) &&
           check_output(gen_printf(g, "%s.mask", o->output), error);
}
