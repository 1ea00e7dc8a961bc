/* SPDX-License-Identifier: Apache-2.0 */
/* embed_tool.c: embed_tool ROOT LIST OUT.c
 *
 * In: LIST, a file of paths relative to ROOT, one per line. Out: OUT.c with
 * embedded_files[], sorted by path (byte order), and embedded_count, as base.h declares
 * them. It runs at build time only, so that fsdpgen is one binary that needs no other
 * files at run time.
 *
 * Each file becomes a string literal, one C line per line of the file: this compiles ten
 * times faster than a list of numbers, and is readable. The size excludes the terminating
 * NUL. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void fail(const char *what, const char *path)
{
    fprintf(stderr, "embed_tool: %s %s: %s\n", what, path, strerror(errno));
    exit(1);
}

static void *checked(void *p)
{
    if (p == NULL)
        fail("cannot allocate", "memory");
    return p;
}

/* Whole file, NUL-terminated. */
static char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        fail("cannot open", path);
    size_t cap = 1 << 16, n = 0;
    char *text = checked(malloc(cap + 1));
    for (;;) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap)
            break;
        cap *= 2;
        text = checked(realloc(text, cap + 1));
    }
    if (ferror(f))
        fail("cannot read", path);
    fclose(f);
    text[n] = 0;
    *bytes = n;
    return text;
}

/* Octal escapes have exactly three digits here, so a digit that follows is never
 * swallowed;
 * `?` is escaped because -std=c11 knows trigraphs. */
static void write_literal(FILE *out, const char *text, size_t bytes)
{
    fputs("    \"", out);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n')
            fputs(i + 1 < bytes ? "\\n\"\n    \"" : "\\n", out);
        else if (c == '"' || c == '\\' || c == '?')
            fprintf(out, "\\%c", c);
        else if (c < 32 || c > 126)
            fprintf(out, "\\%03o", c);
        else
            fputc(c, out);
    }
    fputs("\"", out);
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Splits the list in place; returns the paths, sorted. */
static char **split_lines(char *list, int *count)
{
    char **paths = NULL;
    int n = 0, cap = 0;
    for (char *line = strtok(list, "\r\n"); line != NULL; line = strtok(NULL, "\r\n")) {
        if (n == cap) {
            cap = cap ? 2 * cap : 256;
            paths = checked(realloc(paths, (size_t)cap * sizeof *paths));
        }
        paths[n++] = line;
    }
    if (n > 0)
        qsort(paths, (size_t)n, sizeof *paths, compare_paths);
    *count = n;
    return paths;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: embed_tool ROOT LIST OUT.c\n");
        return 2;
    }
    const char *root = argv[1], *out_path = argv[3];
    size_t list_bytes;
    char *list = read_file(argv[2], &list_bytes);
    int count;
    char **paths = split_lines(list, &count);
    size_t *bytes = checked(calloc((size_t)count + 1, sizeof *bytes));

    FILE *out = fopen(out_path, "wb");
    if (out == NULL)
        fail("cannot write", out_path);
    fputs("/* Made by gen/base/embed_tool.c; DO NOT EDIT. */\n#include \"gen.h\"\n", out);
    for (int i = 0; i < count; i++) {
        char *path = checked(malloc(strlen(root) + strlen(paths[i]) + 2));
        sprintf(path, "%s/%s", root, paths[i]);
        char *text = read_file(path, &bytes[i]);
        fprintf(out, "\n/* %s */\nstatic const unsigned char file%d[] =\n", paths[i], i);
        write_literal(out, text, bytes[i]);
        fputs(";\n", out);
        free(text);
        free(path);
    }
    fputs("\nconst Embedded embedded_files[] = {\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "    {\"%s\", file%d, %zu},\n", paths[i], i, bytes[i]);
    fprintf(out, "    {NULL, NULL, 0},\n};\n\nconst int embedded_count = %d;\n", count);
    int failed = ferror(out);
    if (fclose(out) != 0 || failed)
        fail("cannot write", out_path);
    free(bytes);
    free(paths);
    free(list);
    return 0;
}
