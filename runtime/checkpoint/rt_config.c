/* SPDX-License-Identifier: MIT-0 */
/* rt_config.c: config.json of the folder that weights come from. In: --init's folder, or
 * a checkpoint's. Out: the config.json of this run's checkpoints: the trainer's, with
 * members that only the other one has (the number of positions, ids that start, end and
 * pad a text); warnings if --init's describes another model; and the ids that end a
 * sample.
 *
 * Only the first rank reads it. It is a foreign file: all of it must be JSON before a
 * value is used, and values are written again, never copied. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    MOST_BYTES = 1 << 20,    /* of the file; real ones have a few thousand */
    MOST_IDS = RT_MAX_STOPS, /* of a list */
    MOST_DEPTH = 4,          /* of nested objects whose values are compared */
    KEY_BYTES = 128,
    SHOWN_BYTES = 64 /* of a value in a message */
};

/* ---- the file -------------------------------------------------------------------- */

/* The caller frees the text, one JSON object. NULL: there is none; then error is empty,
 * unless a call failed. */
static char *load(const char *folder, const char *name, RtJson *object, bool tell,
                  char *error)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    struct stat s;
    int64_t bytes = 0;
    char *text = NULL;
    error[0] = '\0';
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path ||
        stat(path, &s) != 0)
        return NULL;
    if (S_ISREG(s.st_mode) && s.st_size <= MOST_BYTES) {
        text = rt_file_load(path, MOST_BYTES, &bytes, error);
        if (text == NULL)
            return NULL;
        *object = (RtJson){text, text + bytes, false};
        RtJson open = *object, all = *object;
        if (rt_json_open(&open, '{') && rt_json_skip(&all) && rt_json_done(&all))
            return text;
    }
    if (tell) {
        rt_say("trainer: warning: %s is ignored: it is not JSON of at most %d bytes",
               path, (int)MOST_BYTES);
    }
    free(text);
    return NULL;
}

/* The next member of an object that is valid JSON; false at its end. A key too long to be
 * one of ours is "". */
static bool next_member(RtJson *j, bool *first, char *key, RtJson *value)
{
    if (!rt_json_item(j, '}', first))
        return false;
    RtJson name = *j;
    if (!rt_json_key(&name, key, KEY_BYTES))
        key[0] = '\0';
    if (!rt_json_key(j, NULL, 0))
        return false;
    const char *at = j->at + strspn(j->at, " \t\r\n");
    const bool ok = rt_json_skip(j);
    *value = (RtJson){at, j->at, false};
    return ok;
}

static bool is_null(RtJson value)
{
    return *value.at == 'n';
}

/* ---- carried members ------------------------------------------------------------- */

static const char positions_key[] = "max_position_embeddings";
static const char *const id_keys[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
enum { N_ID_KEYS = sizeof id_keys / sizeof *id_keys };

typedef struct Ids {
    int n; /* 0: none */
    bool list;
    int64_t id[MOST_IDS];
} Ids;

typedef struct Carried {
    int64_t positions; /* 0: unknown */
    Ids ids[N_ID_KEYS];
} Carried;

static int id_key(const char *key)
{
    int i = 0;
    while (i < N_ID_KEYS && strcmp(key, id_keys[i]) != 0)
        i++;
    return i < N_ID_KEYS ? i : -1;
}

static bool read_id(RtJson *j, Ids *ids)
{
    int64_t id;
    if (ids->n == MOST_IDS || !rt_json_int(j, &id) || id < 0 || id > INT32_MAX)
        return false;
    ids->id[ids->n++] = id;
    return true;
}

static bool read_ids(RtJson j, Ids *ids)
{
    bool first = true, ok = true;
    ids->list = *j.at == '[';
    if (!ids->list)
        return read_id(&j, ids);
    rt_json_open(&j, '[');
    while (ok && rt_json_item(&j, ']', &first))
        ok = read_id(&j, ids);
    return ok && ids->n > 0;
}

static bool read_positions(RtJson j, int64_t *positions)
{
    return rt_json_int(&j, positions) && *positions > 0 && *positions <= INT64_C(1) << 31;
}

static void read_carried(RtJson j, const char *folder, Carried *v)
{
    char key[KEY_BYTES];
    bool first = true;
    RtJson value;
    *v = (Carried){0};
    rt_json_open(&j, '{');
    while (next_member(&j, &first, key, &value)) {
        const int i = id_key(key);
        if (strcmp(key, positions_key) == 0) {
            v->positions = 0; /* if a key occurs twice, the last one counts */
            if (!is_null(value) && !read_positions(value, &v->positions)) {
                v->positions = 0;
                rt_say("trainer: warning: config.json of %s: %s is ignored: it is not an"
                       " integer from 1 to 2^31",
                       folder, key);
            }
        } else if (i >= 0) {
            v->ids[i].n = 0;
            if (!is_null(value) && !read_ids(value, &v->ids[i])) {
                v->ids[i].n = 0;
                rt_say("trainer: warning: config.json of %s: %s is ignored: it is not an "
                       "id (an integer from 0 to 2^31 - 1) and no list of 1 to %d of "
                       "them",
                       folder, key, (int)MOST_IDS);
            }
        }
    }
}

static void put_ids(FILE *f, const Ids *ids)
{
    if (!ids->list) {
        fprintf(f, "%lld", (long long)ids->id[0]);
        return;
    }
    for (int i = 0; i < ids->n; i++)
        fprintf(f, "%s\n    %lld", i > 0 ? "," : "[", (long long)ids->id[i]);
    fprintf(f, "\n  ]");
}

static void put_text(FILE *f, const char *from, const char *to)
{
    fwrite(from, 1, (size_t)(to - from), f);
}

/* Ours with their values; ids that ours lacks come last. The caller frees it; NULL: out
 * of memory. */
static char *merge(const char *ours, const Carried *v)
{
    RtJson j = {ours, ours + strlen(ours), false}, value;
    bool first = true, has[N_ID_KEYS] = {false};
    const char *from = ours; /* what is not yet copied */
    char key[KEY_BYTES];
    RtText text;
    if (!rt_text_open(&text))
        return NULL;
    rt_json_open(&j, '{');
    while (next_member(&j, &first, key, &value)) {
        const int i = id_key(key);
        int64_t mine;
        put_text(text.f, from, value.at);
        from = value.at;
        if (i >= 0 && v->ids[i].n > 0) {
            put_ids(text.f, &v->ids[i]);
            has[i] = true;
            from = value.end;
        } else if (strcmp(key, positions_key) == 0 && read_positions(value, &mine) &&
                   mine < v->positions) {
            fprintf(text.f, "%lld", (long long)v->positions);
            from = value.end;
        }
        put_text(text.f, from, value.end);
        from = value.end;
    }
    for (int i = 0; i < N_ID_KEYS; i++) {
        if (v->ids[i].n > 0 && !has[i]) {
            fprintf(text.f, ",\n  \"%s\": ", id_keys[i]);
            put_ids(text.f, &v->ids[i]);
        }
    }
    fputs(from, text.f);
    return rt_text_end(&text);
}

void rt_config_carry(Rt *rt, const char *folder)
{
    RtCheckpoint *c = rt->state->checkpoint;
    RtJson theirs;
    Carried v;
    if (rt->trainer->config == NULL)
        return;
    char *text = load(folder, "config.json", &theirs, true, c->error);
    if (text == NULL)
        return;
    read_carried(theirs, folder, &v);
    free(text);
    free(c->config);
    c->config = merge(rt->trainer->config, &v);
    if (c->config == NULL)
        snprintf(c->error, sizeof c->error, "config.json: out of memory");
}

/* ---- ids that end a sample ------------------------------------------------------- */

/* eos_token_id of a file; false: it has none. */
static bool read_stops(const char *folder, const char *name, Ids *ids)
{
    char key[KEY_BYTES], error[RT_ERROR_BYTES];
    bool first = true;
    RtJson object, value;
    char *text = load(folder, name, &object, true, error);
    ids->n = 0;
    if (error[0] != '\0')
        rt_say("trainer: warning: its ids that end a text are not known: %s", error);
    if (text == NULL)
        return false;
    rt_json_open(&object, '{');
    while (next_member(&object, &first, key, &value)) {
        if (strcmp(key, "eos_token_id") != 0)
            continue;
        ids->n = 0;
        if (!is_null(value) && !read_ids(value, ids)) {
            ids->n = 0;
            rt_say("trainer: warning: %s of %s: eos_token_id is ignored: it is not an id "
                   "and "
                   "no list of 1 to %d of them",
                   name, folder, (int)MOST_IDS);
        }
    }
    free(text);
    return ids->n > 0;
}

void rt_stop_find(Rt *rt, const char *folder)
{
    RtState *st = rt->state;
    uint64_t words[1 + MOST_IDS] = {0}; /* how many, and they */
    Ids ids = {0};
    if (st->flags.stop != NULL || rt_is_of_bytes(rt->trainer))
        return;
    if (rt->rank == 0 && !read_stops(folder, "generation_config.json", &ids))
        read_stops(folder, "config.json", &ids);
    for (int i = 0; i < ids.n; i++) {
        if (ids.id[i] < rt->trainer->vocab) {
            words[1 + words[0]++] = (uint64_t)ids.id[i];
        } else {
            rt_say(
                "trainer: warning: %s: eos_token_id %lld is not one of the model's %lld "
                "ids",
                folder, (long long)ids.id[i], (long long)rt->trainer->vocab);
        }
    }
    rt_sum_words(rt, words, 1 + MOST_IDS); /* from rank 0 only */
    st->n_stops = (int)words[0];
    for (int i = 0; i < st->n_stops; i++)
        st->stop[i] = (int64_t)words[1 + i];
}

/* ---- comparison ------------------------------------------------------------------ */

typedef void Visit(void *ctx, const char *key, RtJson value);

/* Visits numbers, texts, booleans and nulls of an object and of nested ones. Rotary
 * positions have two spellings: of transformers before 5 and since. */
static void walk(RtJson j, int depth, bool in_rope, Visit *visit, void *ctx)
{
    char key[KEY_BYTES];
    bool first = true;
    RtJson value;
    rt_json_open(&j, '{');
    while (next_member(&j, &first, key, &value)) {
        if (*value.at == '{' && depth < MOST_DEPTH) {
            walk(value, depth + 1,
                 in_rope || strcmp(key, "rope_scaling") == 0 ||
                     strcmp(key, "rope_parameters") == 0,
                 visit, ctx);
        } else if (*value.at != '{' && *value.at != '[') {
            visit(ctx, in_rope && strcmp(key, "type") == 0 ? "rope_type" : key, value);
        }
    }
}

/* The values of a config.json without these keys. */
static const struct {
    const char *key, *value;
} implied[] = {{"rope_type", "\"default\""}, {"use_sliding_window", "false"}};
enum { N_IMPLIED = sizeof implied / sizeof *implied };

typedef struct Comparison {
    const char *flag, *folder;
    RtJson theirs;
    bool has[N_IMPLIED]; /* ours */
    const char *key;     /* the member being compared */
    RtJson ours;
    bool met, told; /* theirs has it; the difference was reported */
} Comparison;

/* Does the key say nothing about what the weights compute? */
static bool is_passed_over(const char *key)
{
    static const char *const keys[] = {
        positions_key,          "dtype",     "torch_dtype",
        "transformers_version", "use_cache", "initializer_range",
    };
    static const char *const ends[] = {"_dropout", "pdrop"};
    const size_t n = strlen(key);
    bool is = id_key(key) >= 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        is = is || strcmp(key, keys[i]) == 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t m = strlen(ends[i]);
        is = is || (n >= m && strcmp(key + n - m, ends[i]) == 0);
    }
    return is;
}

static bool is_number(RtJson v)
{
    return *v.at == '-' || (*v.at >= '0' && *v.at <= '9');
}

static bool is_same(RtJson a, RtJson b)
{
    char x[KEY_BYTES], y[KEY_BYTES];
    if (is_number(a) && is_number(b))
        return strtod(a.at, NULL) == strtod(b.at, NULL);
    if (*a.at == '"' && *b.at == '"') {
        return rt_json_text(&a, x, sizeof x) && rt_json_text(&b, y, sizeof y) &&
               strcmp(x, y) == 0;
    }
    return *a.at == *b.at; /* t, f or n */
}

static void show(RtJson v, char *out)
{
    char text[SHOWN_BYTES - 2];
    const int n = (int)(v.end - v.at < SHOWN_BYTES ? v.end - v.at : SHOWN_BYTES - 1);
    if (*v.at != '"')
        snprintf(out, SHOWN_BYTES, "%.*s", n, v.at);
    else if (rt_json_text(&v, text, sizeof text))
        snprintf(out, SHOWN_BYTES, "\"%s\"", text);
    else
        snprintf(out, SHOWN_BYTES, "another text");
}

static void compare_theirs(void *ctx, const char *key, RtJson value)
{
    Comparison *c = ctx;
    char theirs[SHOWN_BYTES], ours[SHOWN_BYTES];
    if (strcmp(key, c->key) != 0)
        return;
    c->met = true;
    /* null means transformers' default, except for a window, where it means none */
    if (c->told || is_same(c->ours, value) ||
        ((is_null(c->ours) || is_null(value)) && strcmp(key, "sliding_window") != 0))
        return;
    c->told = true;
    show(value, theirs);
    show(c->ours, ours);
    rt_say("trainer: warning: %s: config.json of %s says %s %s, this model's is %s",
           c->flag, c->folder, key, theirs, ours);
}

static void compare_ours(void *ctx, const char *key, RtJson value)
{
    Comparison *c = ctx;
    if (is_passed_over(key))
        return;
    c->key = key;
    c->ours = value;
    c->met = c->told = false;
    walk(c->theirs, 1, false, compare_theirs, c);
    for (int i = 0; i < N_IMPLIED; i++) {
        if (strcmp(key, implied[i].key) == 0) {
            const char *text = implied[i].value;
            c->has[i] = true;
            if (!c->met)
                compare_theirs(c, key, (RtJson){text, text + strlen(text), false});
        }
    }
}

void rt_config_compare(const Rt *rt, const char *flag, const char *folder)
{
    const char *config = rt->trainer->config;
    char error[RT_ERROR_BYTES];
    Comparison c = {.flag = flag, .folder = folder};
    if (rt->rank != 0 || config == NULL)
        return;
    /* with checkpoints, it was read and reported before */
    char *text =
        load(folder, "config.json", &c.theirs, rt->state->checkpoint == NULL, error);
    if (error[0] != '\0')
        rt_say("trainer: warning: %s: config.json is not compared: %s", flag, error);
    if (text == NULL)
        return;
    walk((RtJson){config, config + strlen(config), false}, 1, false, compare_ours, &c);
    for (int i = 0; i < N_IMPLIED; i++) {
        const char *value = implied[i].value;
        if (!c.has[i]) {
            compare_ours(&c, implied[i].key,
                         (RtJson){value, value + strlen(value), false});
        }
    }
    free(text);
}
