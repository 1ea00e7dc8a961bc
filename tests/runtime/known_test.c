/* SPDX-License-Identifier: Apache-2.0 */
/* known_test.c: the cache of digests finds what it was given, for files that are what
 * they were, and nothing else: not for another size, time, device or inode, and not from
 * a line in which a bit was changed. */
#include "../../runtime/data/rt_known.c"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { LATER = 10 };

static char folder[] = "/tmp/fsdpgen-known.XXXXXX", path[RT_PATH_BYTES];

static int begin(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL || setenv("XDG_CACHE_HOME", folder, 1) != 0 ||
        freopen("/dev/null", "w", stderr) == NULL) /* for warnings */
        return -1;
    const Cache c = open_cache();
    strcpy(path, c.path);
    close_cache(&c);
    return c.folder >= 0 ? 0 : -1;
}

static int end(void **state)
{
    char error[RT_ERROR_BYTES];

    (void)state;
    return rt_file_remove_tree(folder, error) ? 0 : -1;
}

/* Last changed at second 3, opened at `opened`. */
static RtMapped file(uint64_t inode, int64_t opened)
{
    return (RtMapped){.is = {5, inode, 1000, 2000000000, 3000000000},
                      .bytes = 1000,
                      .opened_ns = opened * 1000000000,
                      .clean = true};
}

static bool finds(const RtMapped *m, uint64_t digest)
{
    RtKnown k = {.of = m};

    rt_known_find(&k, 1);
    return k.found && k.digest == digest;
}

static void files_are_found(void **state)
{
    RtMapped a = file(1, LATER), b = file(2, LATER), mask = file(1, LATER),
             c = file(3, 4);
    RtKnown k[] = {{.of = &b}, {.of = &a}, {.of = &mask}, {.of = &c}, {.of = &a}};

    (void)state;
    mask.bytes = 900; /* its bits */
    rt_known_add(&a, 10);
    rt_known_add(&b, 20);
    rt_known_add(&a, 11); /* the last one counts */
    rt_known_add(&mask, 30);
    rt_known_add(&c, 40); /* it was changed a moment ago */
    c.opened_ns = a.opened_ns;
    c.clean = false; /* may change without another time */
    rt_known_add(&c, 41);
    rt_known_find(k, 5);
    assert_true(k[0].found && k[0].digest == 20);
    assert_true(k[1].found && k[1].digest == 11);
    assert_true(k[2].found && k[2].digest == 30);
    assert_false(k[3].found);
    assert_true(k[4].found && k[4].digest == 11); /* named twice */
}

static void other_files_are_not(void **state)
{
    RtMapped m[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        m[i] = file(1, LATER);
    m[0].is.device++;
    m[1].is.inode += 100;
    m[2].is.bytes++;
    m[3].is.modified_ns++;
    m[4].is.changed_ns++;
    m[5].bytes--;
    for (int i = 0; i < 6; i++) {
        RtKnown k = {.of = &m[i]};

        rt_known_find(&k, 1);
        assert_false(k.found);
    }
}

static void write_cache(const char *text, size_t bytes)
{
    FILE *f = remove(path) == 0 ? fopen(path, "w") : NULL;

    assert_true(f != NULL && fwrite(text, 1, bytes, f) == bytes && fclose(f) == 0);
}

static void damaged_lines_are_not(void **state)
{
    char line[LINE_BYTES + 2], more[3 * LINE_BYTES];
    const RtMapped a = file(1, LATER), b = file(2, LATER);
    uint64_t w[WORDS];

    (void)state;
    words_of(&a, w);
    w[WORDS - 1] = 77;
    write_line(line, w);
    for (size_t i = 0; i < LINE_BYTES; i++) {
        const char bit = (char)(1 << i % 8);

        line[i] ^= bit;
        write_cache(line, LINE_BYTES);
        assert_false(finds(&a, 77));
        line[i] ^= bit;
    }
    for (size_t n = 0; n < LINE_BYTES - 1;
         n++) { /* cut off, and then another one comes */
        write_cache(line, n);
        rt_known_add(&b, 88);
        assert_true(!finds(&a, 77) && finds(&b, 88));
    }
    memset(more, 'x', sizeof more); /* of another kind */
    memcpy(more + LINE_BYTES, line, LINE_BYTES);
    more[LINE_BYTES - 1] = '\n';
    write_cache(more, sizeof more);
    assert_true(finds(&a, 77));
    assert_true(finds(&a, 77)); /* of what was written anew */
}

static void strangers_are_not(void **state)
{
    const RtMapped a = file(1, LATER);
    char away[RT_PATH_BYTES + 8];
    struct stat s;

    (void)state;
    remove(path);
    rt_known_add(&a, 5);
    assert_true(finds(&a, 5));
    assert_true(chmod(path, 0620) == 0 && !finds(&a, 5) && chmod(path, 0600) == 0);
    snprintf(away, sizeof away, "%s.away", path);
    assert_true(rename(path, away) == 0 && symlink(away, path) == 0 && !finds(&a, 5));
    assert_true(remove(path) == 0 && mkdir(path, 0700) == 0 && !finds(&a, 5));
    rt_known_add(&a, 5);
    assert_true(rmdir(path) == 0 && mkfifo(path, 0600) == 0);
    rt_known_add(&a, 5); /* which waits for nobody */
    assert_true(!finds(&a, 5) && remove(path) == 0);
    assert_true(rename(away, path) == 0 && finds(&a, 5));
    snprintf(away, sizeof away, "%s/second", folder);
    assert_true(link(path, away) == 0 && truncate(path, MOST_BYTES) == 0);
    rt_known_add(&a, 6); /* of two names: it stays as it is */
    assert_true(!finds(&a, 6) && stat(away, &s) == 0 && s.st_size == MOST_BYTES);
    assert_true(remove(away) == 0 && remove(path) == 0);
    snprintf(away, sizeof away, "%s/fsdpgen", folder);
    assert_true(chmod(away, 0777) == 0);
    rt_known_add(&a, 7); /* in a folder that others write */
    assert_true(!finds(&a, 7) && chmod(away, 0700) == 0 && !finds(&a, 7));
    setenv("XDG_CACHE_HOME", "relative", 1);
    unsetenv("HOME");
    rt_known_add(&a, 5);
    assert_false(finds(&a, 5));
    setenv("XDG_CACHE_HOME", folder, 1);
}

/* Where the folder is a link, somebody else may say what lies there. */
static void links_are_not_followed(void **state)
{
    const RtMapped a = file(1, LATER);
    char fsdpgen[RT_PATH_BYTES + 8], away[RT_PATH_BYTES + 16];

    (void)state;
    snprintf(fsdpgen, sizeof fsdpgen, "%s/fsdpgen", folder);
    snprintf(away, sizeof away, "%s.away", fsdpgen);
    rt_known_add(&a, 9);
    assert_true(finds(&a, 9));
    assert_true(rename(fsdpgen, away) == 0 && symlink(away, fsdpgen) == 0);
    rt_known_add(&a, 10);
    assert_true(!finds(&a, 9) && !finds(&a, 10));
    assert_true(remove(fsdpgen) == 0 && rename(away, fsdpgen) == 0 && finds(&a, 9));
}

static void it_begins_anew(void **state)
{
    const RtMapped a = file(1, LATER), b = file(2, LATER);
    struct stat s;

    (void)state;
    remove(path);
    rt_known_add(&a, 5);
    assert_true(truncate(path, MOST_BYTES) == 0);
    rt_known_add(&b, 6);
    assert_true(stat(path, &s) == 0 && s.st_size == LINE_BYTES + 1);
    assert_true(finds(&b, 6) && !finds(&a, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_found),        cmocka_unit_test(other_files_are_not),
        cmocka_unit_test(damaged_lines_are_not),  cmocka_unit_test(strangers_are_not),
        cmocka_unit_test(links_are_not_followed), cmocka_unit_test(it_begins_anew),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
