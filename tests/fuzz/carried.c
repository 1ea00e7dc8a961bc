/* SPDX-License-Identifier: Apache-2.0 */
/* carried SEED FIRST COUNT FOLDER: the runtime's reader of a stranger's config.json, from
 * which positions and ids go into a checkpoint's, against texts that were changed at
 * random. What the checkpoint gets must be JSON again, with our model in it, and values
 * of theirs only where they are positions or ids; ids that end a text are the model's;
 * nothing that is told may reach a terminal with control characters. Built with
 * AddressSanitizer and UndefinedBehaviorSanitizer. */
#define _GNU_SOURCE
#include "../../runtime/job/rt_file.c"
#include "../../runtime/job/rt_json.c"
#include "../../runtime/job/rt_say.c"
#include "../../runtime/job/rt_text.c"
#include "../../runtime/checkpoint/rt_config.c"

#include "batch.h"

/* One rank. */
void rt_sum_words(Rt *rt, uint64_t *words, int n)
{
    (void)rt, (void)words, (void)n;
}

static const char ours[] =
    "{\n  \"model_type\": \"llama\",\n  \"head_dim\": 14,\n"
    "  \"max_position_embeddings\": 19,\n  \"rms_norm_eps\": 1e-05,\n"
    "  \"rope_theta\": 10000.0,\n  \"bos_token_id\": null,\n  \"eos_token_id\": 7,\n"
    "  \"rope_scaling\": {\n    \"rope_type\": \"llama3\",\n    \"factor\": 8.0\n  },\n"
    "  \"sliding_window\": 3\n}\n";
static const char theirs[] =
    "{\"model_type\":\"llama\",\"head_dim\":14,\"max_position_embeddings\":131072,"
    "\"hidden_act\":\"si\\u006cu\",\"rms_norm_eps\":0.00001,\"rope_parameters\":"
    "{\"type\":\"llama3\",\"factor\":8,\"rope_theta\":1e4},\"bos_token_id\":1,"
    "\"eos_token_id\":[1,2,3],\"pad_token_id\":null,\"sliding_window\":null,"
    "\"x\":[{\"a\":{\"b\":{}}}]}";
static const char *const words[] = {"eos_token_id",
                                    "pad_token_id",
                                    "max_position_embeddings",
                                    "rope_type",
                                    "-1",
                                    "2147483648",
                                    "1e999",
                                    "null",
                                    "[[",
                                    "{\"a\":",
                                    "\\ud800",
                                    "\\u001b[31m",
                                    "99999999999999999999",
                                    NULL};

/* What is wrong with what a checkpoint gets, or NULL. */
static const char *odd_value(const char *config)
{
    RtJson j = {config, config + strlen(config), false}, value;
    char key[KEY_BYTES];
    bool first = true;
    int64_t positions = 0;
    RtJson all = j;
    Ids ids;

    if (!rt_json_skip(&all) || !rt_json_done(&all))
        return "what is written is no JSON";
    rt_json_open(&j, '{');
    while (next_member(&j, &first, key, &value)) {
        ids.n = 0;
        if (id_key(key) >= 0 && !is_null(value) && !read_ids(value, &ids))
            return "an id is none";
        if (!strcmp(key, positions_key) && !read_positions(value, &positions))
            return "positions are none";
    }
    return positions < 19 ? "there are fewer positions than ours" : NULL;
}

static const char *read_told(void)
{
    static char text[65536];
    const int fd = fileno(stderr);
    ssize_t n;

    fflush(stderr);
    n = pread(fd, text, sizeof text, 0);
    if (ftruncate(fd, 0) != 0 || fseek(stderr, 0, SEEK_SET) != 0)
        return "stderr cannot be read";
    for (ssize_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' && text[i] != '\n')
            return "a control character is told";
    return NULL;
}

static const char *run_case(Random *r, int *taken)
{
    static RtCheckpoint c;
    static RtState st = {.checkpoint = &c};
    static RtTrainer t = {.config = ours, .vocab = 300};
    static Rt rt = {.trainer = &t, .state = &st};
    Str s = {0};
    const char *problem = NULL;
    FILE *f = fopen("config.json", "we");

    str_add(&s, theirs, sizeof theirs - 1);
    for (uint32_t i = random_below(r, 4); i > 0 && s.n > 0; i--)
        mutate_json(r, &s, words);
    if (!f || fwrite(s.s, 1, s.n, f) != s.n || fclose(f) != 0)
        return "config.json cannot be written";
    rt_config_carry(&rt, ".");
    rt_config_compare(&rt, "--init", ".");
    rt_stop_find(&rt, ".");
    for (int i = 0; i < st.n_stops; i++)
        if (st.stop[i] < 0 || st.stop[i] >= t.vocab)
            problem = "an id that ends a text is none of the model's";
    if (c.error[0] != '\0') {
        problem = "a call failed";
    } else if (c.config) {
        ++*taken;
        problem = problem ? problem : odd_value(c.config);
    }
    free(c.config);
    c.config = NULL;
    if (!problem)
        problem = read_told();
    if (problem)
        printf("     | %.*s\n", (int)s.n, s.s);
    free(s.s);
    return problem;
}

int main(int argc, char **argv)
{
    char folder[64];

    snprintf(folder, sizeof folder, "carried.%d", (int)getpid());
    if (argc != 5 || chdir(argv[4]) != 0 || mkdir(folder, 0700) != 0 ||
        chdir(folder) != 0 || !freopen("told", "w+e", stderr)) {
        printf("usage: carried SEED FIRST COUNT FOLDER\n");
        return 2;
    }
    const int status = run_batches(argv, run_case);
    remove("config.json");
    remove("told");
    return chdir("..") != 0 || rmdir(folder) != 0 || status;
}
