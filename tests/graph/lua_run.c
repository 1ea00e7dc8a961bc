/* SPDX-License-Identifier: Apache-2.0 */
/* lua_run.c: lua_run SCRIPT ARGS...: Lua with its libraries, for tests only; machines
 * that have the library need not have the interpreter. */
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();

    if (!L || argc < 2)
        return 2;
    luaL_openlibs(L);
    lua_createtable(L, argc, 0);
    for (int i = 1; i < argc; i++) {
        lua_pushstring(L, argv[i]);
        lua_rawseti(L, -2, i - 1);
    }
    lua_setglobal(L, "arg");
    if (luaL_dofile(L, argv[1])) {
        fprintf(stderr, "%s\n", lua_tostring(L, -1));
        return 1;
    }
    lua_close(L);
    return 0;
}
