/* SPDX-License-Identifier: Apache-2.0 */
/* state_test.c: a train state is read as it was written, and refused where its numbers
 * are none that a run comes to; how its numbers are written, and compared. */
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A state of step 7 with one member in another's place; false: it is refused. */
static bool reads(const char *key, const char *value)
{
    static const char *const members[][2] = {
        {"step", "7"},
        {"seed", "1"},
        {"skipped", "2"},
        {"skipped_in_a_row", "1"},
        {"scaled_updates", "3"},
        {"beta1_power", "\"0x1p-1\""},
        {"beta2_power", "\"0x1p-2\""},
        {"loss_scale", "\"0x1p+0\""},
        {"platforms", "[{\"from_step\": 0, \"hash\": \"0123456789abcdef\"}]"},
        {"lineage", "[]"},
        {"samples", "100"},
        {"order_step", "0"},
        {"order_samples", "0"},
    };
    char text[1024] = "{";
    RtTrainState s;

    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        const bool other = strcmp(members[i][0], key) == 0;

        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%s\": %s",
                 i ? ", " : "", members[i][0], other ? value : members[i][1]);
    }
    strcat(text, "}");
    return rt_state_read(&s, text, (int64_t)strlen(text));
}

static void states_are_read(void **state)
{
    (void)state;
    assert_true(reads("", ""));
    assert_true(reads("skipped", "7") && reads("beta1_power", "\"0x1p+0\""));
    assert_true(
        reads("platforms", "[{\"from_step\": 7, \"hash\": \"0123456789abcdef\"}]"));
    assert_true(reads("lineage", "[{\"from_step\": 0, \"hash\": \"0123456789abcdef\"}, "
                                 "{\"from_step\": 7, \"hash\": \"1123456789abcdef\"}]"));
    assert_true(reads("order_step", "7") && reads("order_samples", "100"));
}

static void nonsense_is_refused(void **state)
{
    static const char *const wrong[][2] = {
        {"step", "-1"},
        {"step", "1"}, /* fewer than were skipped */
        {"seed", "-1"},
        {"order_step", "8"},
        {"order_samples", "101"},
        {"lineage", "[{\"from_step\": 8, \"hash\": \"0123456789abcdef\"}]"},
        {"lineage", "[{\"from_step\": 5, \"hash\": \"0123456789abcdef\"}, "
                    "{\"from_step\": 4, \"hash\": \"1123456789abcdef\"}]"},
        {"skipped", "8"},
        {"skipped", "9223372036854775807"},
        {"skipped_in_a_row", "3"},
        {"scaled_updates", "8"},
        {"beta1_power", "\"0x1.0000000000001p+0\""},
        {"beta1_power", "\"-0x1p-3\""},
        {"beta2_power", "\"0x1p+5\""},
        {"beta2_power", "\"inf\""},
        {"loss_scale", "\"-0x1p+0\""},
        {"platforms", "[]"},
        {"platforms", "[{\"from_step\": -1, \"hash\": \"0123456789abcdef\"}]"},
        {"platforms", "[{\"from_step\": 8, \"hash\": \"0123456789abcdef\"}]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (reads(wrong[i][0], wrong[i][1]))
            fail_msg("%s = %s was read", wrong[i][0], wrong[i][1]);
}

static void numbers_are_short(void **state)
{
    static const struct {
        double x;
        const char *text;
    } numbers[] = {
        {0.1, "0.1"},
        {3e-4, "0.0003"},
        {1e-5, "1e-05"},
        {0, "0"},
        {65536, "65536"},
        {5.5671559632755816, "5.567155963275582"},
        {1 / 3.0, "0.3333333333333333"},
        {5e-324, "4.94065645841247e-324"},
        {1e300 * 1e300, "null"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        FILE *f = fmemopen(text, sizeof text, "w");

        rt_json_number(f, numbers[i].x);
        fclose(f);
        assert_string_equal(text, numbers[i].text);
        if (numbers[i].text[0] != 'n')
            assert_true(strtod(text, NULL) == numbers[i].x);
    }
}

static bool same(const char *a, const char *b)
{
    return rt_text_same(a, strlen(a), b, strlen(b));
}

/* Earlier generators wrote 17 digits. */
static void numbers_are_compared(void **state)
{
    (void)state;
    assert_true(same("betas = { 0.90000000000000002, 0.94999999999999996 }",
                     "betas = { 0.9, 0.95 }"));
    assert_true(
        same("model.norm_eps = 1.0000000000000001e-05", "model.norm_eps = 1e-05"));
    assert_true(same("", ""));
    assert_false(same("lr = 0.1", "lr = 0.10000000000000002"));
    assert_false(same("lr = 0.1", "lr = 0.1 "));
    assert_false(same("lr = 0.1", "lr = "));
    assert_false(same("model.h1 = 2", "model.h01 = 2"));
    assert_false(same("graph = 12e4567890abcdef", "graph = 13e9567890abcdef"));
    assert_false(same("graph = 0012345678901234a", "graph = 012345678901234a"));
    assert_false(rt_text_same("a = 12", 5, "a = 12", 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_read),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(numbers_are_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
