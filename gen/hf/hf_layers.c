/* SPDX-License-Identifier: Apache-2.0 */
/* hf_layers.c: what differs among layers. In: the keys of a config.json about sliding
 * windows and layers without positions. Out: the fields `window`, `global_every` and
 * `nope_every`, or messages about what our architectures cannot do. */
#include "hf/hf.h"

#include <string.h>

/* ---- sliding windows ------------------------------------------------------------- */

/* Is there one type per layer, and are they types that exist here? */
static bool check_types(const Config *c, const json_t *types)
{
    const json_t *layers = hf_member(c, "num_hidden_layers");

    if (types && !json_is_array(types)) {
        hf_refuse(c, "layer_types", "it has a type for each layer",
                  gen_printf(c->g, "%s is not a list", hf_shown(c, types)));
        return false;
    }
    if (types && json_is_integer(layers) &&
        json_integer_value(layers) != (json_int_t)json_array_size(types)) {
        hf_refuse(c, "layer_types", "it has a type for each layer",
                  gen_printf(c->g, "its length is %zu, not num_hidden_layers, %lld",
                             json_array_size(types),
                             (long long)json_integer_value(layers)));
        return false;
    }
    for (size_t i = 0; i < json_array_size(types); i++) {
        const json_t *v = json_array_get(types, i);
        const char *type = json_is_string(v) ? json_string_value(v) : "";

        if (!strcmp(type, "full_attention") || !strcmp(type, "sliding_attention"))
            continue;
        hf_refuse(c, "layer_types",
                  "\"full_attention\" and \"sliding_attention\" can be imported",
                  gen_printf(c->g, "%s is not supported", hf_shown(c, v)));
        return false;
    }
    return true;
}

/* Does the layer, counted from 0, have a window? Without layer_types, all of Gemma's but
 * every n-th have one. */
static bool is_sliding(const Config *c, const json_t *types, int64_t layer)
{
    const int64_t every =
        c->family->bit == GEMMA2 ? 2 : hf_int(c, "sliding_window_pattern", 6);
    const char *type = json_string_value(json_array_get(types, (size_t)layer));

    if (!types)
        return every == 0 || (layer + 1) % every != 0;
    return type != NULL && !strcmp(type, "sliding_attention");
}

/* The layers are blocks, and a description with more of those is refused. */
static int64_t layers_of(const Config *c)
{
    return min_i64(hf_int(c, "num_hidden_layers", -1), MAX_BLOCKS);
}

int64_t hf_global_every(const Config *c)
{
    const json_t *types = hf_member(c, "layer_types");
    const int64_t layers = layers_of(c);
    int64_t every = 0;

    if (!(c->family->bit & GEMMA) || hf_window(c) == 0)
        return 0;
    for (int64_t i = layers; i > 0; i--)
        if (!is_sliding(c, types, i - 1))
            every = i;
    for (int64_t i = 0; every > 0 && i < layers; i++) {
        if (is_sliding(c, types, i) != ((i + 1) % every != 0)) {
            hf_refuse(c, types ? "layer_types" : "sliding_window_pattern",
                      "every n-th layer may see all tokens: \"sliding_attention\", "
                      "\"full_attention\", ...",
                      "such a mix of layers is not supported");
            return 0;
        }
    }
    return every;
}

/* Gemma's: of some layers. */
static int64_t gemma_window(const Config *c, int64_t window)
{
    const json_t *types = hf_member(c, "layer_types");
    const int64_t layers = layers_of(c);
    int64_t sliding = 0;

    for (int64_t i = 0; i < layers; i++)
        sliding += is_sliding(c, types, i);
    if (window == 0 && sliding > 0)
        hf_refuse(c, "sliding_window", "layers of the type \"sliding_attention\" need it",
                  "is not a window");
    return sliding > 0 ? window : 0;
}

static size_t count_sliding(const json_t *types)
{
    size_t sliding = 0;

    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));

        sliding += type != NULL && !strcmp(type, "sliding_attention");
    }
    return sliding;
}

/* Qwen's: of layers from max_window_layers on, unless there are types. */
static int64_t qwen_window(const Config *c, int64_t window, const json_t *types)
{
    const bool used = window != 0 && hf_bool(c, "use_sliding_window", false);
    const int64_t from = hf_int(c, "max_window_layers", 28);

    if (!used && count_sliding(types) > 0)
        hf_refuse(c, "layer_types",
                  "a window needs use_sliding_window and sliding_window",
                  "has \"sliding_attention\", and there is no window");
    if (!used || (types && count_sliding(types) == 0) ||
        (!types && from >= hf_int(c, "num_hidden_layers", -1)))
        return 0;
    if (!types && from > 0)
        hf_refuse(c, "max_window_layers", "all layers have the same window here",
                  "a window in some layers only is not supported");
    return window;
}

/* 0: every token sees all earlier ones. All layers must have the same window, except
 * Gemma's. Phi's have it whatever layer_types says. */
int64_t hf_window(const Config *c)
{
    const int64_t window = hf_int(c, "sliding_window",
                                  hf_lacks(c, "sliding_window") ? c->family->window : 0);
    const json_t *types = hf_member(c, "layer_types");
    const size_t sliding = count_sliding(types);

    if (!(c->family->bit & (MISTRAL | QWEN | PHI3 | GEMMA | SMOLLM3)))
        return 0; /* transformers does not read it */
    if (!check_types(c, types))
        return 0;
    if (c->family->bit == SMOLLM3) {
        if (sliding > 0)
            hf_refuse(c, "layer_types", "SmolLM3's layers see all tokens before",
                      "a sliding window is not supported");
        return 0;
    }
    if (c->family->bit & GEMMA)
        return gemma_window(c, window);
    if (window != 0 && sliding > 0 && sliding != json_array_size(types))
        hf_refuse(c, "layer_types", "all layers have the same window here",
                  "a mix of windows is not supported");
    if (c->family->bit & QWEN)
        return qwen_window(c, window, types);
    if (c->family->bit == MISTRAL && types && sliding == 0)
        return 0; /* transformers takes it for a Ministral, whose layers have types */
    if (window != 0 && types && sliding == 0)
        hf_refuse(
            c, "layer_types",
            "all layers of this family have the window: leave out one of both",
            gen_printf(c->g, "contradicts sliding_window, %lld", (long long)window));
    return window;
}

/* ---- layers without positions ---------------------------------------------------- */

/* The list has 1 where a layer has rotary positions. */
static bool fits(const json_t *list, int64_t every)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        const bool rotary = every == 0 || (int64_t)(i + 1) % every != 0;

        if (!json_is_integer(v) || json_integer_value(v) != (rotary ? 1 : 0))
            return false;
    }
    return true;
}

int64_t hf_nope_every(const Config *c)
{
    const json_t *list = hf_member(c, "no_rope_layers");
    int64_t every = 0;

    if (c->family->bit != SMOLLM3)
        return 0;
    if (!list) {
        every = hf_int(c, "no_rope_layer_interval", 4);
        if (every == 0)
            hf_refuse(c, "no_rope_layer_interval", "SmolLM3 has 4", "0 is not supported");
        return every;
    }
    for (size_t i = json_array_size(list); i > 0; i--)
        if (json_integer_value(json_array_get(list, i - 1)) == 0)
            every = (int64_t)i;
    if (!json_is_array(list) ||
        (int64_t)json_array_size(list) != hf_int(c, "num_hidden_layers", -1))
        hf_refuse(c, "no_rope_layers", "it has a 0 or a 1 for each layer",
                  "it is not a list of num_hidden_layers numbers");
    else if (!fits(list, every))
        hf_refuse(c, "no_rope_layers",
                  "every n-th layer may lack positions: [1, 1, 1, 0, 1, 1, 1, 0, ...]",
                  "such a mix of layers is not supported");
    return every;
}
