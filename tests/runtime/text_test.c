/* SPDX-License-Identifier: Apache-2.0 */
/* text_test.c: texts in memory. A long one is whole; where memory ends at any growth, the
 * text is refused, and so is the list of a checkpoint's files, never cut. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { LINES = 5000, FILES = 300 };

static int growths, lost = -1; /* how many there were; the one that fails */
void *__real_realloc(void *at, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

void *__wrap_realloc(void *at, size_t bytes)
{
    return growths++ == lost ? NULL : __real_realloc(at, bytes);
}

static char *lines(RtText *t)
{
    assert_true(rt_text_open(t));
    for (int i = 0; i < LINES; i++)
        fprintf(t->f, "line %d\n", i);
    return rt_text_end(t);
}

static void whole(void **state)
{
    RtText t;
    int i = 0;

    (void)state;
    char *text = lines(&t), *at = text;
    assert_non_null(text);
    assert_int_equal(strlen(text), t.bytes);
    for (char line[32]; i < LINES; i++, at = strchr(at, '\n') + 1) {
        snprintf(line, sizeof line, "line %d\n", i);
        assert_int_equal(strncmp(at, line, strlen(line)), 0);
    }
    assert_ptr_equal(at, text + t.bytes);
    free(text);
    assert_true(rt_text_open(&t));
    assert_string_equal(text = rt_text_end(&t), ""); /* nothing printed */
    free(text);
}

static char *file_list(void)
{
    static RtFile files[FILES];

    for (int i = 0; i < FILES; i++) {
        files[i].bytes = i;
        snprintf(files[i].name, sizeof files[i].name, "optimizer/file-%d.safetensors", i);
    }
    return rt_manifest_text(files, FILES, 7);
}

/* Each growth fails once. */
static void refused(void **state)
{
    RtText t;
    int most;

    (void)state;
    growths = 0;
    free(lines(&t));
    most = growths;
    assert_true(most > 1);
    for (lost = 0; lost < most; lost++) {
        growths = 0;
        assert_null(lines(&t));
    }
    growths = 0;
    char *list = file_list();
    assert_non_null(list);
    free(list);
    most = growths;
    assert_true(most > 1);
    for (lost = 0; lost < most; lost++) {
        growths = 0;
        assert_null(file_list());
    }
    lost = -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole),
                                       cmocka_unit_test(refused)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
