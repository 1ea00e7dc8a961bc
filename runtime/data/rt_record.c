/* SPDX-License-Identifier: MIT-0 */
/* rt_record.c: what a checkpoint records of its data. In: the files and their digests, or
 * the record of a checkpoint. Out: such a record; whether both have the same content.
 *
 * The content decides, file by file in the order in which samples come from them; names
 * are for messages. A save that a signal requested before all was hashed has not verified
 * its data: it records the digest of the checkpoint before it, if there is one, and which
 * file was read. A run that resumes from it compares the content with that digest, and
 * warns if the file is not that one: its content may have been another. */
#include "job/rt_file.h"
#include "data/rt_digest.h"

#include <stdlib.h>
#include <string.h>

static const char *const keys[RT_PARTS] = {"digest", "mask", "index"};
static const char *const byte_keys[RT_PARTS] = {"bytes", "mask_bytes", "index_bytes"};
static const char *const unverified_keys[RT_PARTS] = {"unverified", "mask_unverified",
                                                      "index_unverified"};

/* The parts of --data come first. */
static int first_part(const RtState *st, const char *flag)
{
    return strcmp(flag, "data") == 0 ? 0 : RT_PARTS * rt_tokens_files(st->tokens);
}

static const RtTokens *tokens_of(const RtState *st, const char *flag)
{
    return strcmp(flag, "data") == 0 ? st->tokens : st->held_out;
}

/* ---- for people ------------------------------------------------------------------ */

/* A digest of all files together, in order, how they are read and with which weights:
 * together with the seed, this decides the order of samples. */
static uint64_t digest_of(const Rt *rt, const char *flag, int64_t *bytes)
{
    const RtTokens *tokens = tokens_of(rt->state, flag);
    const RtDigests *d = rt->state->digests;
    uint64_t hash = rt_tokens_mix(tokens);
    *bytes = 0;
    for (int i = 0; i < rt_tokens_files(tokens); i++) {
        const RtTokenFile *f = rt_tokens_file(tokens, i);
        const int64_t read_as[] = {f->tokens, f->width, f->is_signed};
        hash = rt_hash64(read_as, sizeof read_as, hash + 1);
        for (int k = 0; k < RT_PARTS; k++) {
            const int part = first_part(rt->state, flag) + RT_PARTS * i + k;
            const uint64_t sum = atomic_load(&d->table->entry[part].sum);
            hash = rt_hash64(&sum, sizeof sum, hash + 1);
            *bytes += d->part[part].map->bytes;
        }
    }
    return hash;
}

static void print_digest(const Rt *rt, const char *flag, FILE *out)
{
    const int files = rt_tokens_files(tokens_of(rt->state, flag));
    int64_t bytes;
    const uint64_t digest = digest_of(rt, flag, &bytes);
    fprintf(out, "%s %016llx (%d file%s, %lld bytes)\n", flag, (unsigned long long)digest,
            files, files == 1 ? "" : "s", (long long)bytes);
}

void rt_digest_print(const Rt *rt, FILE *out)
{
    const RtDigests *d = rt->state->digests;
    if (d->pending) {
        fprintf(out,
                "data: %.1f GiB are hashed beside training, by the time that the first "
                "checkpoint is written\n",
                (double)d->table->bytes / 1073741824.0);
        return;
    }
    print_digest(rt, "data", out);
    if (rt->state->held_out != NULL)
        print_digest(rt, "eval", out);
}

/* ---- writing --------------------------------------------------------------------- */

/* The last part of a path, without characters that JSON or a terminal might
 * misinterpret. */
static void plain_name(char *out, const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    size_t n = 0;
    for (; n + 1 < RT_RECORD_NAME_BYTES && name[n] != '\0'; n++) {
        const char c = name[n];
        out[n] = c >= ' ' && c <= '~' && c != '"' && c != '\\' ? c : '?';
    }
    out[n] = '\0';
}

/* Of a file whose content is not verified: the same number means the same content. It
 * leaves out the device, which has another number on each machine. */
static uint64_t number_of(const RtIdentity *is)
{
    const uint64_t words[] = {is->inode, (uint64_t)is->bytes, (uint64_t)is->modified_ns,
                              (uint64_t)is->changed_ns};
    return rt_hash64(words, sizeof words, 6) | 1;
}

/* What to record of a part: its digest, or, until that is known and compared, the one of
 * the checkpoint before. */
static void find_part(const RtDigests *d, const char *flag, int file, int k, RtRecord *r)
{
    const int part = first_part(d->rt->state, flag) + RT_PARTS * file + k;
    const RtRecords *all = strcmp(flag, "data") == 0 ? &d->was_data : &d->was_eval;
    const RtRecord *was = file < all->n ? &all->file[file] : NULL;
    const bool old = was != NULL && was->known[k];
    const bool hashed = rt_digest_known(d, part) &&
                        !(d->save_pending && old &&
                          atomic_load(&d->table->entry[part].sum) != was->digest[k]);
    r->known[k] = hashed || old;
    if (r->known[k])
        r->digest[k] = hashed ? atomic_load(&d->table->entry[part].sum) : was->digest[k];
    if (!hashed && was != NULL && was->unverified[k] != 0)
        r->unverified[k] = was->unverified[k]; /* nor was it before */
    else if (!hashed || atomic_load(&d->part[part].unsure))
        r->unverified[k] = number_of(&d->part[part].now);
}

static void write_hash(FILE *f, const char *key, uint64_t hash)
{
    fprintf(f, ", \"%s\": \"%016llx\"", key, (unsigned long long)hash);
}

static void write_files(const Rt *rt, const char *flag, FILE *f)
{
    const RtTokens *tokens = tokens_of(rt->state, flag);
    const RtDigests *d = rt->state->digests;
    fprintf(f, ",\n  \"%s\": [", flag);
    for (int i = 0; tokens != NULL && i < rt_tokens_files(tokens); i++) {
        const RtTokenFile *file = rt_tokens_file(tokens, i);
        char name[RT_RECORD_NAME_BYTES];
        plain_name(name, file->name);
        fprintf(f, "%s\n    {\"name\": \"%s\", \"tokens\": %lld, \"width\": %d",
                i > 0 ? "," : "", name, (long long)file->tokens, file->width);
        for (int k = 0; k < RT_PARTS; k++) {
            const RtMapped *map =
                d->part[first_part(rt->state, flag) + RT_PARTS * i + k].map;
            RtRecord r = {.tokens = 0};
            if (map->at == NULL)
                continue;
            find_part(d, flag, i, k, &r);
            fprintf(f, ", \"%s\": %lld", byte_keys[k], (long long)map->bytes);
            if (r.known[k])
                write_hash(f, keys[k], r.digest[k]);
            if (r.unverified[k] != 0)
                write_hash(f, unverified_keys[k], r.unverified[k]);
        }
        fprintf(f, "}");
    }
    fprintf(f, "]");
}

void rt_record_write(const Rt *rt, FILE *f)
{
    write_files(rt, "data", f);
    write_files(rt, "eval", f);
}

/* ---- reading --------------------------------------------------------------------- */

static bool read_member(RtJson *j, const char *key, RtRecord *r)
{
    for (int k = 0; k < RT_PARTS; k++) {
        if (strcmp(key, byte_keys[k]) == 0)
            return rt_json_int(j, &r->bytes[k]) && r->bytes[k] >= 0;
        if (strcmp(key, keys[k]) == 0) {
            r->known[k] = true;
            return rt_json_hash(j, &r->digest[k]);
        }
        if (strcmp(key, unverified_keys[k]) == 0)
            return rt_json_hash(j, &r->unverified[k]);
    }
    return strcmp(key, "name") == 0     ? rt_json_text(j, r->name, sizeof r->name)
           : strcmp(key, "tokens") == 0 ? rt_json_int(j, &r->tokens)
           : strcmp(key, "width") == 0  ? rt_json_int(j, &r->width)
                                        : rt_json_skip(j);
}

bool rt_record_read(RtJson *j, RtRecords *out)
{
    char key[32];
    bool first = true, ok = rt_json_open(j, '[');
    while (ok && rt_json_item(j, ']', &first)) {
        RtRecord *more = realloc(out->file, (size_t)(out->n + 1) * sizeof *more);
        bool one = true;
        ok = more != NULL && rt_json_open(j, '{');
        if (more == NULL)
            break;
        out->file = more;
        RtRecord *r = &out->file[out->n++];
        *r = (RtRecord){.tokens = 0};
        while (ok && rt_json_item(j, '}', &one))
            ok = rt_json_key(j, key, sizeof key) && read_member(j, key, r);
    }
    return ok && !j->failed;
}

void rt_record_free(RtRecords *r)
{
    free(r->file);
    *r = (RtRecords){NULL, 0};
}

void rt_record_warn_eval(const char *error, const char *folder)
{
    rt_say("trainer: warning: the held-out data differ from those of %s: %s; do not "
           "compare its losses with those before",
           folder, error);
}

/* ---- comparing ------------------------------------------------------------------- */

static const char *const of_part[RT_PARTS] = {"", "'s mask", "'s index"};

static bool same_part(const RtDigests *d, int part, const RtRecord *was, int k,
                      bool content)
{
    return d->part[part].map->bytes == was->bytes[k] &&
           (!content || was->bytes[k] == 0 || !was->known[k] ||
            !rt_digest_known(d, part) ||
            atomic_load(&d->table->entry[part].sum) == was->digest[k]);
}

static bool same_file(const RtDigests *d, int first, const RtRecord *was)
{
    for (int k = 0; k < RT_PARTS; k++)
        if (!same_part(d, first + k, was, k, true))
            return false;
    return true;
}

/* Is its content not that of its place in the list, but of another? */
static bool is_elsewhere(const RtDigests *d, int first, const RtRecords *was, int place)
{
    if (!rt_digest_known(d, first) || same_file(d, first, &was->file[place]))
        return false;
    for (int i = 0; i < was->n; i++)
        if (was->file[i].known[RT_PART_TOKENS] && same_file(d, first, &was->file[i]))
            return true;
    return false;
}

/* False: error says what differs. */
static bool is_same(const RtDigests *d, int first, const RtTokenFile *f,
                    const RtRecord *was, bool content, char *error)
{
    for (int k = 0; k < RT_PARTS; k++) {
        const int64_t bytes = d->part[first + k].map->bytes;
        if (bytes != was->bytes[k]) {
            return rt_tokens_wrong(error, "%s%s has %lld bytes, and %s%s had %lld",
                                   f->name, of_part[k], (long long)bytes, was->name,
                                   of_part[k], (long long)was->bytes[k]);
        }
        if (!same_part(d, first + k, was, k, content)) {
            return rt_tokens_wrong(
                error, "the content of %s%s has changed (its size has not: %lld bytes)",
                f->name, of_part[k], (long long)bytes);
        }
    }
    return (f->tokens == was->tokens && f->width == was->width) ||
           rt_tokens_wrong(error,
                           "%s is read as %lld tokens of %d bytes, and %s was as %lld of "
                           "%lld",
                           f->name, (long long)f->tokens, f->width, was->name,
                           (long long)was->tokens, (long long)was->width);
}

bool rt_record_differs(const Rt *rt, const char *flag, const RtRecords *was, bool content,
                       char *error)
{
    const RtTokens *tokens = tokens_of(rt->state, flag);
    const RtDigests *d = rt->state->digests;
    const int n = tokens != NULL ? rt_tokens_files(tokens) : 0;
    if (was->n == 0 || n == 0)
        return false;
    if (n != was->n) {
        rt_tokens_wrong(error, "there are %d files, and there were %d", n, was->n);
        return true;
    }
    for (int i = 0; i < n; i++) {
        const int first = first_part(rt->state, flag) + RT_PARTS * i;
        const RtTokenFile *f = rt_tokens_file(tokens, i);
        if (is_same(d, first, f, &was->file[i], content, error))
            continue;
        if (content && is_elsewhere(d, first, was, i)) {
            rt_tokens_wrong(error,
                            "the files come in another order: %s has the place of %s",
                            f->name, was->file[i].name);
        }
        return true;
    }
    return false;
}

const char *rt_record_doubts(const Rt *rt, const char *flag, const RtRecords *was)
{
    const RtTokens *tokens = tokens_of(rt->state, flag);
    const RtDigests *d = rt->state->digests;
    const int n = tokens != NULL ? rt_tokens_files(tokens) : 0;
    for (int i = 0; i < n && i < was->n; i++) {
        for (int k = 0; k < RT_PARTS; k++) {
            const RtDataPart *p =
                &d->part[first_part(rt->state, flag) + RT_PARTS * i + k];
            const uint64_t read = was->file[i].unverified[k];
            if (read != 0 && read != number_of(&p->map->is))
                return p->map->name;
        }
    }
    return NULL;
}

bool rt_record_lacks(const RtRecords *was)
{
    bool lacks = was->n == 0;
    for (int i = 0; i < was->n; i++) {
        for (int k = 0; k < RT_PARTS; k++) {
            const RtRecord *r = &was->file[i];
            lacks = lacks || (r->bytes[k] > 0 && !r->known[k] && r->unverified[k] == 0);
        }
    }
    return lacks;
}
