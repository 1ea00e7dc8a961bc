/* SPDX-License-Identifier: Apache-2.0 */
/* template_test: the template engine on its own, with Lua's `load` for the sandbox's. In:
 * small templates as text. Out: what they render to, or the message, which must begin
 * with the template's file and line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <lauxlib.h>
#include <lualib.h>
#include <string.h>

static lua_State *L;

static const char engine[] = "template.load = load\n"
                             "function template.enter(chunk, env)\n"
                             "  debug.upvaluejoin(chunk, 1, load(''), 1)\n"
                             "  debug.setupvalue(chunk, 1, env)\n"
                             "end\n";

static int open_engine(void **state)
{
    (void)state;
    L = luaL_newstate();
    luaL_openlibs(L);
    if (luaL_dofile(L, TEMPLATE_LUA)) {
        print_error("%s\n", lua_tostring(L, -1));
        return -1;
    }
    lua_setglobal(L, "template");
    return luaL_dostring(L, engine) ? -1 : 0;
}

static int close_engine(void **state)
{
    (void)state;
    lua_close(L);
    return 0;
}

/* Renders `text` as the file t/x.c with the environment that the Lua expression env
 * gives; leaves ok, and the text or the message, on the stack. */
static const char *render(const char *text, const char *env, int *ok)
{
    lua_settop(L, 0);
    lua_pushstring(L, text);
    lua_setglobal(L, "text");
    lua_pushfstring(L, "return pcall(template.render, text, 't/x.c', %s)", env);
    if (luaL_dostring(L, lua_tostring(L, -1)))
        fail_msg("%s", lua_tostring(L, -1));
    *ok = lua_toboolean(L, 2);
    return lua_tostring(L, 3);
}

static void gives(const char *text, const char *env, const char *want)
{
    int ok;
    const char *got = render(text, env, &ok);

    if (!ok)
        fail_msg("%s", got);
    assert_string_equal(got, want);
}

static void refuses(const char *text, const char *env, const char *want)
{
    int ok;
    const char *got = render(text, env, &ok);

    if (ok)
        fail_msg("rendered: %s", got);
    assert_string_equal(got, want);
}

static void text_and_control(void **state)
{
    (void)state;
    gives("a\n  b\n", "{}", "a\n  b\n");
    gives("no newline", "{}", "no newline\n");
    gives("", "{}", "");
    gives("blank   \n\t\nx \t\n", "{}", "blank\n\nx\n");
    gives("//@ for i = 1, 2 do\nx${i};\n//@ end\n", "{}", "x1;\nx2;\n");
    gives("  //@ if false then\nno\n\t//@ end\nyes\n", "{}", "yes\n");
    gives("//@ local function f(p)\n<${p}>\n//@ end\n//@ f(1) f('a')\n", "{}",
          "<1>\n<a>\n");
    gives("//@ put('raw ')\n//@ put('text\\n')\n", "{}", "raw text\n");
    gives("x \\ \" \t' ]] --\n", "{}", "x \\ \" \t' ]] --\n");
    gives("$(MAKE) $${x} $x\n", "{x = 'v'}", "$(MAKE) $v $x\n");
    gives("${\"${\"}x}\n", "{}", "${x}\n");
}

static void values(void **state)
{
    (void)state;
    gives("${n} ${m} ${s}", "{n = 3, m = 4096.0, s = 'text'}", "3 4096 text\n");
    gives("${ ({ a = '}' }).a }", "{}", "}\n");
    gives("${real(0.1)} ${real(1)} ${real(1/3)} ${real(5e-324)}", "{}",
          "0.1 1.0 0.3333333333333333 5e-324\n");
    gives("${left('a', 3)}|${right('a', 3)}|", "{}", "a  |  a|\n");
    gives("${call('f(', { 'a', 'b' }, ');')}", "{}", "f(a, b);\n");
}

static void c_strings(void **state)
{
    (void)state;
    gives("${cstr(s)}", "{s = 'plain.weight'}", "\"plain.weight\"\n");
    gives("${cstr(s)}", "{s = '\"; system(\"x\"); \"'}",
          "\"\\\"; system(\\\"x\\\"); \\\"\"\n");
    gives("${cstr(s)}", "{s = 'a\\\\b\\n\\0001\\255'}", "\"a\\\\b\\n\\0001\\377\"\n");
    gives("${cstr(s)}", "{s = '?\?/'}", "\"\\?\\?/\"\n");
    gives("/* ${ctext(s)} */", "{s = 'x */ y /* z /*/ \\n'}",
          "/* x * / y / * z / * / ? */\n");
}

static void kernels(void **state)
{
    (void)state;
#define ENV(acc, type)                                                                   \
    "template.kernel_helpers { acc = '" acc "', x = { type = '" type "', dtype = 'x' } " \
    "}"
    gives("${ld(x, 'i')}; ${st(x, 'i', 'v')}; ${rnd(x, 'v')}", ENV("float", "float"),
          "x[i]; x[i] = v; (v)\n");
    gives("${ld(x, 'i')}; ${st(x, 'i', 'v')}; ${rnd(x, 'v')}", ENV("float", "rt_bf16"),
          "rt_f32_from_bf16(x[i]); x[i] = rt_bf16_from_f32(v); "
          "rt_f32_from_bf16(rt_bf16_from_f32(v))\n");
    gives("${ld(x, 'i')}; ${st(x, 'i', 'v')}", ENV("double", "float"),
          "(double)x[i]; x[i] = (float)(v)\n");
    gives("${lit(1e-5)} ${lit(2)} ${lit(-0.5)}", ENV("float", "float"),
          "1e-05f 2.0f (-0.5f)\n");
    gives("${lit(1e-5)}", ENV("double", "double"), "1e-05\n");
    refuses("${ld(1, 'i')}", ENV("float", "float"),
            "t/x.c:1: ld: the first argument must be an operand, got number");
    refuses("${ld(x)}", ENV("float", "float"),
            "t/x.c:1: ${index} is nil, not text or a whole number");
    refuses("${lit(1/0)}", ENV("float", "float"),
            "t/x.c:1: lit: not a finite number: inf");
}

static void prepared(void **state)
{
    int ok;

    (void)state;
    render("//@ prepare: go(&${fn}_gemm);\ntext\n", "{ fn = 'f' }", &ok);
    assert_true(ok);
    assert_string_equal(lua_tostring(L, 3), "text\n");
    lua_rawgeti(L, 4, 1);
    assert_string_equal(lua_tostring(L, -1), "go(&f_gemm);");
}

static void mistakes(void **state)
{
    (void)state;
    refuses("a\nb ${nope}\n", "{}",
            "t/x.c:2: ${nope} is nil, not text or a whole number");
    refuses("a\n//@ local k = nope.x\n", "{}",
            "t/x.c:2: attempt to index a nil value (global 'nope')");
    refuses("${0.5}", "{}",
            "t/x.c:1: ${0.5} is the fraction 0.5: use lit(...) or real(...)");
    refuses("${{}}", "{}", "t/x.c:1: ${{}} is a table, not text or a whole number");
    refuses("\n\n${a", "{}", "t/x.c:3: ${ without its }");
    refuses("${ }", "{}", "t/x.c:1: ${} is empty");
    refuses("//@ for i = 1 do\n", "{}", "t/x.c:1: ',' expected near 'do'");
    refuses("//@ if x then\na\nb\n", "{}",
            "t/x.c:3: 'end' expected (to close 'if' at line 1) near <eof>");
    refuses("//@ error('mine')", "{}", "t/x.c:1: mine");
    refuses("${real(0/0)}", "{}", "t/x.c:1: real: not a finite number: -nan");
}

/* A template sees what it was given and no more. */
static void nothing_else(void **state)
{
    static const char *const names[] = {
        "os",      "io",        "pairs",        "next", "load",  "require",
        "dofile",  "print",     "setmetatable", "_G",   "debug", "collectgarbage",
        "package", "coroutine", "rawset"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[64], want[64];

        snprintf(text, sizeof text, "${type(%s)}", names[i]);
        snprintf(want, sizeof want, "nil\n");
        gives(text, "{}", want);
    }
}

/* A template is compiled once, and each rendering has its own globals. */
static void rendered_again(void **state)
{
    (void)state;
    gives("${x}", "{ x = 1 }", "1\n");
    gives("${x}", "{ x = 2 }", "2\n");
    gives("${keep(function() return x end)}",
          "{ x = 1, keep = function(f) kept = f return f() end }", "1\n");
    gives("${keep(function() return x end)}",
          "{ x = 2, keep = function(f) return kept() * 10 + f() end }", "12\n");
}

/* What one template does to the libraries, no other sees. */
static void libraries(void **state)
{
    (void)state;
    gives("//@ string.format, table.x, math.pi = nil, 1, 3\n", "{}", "");
    gives("${string.format('%d', 2)} ${math.pi > 3.1 and 'pi' or '3'} ${type(table.x)}",
          "{}", "2 pi nil\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_and_control), cmocka_unit_test(values),
        cmocka_unit_test(c_strings),        cmocka_unit_test(kernels),
        cmocka_unit_test(prepared),         cmocka_unit_test(mistakes),
        cmocka_unit_test(nothing_else),     cmocka_unit_test(rendered_again),
        cmocka_unit_test(libraries),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
