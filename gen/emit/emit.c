/* SPDX-License-Identifier: Apache-2.0 */
/* emit.c: the last pass.
 *
 * In: the finished IR. Out: g->base.files, the files of one trainer, byte-identical on
 * every machine. The IR becomes Lua tables (emit_tables.c, emit_kernels.c, emit_math.c,
 * emit_step.c), templates/trainer/ turns those into text, and the runtime, the
 * description and the plan are added unchanged. The manifest comes last with the hashes
 * of all other files, by which files.c recognises our files in the next run. */
#include "emit/emit.h"
#include "base/names.h"
#include "base/sandbox.h"
#include "ops/ops.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Lua tables ------------------------------------------------------------------ */

void emit_int(lua_State *L, const char *key, int64_t v)
{
    lua_pushinteger(L, (lua_Integer)v);
    lua_setfield(L, -2, key);
}

void emit_num(lua_State *L, const char *key, double v)
{
    lua_pushnumber(L, v);
    lua_setfield(L, -2, key);
}

void emit_bool(lua_State *L, const char *key, bool v)
{
    lua_pushboolean(L, v);
    lua_setfield(L, -2, key);
}

void emit_str(lua_State *L, const char *key, const char *v)
{
    if (!v)
        return;
    lua_pushstring(L, v);
    lua_setfield(L, -2, key);
}

/* ---- files ----------------------------------------------------------------------- */

void emit_add_file(Gen *g, const char *path, const char *data, size_t bytes)
{
    OutFile *f;

    for (int i = 0; i < g->base.files.count; i++)
        gen_require(strcmp(g->base.files.items[i].path, path), "%s is emitted twice",
                    path);
    f = gen_push(g, &g->base.files);
    f->path = path;
    f->data = data;
    f->bytes = bytes;
}

const Embedded *emit_embedded(const char *path)
{
    const Embedded *file = embed_find(path);

    gen_require(file, "%s is not embedded", path);
    return file;
}

/* ---- rendering ------------------------------------------------------------------- */

/* load(text, name) of template.lua: a chunk, or nil and a message. */
static int load_chunk(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);

    if (sandbox_load(L, text, n, luaL_checkstring(L, 2)) == LUA_OK)
        return 1;
    lua_pushnil(L);
    lua_insert(L, -2);
    return 2;
}

/* enter(chunk, env): its globals are env's from here on. Functions that it made before
 * keep theirs, since the upvalue is another: that of a chunk of no text. */
static int enter_chunk(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TFUNCTION);
    luaL_checktype(L, 2, LUA_TTABLE);
    if (luaL_loadstring(L, "") != LUA_OK)
        return lua_error(L);
    lua_pushvalue(L, 2);
    lua_setupvalue(L, -2, 1);
    lua_upvaluejoin(L, 1, 1, -1, 1);
    return 0;
}

static void run_lua_file(Emit *e, const char *path)
{
    const Embedded *file = emit_embedded(path);

    if (sandbox_run(e->L, (const char *)file->data, file->bytes,
                    gen_printf(e->g, "@%s", path), LUA_NOREF, 1))
        sandbox_fault(e->L, path);
}

void emit_open_engine(Emit *e)
{
    run_lua_file(e, "gen/lua/template.lua");
    lua_pushcfunction(e->L, load_chunk);
    lua_setfield(e->L, -2, "load");
    lua_pushcfunction(e->L, enter_chunk);
    lua_setfield(e->L, -2, "enter");
    run_lua_file(e, "gen/lua/template_span.lua");
    lua_setfield(e->L, -2, "span");
    run_lua_file(e, "gen/lua/template_cuda.lua");
    lua_setfield(e->L, -2, "cuda");
    run_lua_file(e, "gen/lua/template_capped.lua");
    lua_setfield(e->L, -2, "capped");
    e->template_ref = luaL_ref(e->L, LUA_REGISTRYINDEX);
}

/* A message handler: adds the template's line to messages of Lua that lack it. Upvalue:
 * the template's name. */
static int add_line(lua_State *L)
{
    const char *file = lua_tostring(L, lua_upvalueindex(1));
    const char *message = lua_tostring(L, 1);
    lua_Debug frame;

    lua_settop(L, 1);
    if (!message ||
        (!strncmp(message, file, strlen(file)) && message[strlen(file)] == ':'))
        return 1;
    for (int level = 0; lua_getstack(L, level, &frame); level++) {
        lua_getinfo(L, "Sl", &frame);
        if (frame.source[0] == '@' && !strcmp(frame.source + 1, file) &&
            frame.currentline > 0) {
            lua_pushfstring(L, "%s:%d: %s", file, frame.currentline, message);
            return 1;
        }
    }
    return 1;
}

/* "templates/ops/x/cpu.c:12: text" becomes a message at that place. */
static void report_template_error(Emit *e, const char *file, const char *text,
                                  size_t bytes, const char *message)
{
    const char *s = message, *end;
    long line = 0;

    if (!strncmp(s, file, strlen(file)) && s[strlen(file)] == ':') {
        line = strtol(s + strlen(file) + 1, (char **)&end, 10);
        if (line > 0 && *end == ':')
            s = end + 1 + (end[1] == ' ');
        else
            line = 0;
    }
    diag_source(e->g, file, text, bytes);
    diag_add(e->g, DIAG_ERROR, (Pos){file, (int)line, 1, 0},
             "templates are explained at the top of gen/lua/template.lua", "template: %s",
             s);
}

/* Where a byte stands in a template; the template's first line if an expression made
 * it. */
static Pos place_of(const char *file, const char *text, size_t bytes, unsigned char c)
{
    const char *at = memchr(text, c, bytes);
    Pos pos = {file, 1, 1, 1};

    for (const char *p = text; at && p < at; p++) {
        pos.col++;
        if (*p == '\n') {
            pos.line++;
            pos.col = 1;
        }
    }
    return pos;
}

/* Emitted files are plain ASCII without "${": anything else is a mistake in a
 * template. */
static bool is_plain(Emit *e, const char *file, const char *text, size_t bytes,
                     const char *out, size_t n)
{
    int line = 1;

    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)out[i];

        if (c == '\n')
            line++;
        if ((c < 32 && c != '\n' && c != '\t') || c > 126) {
            diag_source(e->g, file, text, bytes);
            diag_add(e->g, DIAG_ERROR, place_of(file, text, bytes, c),
                     "emitted files are printable ASCII, tabs and newlines",
                     "template: prints the byte 0x%02x in line %d of its output", c,
                     line);
            return false;
        }
        if (c == '$' && i + 1 < n && out[i + 1] == '{') {
            diag_source(e->g, file, text, bytes);
            diag_add(e->g, DIAG_ERROR, (Pos){file, 1, 1, 0},
                     "${expression} is replaced; no emitted file may have these two",
                     "template: prints ${ in line %d of its output", line);
            return false;
        }
    }
    return true;
}

const char *emit_render(Emit *e, const char *text, size_t bytes, const char *file,
                        bool keep_prepared, size_t *out_bytes)
{
    lua_State *L = e->L;
    const char *out = NULL;
    int handler, status;
    size_t n;

    lua_rawgeti(L, LUA_REGISTRYINDEX, e->template_ref);
    lua_getfield(L, -1, "render");
    lua_remove(L, -2);
    lua_insert(L, -2); /* render, env */
    lua_pushlstring(L, text, bytes);
    lua_insert(L, -2);
    lua_pushstring(L, file);
    lua_insert(L, -2); /* render, text, file, env */
    lua_pushstring(L, file);
    lua_pushcclosure(L, add_line, 1);
    handler = lua_gettop(L) - 4;
    lua_insert(L, handler);
    status = sandbox_status(L, lua_pcall(L, 3, 2, handler));
    lua_remove(L, handler);
    if (status != LUA_OK) {
        report_template_error(e, file, text, bytes, lua_tostring(L, -1));
        lua_pop(L, 1);
        return NULL;
    }
    out = lua_tolstring(L, -2, &n);
    gen_require(out, "%s: rendered no text", file);
    out = gen_strndup(e->g, out, n);
    *out_bytes = n;
    lua_remove(L, -2);
    if (!is_plain(e, file, text, bytes, out, n)) {
        lua_pop(L, 1);
        return NULL;
    }
    if (!keep_prepared)
        lua_pop(L, 1);
    return out;
}

/* Dies on text that no emitted file of ours may contain, whatever the templates say. */
static void verify_text(const char *path, const char *text, size_t n)
{
    int line = 1;

    gen_require(n > 0 && text[n - 1] == '\n', "%s does not end in a newline", path);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];

        gen_require((c >= 32 && c < 127) || c == '\n' || c == '\t', "%s:%d: byte %d",
                    path, line, c);
        gen_require(c != '$' || i + 1 == n || text[i + 1] != '{',
                    "%s:%d: ${ is left over", path, line);
        if (c == '\n') {
            gen_require(i == 0 || (text[i - 1] != ' ' && text[i - 1] != '\t'),
                        "%s:%d: blanks at the end of the line", path, line);
            line++;
        }
    }
}

/* The files of a part carry the part's identity, the hash of all of them, so that files
 * of two generations neither compile nor link together. */
typedef enum { PART_NONE, PART_MATH, PART_PLAN } Part;

/* In reading order; host, device: only in trainers whose kernels run there. */
static const struct TrainerFile {
    const char *template, *path;
    bool host, device;
    Part part;
} trainer_files[] = {
    {"README.md", "README.md", true, true, PART_NONE},
    {"Makefile", "Makefile", true, false, PART_NONE},
    {"Makefile.cuda", "Makefile", false, true, PART_NONE},
    {"trainer.c", "trainer.c", true, true, PART_PLAN},
    {"step.c", "step.c", true, true, PART_PLAN},
    {"bind.h", "bind.h", true, true, PART_PLAN},
    {"bind.c", "bind.c", true, true, PART_PLAN},
    {"math.h", "math.h", true, true, PART_MATH},
    {"math.c", "math.c", true, true, PART_MATH},
    {"kernels.h", "kernels.h", true, true, PART_MATH},
    {"kernels.c", "kernels.c", true, true, PART_MATH},
    {"kernels.cu", "kernels.cu", false, true, PART_MATH},
    {"tables.h", "tables.h", true, true, PART_PLAN},
    {"tables.c", "tables.c", true, true, PART_PLAN},
    {"checkpoint.c", "checkpoint.c", true, true, PART_PLAN},
    {"calibrate.c", "calibrate.c", true, true, PART_PLAN},
    {"gitattributes", ".gitattributes", true, true, PART_NONE},
    {"gitignore", ".gitignore", true, true, PART_NONE},
};
enum { N_TRAINER_FILES = sizeof trainer_files / sizeof *trainer_files };

/* NULL: its template has a mistake. */
static const char *render_file(Emit *e, const struct TrainerFile *f, size_t *bytes)
{
    const char *file = gen_printf(e->g, "templates/trainer/%s", f->template);
    const Embedded *source = emit_embedded(file);
    const char *text;

    lua_rawgeti(e->L, LUA_REGISTRYINDEX, e->context_ref);
    text = emit_render(e, (const char *)source->data, source->bytes, file, false, bytes);
    if (text)
        verify_text(f->path, text, *bytes);
    return text;
}

static void set_identity(Emit *e, const char *field, uint64_t identity)
{
    lua_rawgeti(e->L, LUA_REGISTRYINDEX, e->context_ref);
    emit_str(e->L, field, gen_printf(e->g, "%016" PRIx64, identity));
    lua_pop(e->L, 1);
}

/* Sets the field to the hash of text and of the part's files, which contain zeros in its
 * place. */
static void identify(Emit *e, Part part, const char *field, const char *text)
{
    Text t = {.g = e->g};

    text_printf(&t, "%s", text);
    set_identity(e, field, 0);
    for (int i = 0; i < N_TRAINER_FILES && !diag_errors(e->g); i++) {
        const struct TrainerFile *f = &trainer_files[i];
        const char *file;
        size_t n;

        if (f->part != part || !(emit_on_device(e) ? f->device : f->host))
            continue;
        file = render_file(e, f, &n);
        if (file)
            text_printf(&t, "%s %016" PRIx64 "\n", f->path, hash_bytes(file, n));
    }
    set_identity(e, field, hash_bytes(t.s, t.len));
}

/* ---- the files that are not templates -------------------------------------------- */

static bool has_foreign_ops(Gen *g)
{
    for (int i = 0; i < g->ops.count; i++)
        if (ops_foreign(g, &g->ops.items[i]))
            return true;
    return false;
}

/* What the emitted description needs to make the folder again: paths of this machine are
 * not written down. */
static const char *again_options(Gen *g)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    if (g->model.outside)
        text_printf(&t, " --path FOLDER");
    if (has_foreign_ops(g))
        text_printf(&t, " --ops FOLDER");
    if (g->opt.machines.count)
        text_printf(&t, " --machines FILE");
    if (g->model.rates.file)
        text_printf(&t, " --rates FILE");
    if (g->opt.link_runtime)
        text_printf(&t, " --link-runtime %s", g->opt.link_runtime);
    return t.s;
}

static const char *generated_line(Gen *g)
{
    return gen_printf(
        g, "Code generated by fsdpgen %s for %s, numerics %016" PRIx64 ". DO NOT EDIT.",
        FSDPGEN_VERSION, g->model.name, g->numerics_hash);
}

/* The first lines of a file without a template: a comment that says what it is, what it
 * was made for, and how to regenerate it. */
static const char *banner(Gen *g, const char *comment, const char *what)
{
    return gen_printf(
        g,
        "%s SPDX-License-Identifier: MIT-0\n"
        "%s %s\n"
        "%s %s\n"
        "%s @generated; to regenerate: fsdpgen DIR/description.lua -o DIR%s\n",
        comment, comment, what, comment, generated_line(g), comment, again_options(g));
}

static void emit_plain_files(Emit *e)
{
    Gen *g = e->g;
    Text t = {.g = g}, plan = {.g = g}, json = {.g = g};

    gen_require(g->model.resolved_lua, "the resolved description is missing");
    text_printf(
        &t, "%s",
        banner(g, "--", "The description of this trainer, every field resolved."));
    text_printf(&t, "%s", g->model.resolved_lua);
    if (t.s[t.len - 1] != '\n')
        text_printf(&t, "\n");
    emit_add_file(g, "description.lua", t.s, t.len);

    text_printf(&plan, "%s\n", banner(g, "#", "The plan: memory, flops, schedule."));
    plan_print(g, &plan);
    verify_text("plan.txt", plan.s, plan.len);
    emit_add_file(g, "plan.txt", plan.s, plan.len);

    plan_print_json(g, &json);
    emit_add_file(g, "plan.json", json.s, json.len);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const OutFile *)a)->path, ((const OutFile *)b)->path);
}

static void emit_manifest(Emit *e)
{
    Gen *g = e->g;
    Text t = {.g = g};

    qsort(g->base.files.items, (size_t)g->base.files.count, sizeof *g->base.files.items,
          compare_files);
    text_printf(
        &t, "{\n  \"generator\": \"fsdpgen %s\",\n  \"numerics\": \"%016" PRIx64 "\",\n",
        FSDPGEN_VERSION, g->numerics_hash);
    if (g->model.rates.file)
        text_printf(&t, "  \"rates\": \"%016" PRIx64 "\",\n", g->model.rates.digest);
    text_printf(&t, "  \"files\": {\n");
    for (int i = 0; i < g->base.files.count; i++) {
        const OutFile *f = &g->base.files.items[i];

        text_printf(&t, "    \"%s\": \"%016" PRIx64 "\"%s\n", f->path,
                    hash_bytes(f->data, f->bytes),
                    i + 1 < g->base.files.count ? "," : "");
    }
    text_printf(&t, "  }\n}\n");
    emit_add_file(g, "manifest.json", t.s, t.len);
}

/* ---- the pass -------------------------------------------------------------------- */

static void push_files_context(Emit *e)
{
    Gen *g = e->g;
    lua_State *L = e->L;

    emit_str(L, "version", FSDPGEN_VERSION);
    emit_str(L, "numerics", gen_printf(g, "%016" PRIx64, g->numerics_hash));
    emit_str(L, "generated", generated_line(g));
    /* the same in all folders: files of mathematics do not depend on options */
    emit_str(L, "regenerate", "@generated; to regenerate, see description.lua");
    emit_str(L, "again_options", again_options(g));
    emit_str(L, "outside_module", g->model.outside);
    emit_runtime_context(e);
}

/* The folder's name goes into the Makefile, so characters that make or a shell would
 * interpret are refused. */
static void check_link_runtime(Gen *g)
{
    const char *dir = g->opt.link_runtime;

    if (!dir)
        return;
    for (const char *c = dir; *c; c++) {
        if (isalnum((unsigned char)*c) || strchr("/._-+@", *c))
            continue;
        diag_add(g, DIAG_ERROR, (Pos){0}, "use a path of letters, digits and /._-+@",
                 "--link-runtime: \"%s\" cannot be written into a Makefile", dir);
        return;
    }
}

/* For the largest models that the passes take: 1,024 blocks, each of its own class. */
#define EMIT_INSTRUCTIONS (20 * SANDBOX_INSTRUCTIONS)
#define EMIT_BYTES (4 * SANDBOX_BYTES)

void emit_files(Gen *g)
{
    Emit e = {.g = g, .L = g->L};

    check_link_runtime(g);
    emit_macros(g);
    if (diag_errors(g))
        return;
    emit_check_math(g);
    /* what templates use grows with the model, not with what its description used */
    sandbox_budget(e.L, EMIT_INSTRUCTIONS, EMIT_BYTES);
    emit_open_engine(&e);
    lua_newtable(e.L);
    push_files_context(&e);
    emit_model_context(&e);
    emit_layout_context(&e);
    emit_math_context(&e);
    if (diag_errors(g))
        return;
    emit_step_context(&e);
    e.context_ref = luaL_ref(e.L, LUA_REGISTRYINDEX);

    identify(&e, PART_MATH, "math_identity", "");
    if (!diag_errors(g))
        identify(&e, PART_PLAN, "identity", g->model.resolved_lua);
    for (int i = 0; i < N_TRAINER_FILES && !diag_errors(g); i++) {
        const struct TrainerFile *f = &trainer_files[i];
        size_t n;
        const char *text =
            (emit_on_device(&e) ? f->device : f->host) ? render_file(&e, f, &n) : NULL;

        if (text)
            emit_add_file(g, f->path, text, n);
    }
    if (diag_errors(g))
        return;
    emit_plain_files(&e);
    emit_runtime(&e);
    emit_manifest(&e);
}

void emit_dump(Gen *g, Text *t)
{
    size_t total = 0;

    for (int i = 0; i < g->base.files.count; i++) {
        const OutFile *f = &g->base.files.items[i];

        text_printf(t, "file %-28s %9zu bytes %016" PRIx64 "\n", f->path, f->bytes,
                    hash_bytes(f->data, f->bytes));
        total += f->bytes;
    }
    text_printf(t, "files %d, %zu bytes\n", g->base.files.count, total);
}
