/* SPDX-License-Identifier: Apache-2.0 */
/* import_yaml.c: a small YAML file as a list of entries, from libyaml's events.
 *
 * In: a path. Out: entries in order, each with its place; or messages. The file is
 * foreign, so its size, depth and the length of values are bounded. Anchors, aliases,
 * tags and several documents are refused, so nothing in it can expand. */
#include "import/import_yaml.h"

#include "describe/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef FSDPGEN_YAML
#include <yaml.h>

enum { MAX_YAML_BYTES = 1 << 20, MAX_VALUE_BYTES = 4096, MAX_ENTRIES = 4096 };

typedef struct Reader {
    Gen *g;
    const char *path;
    yaml_parser_t parser;
    yaml_event_t event;
    ImportEntries *entries;
    bool failed;
} Reader;

static Pos pos_at(const Reader *r, yaml_mark_t m, size_t bytes)
{
    return (Pos){.file = r->path,
                 .line = (int)m.line + 1,
                 .col = (int)m.column + 1,
                 .len = bytes > 0 && bytes < 200 ? (int)bytes : 1};
}

static bool refuse(Reader *r, const char *help, const char *what)
{
    if (!r->failed)
        diag_add(r->g, DIAG_ERROR, pos_at(r, r->event.start_mark, 1), help, "%s", what);
    r->failed = true;
    return false;
}

/* libyaml says what it expected; for bytes that are not text it has only an offset. */
static bool refuse_syntax(Reader *r)
{
    const yaml_parser_t *p = &r->parser;
    const char *what = p->problem ? p->problem : "this is not YAML";
    if (!r->failed && p->error == YAML_READER_ERROR) {
        diag_add(r->g, DIAG_ERROR, (Pos){.file = r->path},
                 "give the file that `accelerate config` wrote", "not a text file: %s",
                 what);
    } else if (!r->failed) {
        diag_add(r->g, DIAG_ERROR, pos_at(r, p->problem_mark, 1), NULL, "YAML: %s", what);
    }
    r->failed = true;
    return false;
}

/* The next event; refuses anchors, aliases and tags. */
static bool next(Reader *r)
{
    const yaml_event_t *e = &r->event;
    const yaml_char_t *anchor = NULL, *tag = NULL;
    yaml_event_delete(&r->event);
    memset(&r->event, 0, sizeof r->event);
    if (!yaml_parser_parse(&r->parser, &r->event))
        return refuse_syntax(r);
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        return refuse(r, "write the value out", "an alias of another value");
    case YAML_SCALAR_EVENT:
        anchor = e->data.scalar.anchor;
        tag = e->data.scalar.tag;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = e->data.sequence_start.anchor;
        tag = e->data.sequence_start.tag;
        break;
    case YAML_MAPPING_START_EVENT:
        anchor = e->data.mapping_start.anchor;
        tag = e->data.mapping_start.tag;
        break;
    default:
        break;
    }
    if (anchor)
        return refuse(r, "write the value out where it is used", "an anchor");
    return tag ? refuse(r, "write the plain value", "a tag") : true;
}

/* The event's scalar; NULL after a message. */
static const char *scalar(Reader *r)
{
    const char *s = (const char *)r->event.data.scalar.value;
    size_t n = r->event.data.scalar.length;
    if (n > MAX_VALUE_BYTES) {
        refuse(r, NULL, "a value of more than 4096 bytes");
        return NULL;
    }
    if (strlen(s) != n) {
        refuse(r, NULL, "a value with a NUL byte");
        return NULL;
    }
    return gen_strndup(r->g, s, n);
}

static bool plain_null(const yaml_event_t *e)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
            !strcmp((const char *)e->data.scalar.value, words[i]))
            return true;
    return false;
}

static bool read_list(Reader *r, int at)
{
    Text t = {.g = r->g};
    for (;;) {
        if (!next(r))
            return false;
        if (r->event.type == YAML_SEQUENCE_END_EVENT)
            break;
        if (r->event.type != YAML_SCALAR_EVENT)
            return refuse(r, NULL, "a list holds values only");
        const char *s = scalar(r);
        if (!s)
            return false;
        text_printf(&t, "%s%s", t.len ? "," : "", s);
        if (++r->entries->items[at].items > MAX_ENTRIES)
            return refuse(r, NULL, "a list of more than 4096 values");
    }
    r->entries->items[at].list = true;
    r->entries->items[at].value = t.len ? t.s : "";
    return true;
}

static bool read_mapping(Reader *r, const char *section, int *items);

/* Reads the value of entry `at`, after its key. */
static bool read_value(Reader *r, int at)
{
    if (!next(r))
        return false;
    ImportEntry *e = &r->entries->items[at];
    size_t bytes = r->event.end_mark.index - r->event.start_mark.index;
    e->value_pos = pos_at(r, r->event.start_mark, bytes);
    e->value = "";
    if (r->event.type == YAML_SEQUENCE_START_EVENT)
        return read_list(r, at);
    if (r->event.type == YAML_MAPPING_START_EVENT) {
        int items = 0;
        if (*e->section)
            return refuse(r, NULL, "a section inside a section");
        e->mapping = true;
        bool fine = read_mapping(r, e->key, &items);
        r->entries->items[at].items = items; /* entries may have moved */
        return fine;
    }
    const char *s = scalar(r);
    if (s && !plain_null(&r->event))
        e->value = s;
    return s != NULL;
}

static bool read_mapping(Reader *r, const char *section, int *items)
{
    for (;;) {
        if (!next(r))
            return false;
        if (r->event.type == YAML_MAPPING_END_EVENT)
            return true;
        if (r->event.type != YAML_SCALAR_EVENT)
            return refuse(r, NULL, "a key must be a word");
        const char *key = scalar(r);
        if (!key)
            return false;
        for (int i = 0; i < r->entries->count; i++) {
            const ImportEntry *e = &r->entries->items[i];
            if (!strcmp(e->section, section) && !strcmp(e->key, key)) {
                return refuse(r, gen_printf(r->g, "line %d has it too", e->pos.line),
                              gen_printf(r->g, "%s is given twice", key));
            }
        }
        if (r->entries->count >= MAX_ENTRIES)
            return refuse(r, NULL, "more than 4096 keys");
        ImportEntry *e = gen_push(r->g, r->entries);
        e->section = section;
        e->key = key;
        e->pos = pos_at(r, r->event.start_mark, strlen(key));
        ++*items;
        if (!read_value(r, r->entries->count - 1))
            return false;
    }
}

static bool read_stream(Reader *r)
{
    int items = 0;
    if (!next(r) || !next(r)) /* start of stream and document */
        return false;
    if (r->event.type == YAML_STREAM_END_EVENT)
        return refuse(r, NULL, "the file is empty");
    if (!next(r))
        return false;
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        return refuse(r, "give the file that `accelerate config` wrote",
                      "the file is not a list of `key: value`");
    }
    if (!read_mapping(r, "", &items) || !next(r) || !next(r))
        return false;
    return r->event.type == YAML_STREAM_END_EVENT
               ? true
               : refuse(r, NULL, "a second document in the file");
}

bool import_yaml(Gen *g, const char *path, ImportEntries *entries)
{
    Reader r = {.g = g, .path = path, .entries = entries};
    const char *text;
    size_t bytes;
    int e = read_whole_file(path, &text, &bytes);
    if (e || bytes > MAX_YAML_BYTES) {
        diag_add(g, DIAG_ERROR, (Pos){.file = path}, NULL, "cannot read it: %s",
                 !e || e == EFBIG ? "larger than 1 MiB" : file_problem(e));
        return false;
    }
    diag_source(g, path, text, bytes);
    if (!yaml_parser_initialize(&r.parser))
        gen_out_of_memory(sizeof r.parser);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    bool fine = read_stream(&r);
    yaml_event_delete(&r.event);
    yaml_parser_delete(&r.parser);
    return fine;
}
#else

bool import_yaml(Gen *g, const char *path, ImportEntries *entries)
{
    (void)path;
    (void)entries;
    g->base.exit_code = EXIT_TOOL;
    diag_add(
        g, DIAG_ERROR, (Pos){0},
        "install libyaml (Debian: libyaml-dev) and build fsdpgen again",
        "import --accelerate reads YAML, and this fsdpgen was built without libyaml");
    return false;
}
#endif
