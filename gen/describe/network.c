/* SPDX-License-Identifier: Apache-2.0 */
/* network.c: on which nodes ranks lie, and what joins them. In: the datasheets
 * (machines.c); the fields of target.network in place of its numbers; the mesh. Out:
 * m->net.
 *
 * Ranks fill nodes one after another. A node has as many ranks as it has GPUs, rounded
 * down to a power of two, unless target.nodes or mesh.node say that there are fewer. So
 * near ranks, and ranks below one leaf switch, differ in lowest bits alone. */
#include "describe/check.h"

#include "base/base.h"
#include "base/sandbox.h"

#include <string.h>

#define US_PS 1e6

/* ---- the datasheet --------------------------------------------------------------- */

/* Pushes the datasheet for the description's GPU, node and fabric. */
static void push_datasheet(Check *c)
{
    static const char *const fields[] = {"target.gpu", "target.node", "target.fabric"};

    lua_rawgeti(c->L, LUA_REGISTRYINDEX, c->ld->machine_ref);
    for (int i = 0; i < 3; i++) {
        const char *s = value_str(c, fields[i]);

        if (*s)
            lua_pushstring(c->L, s);
        else
            lua_pushnil(c->L);
    }
    if (lua_pcall(c->L, 3, 1, 0) != LUA_OK)
        sandbox_fault(c->L, "gen/lua/machines.lua");
}

/* Pushes a value of the datasheet on top, or that of target.network in its place. */
static void sheet_push(Check *c, const char *name)
{
    const char *own = gen_printf(c->g, "target.network.%s", name);

    if (value_push(c, own) != LUA_TNIL)
        return;
    lua_pop(c->L, 1);
    lua_getfield(c->L, -1, name);
}

static double sheet_num(Check *c, const char *name)
{
    double x;

    sheet_push(c, name);
    x = lua_tonumber(c->L, -1);
    lua_pop(c->L, 1);
    return x;
}

static bool sheet_bool(Check *c, const char *name)
{
    bool is;

    sheet_push(c, name);
    is = lua_toboolean(c->L, -1);
    lua_pop(c->L, 1);
    return is;
}

static const char *sheet_str(Check *c, const char *name)
{
    const char *s;

    lua_getfield(c->L, -1, name);
    s = gen_strdup(c->g, lua_tostring(c->L, -1));
    lua_pop(c->L, 1);
    return s;
}

static int64_t power_below(int64_t n)
{
    int64_t p = 1;

    while (p * 2 <= n)
        p *= 2;
    return p;
}

/* Ranks of a node, a power of two; the datasheet is on top of the stack. */
static int64_t ranks_of_node(Check *c, int64_t world)
{
    int64_t nodes, described = world,
                   ranks = min_i64(power_below((int64_t)sheet_num(c, "gpus")), world);

    value_int(c, "mesh.node", &described);
    if (value_int(c, "target.nodes", &nodes))
        return max_i64(world / nodes, 1);
    return min_i64(ranks, described);
}

/* Ranks that links join, a power of two. */
static int64_t near_ranks(Check *c, int64_t node_ranks)
{
    return power_below(max_i64(
        node_ranks * (int64_t)sheet_num(c, "domain") / (int64_t)sheet_num(c, "gpus"), 1));
}

/* ---- checks ---------------------------------------------------------------------- */

static void check_nodes(Check *c, int64_t world)
{
    const int64_t gpus = (int64_t)sheet_num(c, "gpus");
    const char *node = sheet_str(c, "node");
    int64_t nodes, described = world;

    value_int(c, "mesh.node", &described);
    if (!value_int(c, "target.nodes", &nodes))
        return;
    if (nodes > world)
        COMPLAIN(c, "target.nodes",
                 gen_printf(c->g, "use at most %lld", (long long)world),
                 "target.nodes: %lld nodes for %lld rank%s", (long long)nodes,
                 (long long)world, world == 1 ? "" : "s");
    else if (world > nodes * gpus)
        COMPLAIN(c, "target.nodes",
                 gen_printf(c->g, "use nodes = %lld, or network = { gpus = %lld }",
                            (long long)(world / power_below(gpus)),
                            (long long)(world / nodes)),
                 "target.nodes: %lld of %s have %lld GPUs, and there are %lld ranks",
                 (long long)nodes, node, (long long)(nodes * gpus), (long long)world);
    else if (described < world && described != world / nodes &&
             described != near_ranks(c, world / nodes))
        COMPLAIN(c, "target.nodes",
                 gen_printf(c->g, "use nodes = %lld, or mesh.node = %lld",
                            (long long)(world / described), (long long)(world / nodes)),
                 "target.nodes: %lld nodes of %lld ranks, but mesh.node is %lld",
                 (long long)nodes, (long long)(world / nodes), (long long)described);
}

void check_network(Check *c)
{
    static const char *const axes[] = {"mesh.replicate", "mesh.shard", "mesh.context",
                                       "mesh.tensor"};
    int64_t world = 1, degree;

    if (!*value_str(c, "target.gpu"))
        return;
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) {
        if (!value_int(c, axes[i], &degree))
            return;
        world *= degree;
    }
    push_datasheet(c);
    if (!sheet_bool(c, "fits"))
        COMPLAIN(
            c, "target.node",
            gen_printf(c->g, "use gpu = \"%s\", or another node", sheet_str(c, "first")),
            "target.node: %s is built with %s, and target.gpu is %s",
            sheet_str(c, "node"), sheet_str(c, "built"), value_str(c, "target.gpu"));
    check_nodes(c, world);
    lua_pop(c->L, 1);
}

/* ---- the Model ------------------------------------------------------------------- */

static RankBits lowest(const Mesh *mesh, int64_t ranks)
{
    return mesh->all & (RankBits)(min_i64(ranks, mesh->world_size) - 1);
}

void fill_network(Check *c, Model *m)
{
    const int64_t world = m->mesh.world_size;
    Network *net = &m->net;
    int64_t ranks, nodes;
    double nics;

    push_datasheet(c);
    nics = sheet_num(c, "nics");
    net->node = sheet_str(c, "node");
    net->fabric = sheet_str(c, "fabric");
    net->gpus = (int64_t)sheet_num(c, "gpus");
    ranks = ranks_of_node(c, world);
    net->nodes = world / ranks;
    nodes = (int64_t)(sheet_num(c, "down") / (sheet_bool(c, "rail") ? 1 : nics));
    net->near = lowest(&m->mesh, near_ranks(c, ranks));
    net->leaf = net->near | lowest(&m->mesh, ranks * power_below(max_i64(nodes, 1)));
    /* a GPU has its NIC's share, even if its neighbours are idle */
    net->nic_per_us = nics * sheet_num(c, "nic") * 1e3 / (double)net->gpus;
    net->oversubscription = sheet_num(c, "oversubscription");
    net->step_ps = (int64_t)(sheet_num(c, "step") * US_PS);
    net->net_step_ps = (int64_t)(sheet_num(c, "net_step") * US_PS);
    net->usd = sheet_num(c, "price") / (double)net->gpus;
    lua_pop(c->L, 1);
}
