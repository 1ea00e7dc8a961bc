/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_messages.c: the forms that chats come in. In: a list of messages: OpenAI's
 * ({role, content}, contents that are lists of parts, tool_calls), or ShareGPT's ({from,
 * value}). Out: the same list, if it is in the one form that templates know, or a copy in
 * that form. For fsdpgen's own templates content is text; those of models have what
 * transformers gives them. */
#include "tokenize/tokenize_chat.h"

#include <stdlib.h>
#include <string.h>

static bool wrong(char *error, size_t i, const char *what, const char *value)
{
    snprintf(error, TOK_ERROR_BYTES, "message %zu: %s%s%.60s%s", i + 1, what,
             *value ? " `" : "", value, *value ? "`" : "");
    return false;
}

/* ---- ShareGPT -------------------------------------------------------------------- */

static const char *role_of(const char *from)
{
    static const char *const roles[][2] = {{"human", "user"},
                                           {"user", "user"},
                                           {"gpt", "assistant"},
                                           {"chatgpt", "assistant"},
                                           {"model", "assistant"},
                                           {"assistant", "assistant"},
                                           {"function_call", "assistant"},
                                           {"system", "system"},
                                           {"tool", "tool"},
                                           {"observation", "tool"},
                                           {"function_response", "tool"}};

    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (!strcmp(from, roles[k][0]))
            return roles[k][1];
    return NULL;
}

static bool from_sharegpt(json_t *m, size_t i, char *error)
{
    const char *from = json_string_value(json_object_get(m, "from"));
    json_t *value = json_object_get(m, "value");

    if (!from || !role_of(from))
        return wrong(error, i,
                     "`from` is human, user, gpt, assistant, system, tool, "
                     "function_call, observation or function_response, not",
                     from ? from : "(none)");
    if (!json_is_string(value))
        return wrong(error, i, "`value` is not text", "");
    json_object_set(m, "content", value);
    json_object_set_new(m, "role", json_string(role_of(from)));
    json_object_del(m, "from");
    json_object_del(m, "value");
    return true;
}

/* ---- contents -------------------------------------------------------------------- */

/* The text of a part; NULL with error set. */
static const json_t *part_text(const json_t *part, size_t i, char *error)
{
    const json_t *type = json_object_get(part, "type"),
                 *words = json_object_get(part, "text");

    if (json_is_string(part))
        return part;
    if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0)
        wrong(error, i, "a part of `content` is not of type text, but",
              json_is_string(type) ? json_string_value(type) : "(none)");
    else if (!json_is_string(words))
        wrong(error, i, "a part of `content` has no text", "");
    else
        return words;
    return NULL;
}

/* Parts follow each other with nothing between them. Models' templates have the list. */
static bool take_parts(json_t *m, size_t i, bool own, char *error)
{
    const json_t *parts = json_object_get(m, "content");
    TokText text = {0};
    bool good = true;

    for (size_t k = 0; good && k < json_array_size(parts); k++) {
        const json_t *words = part_text(json_array_get(parts, k), i, error);

        good = words != NULL;
        if (good && own)
            tok_append(&text, json_string_value(words), json_string_length(words));
    }
    if (good && own)
        json_object_set_new(m, "content", json_stringn(text.s ? text.s : "", text.n));
    free(text.s);
    return good;
}

static void put(TokText *to, const char *s)
{
    tok_append(to, s, strlen(s));
}

/* A call as text: {"name": ..., "arguments": ...} between tags, as Hermes and Qwen have
 * it. Arguments that are text already are taken as they are. */
static bool write_call(TokText *text, const json_t *call, size_t i, char *error)
{
    const json_t *f = json_object_get(call, "function");
    const json_t *name = json_object_get(f ? f : call, "name"),
                 *arguments = json_object_get(f ? f : call, "arguments");
    char *words, *quoted;

    if (!json_is_string(name) ||
        (!json_is_object(arguments) && !json_is_string(arguments)))
        return wrong(error, i, "a tool call has no name, or no arguments", "");
    words =
        json_is_string(arguments) ? NULL : json_dumps(arguments, JSON_REAL_PRECISION(15));
    quoted = json_dumps(name, JSON_ENCODE_ANY);
    if (text->n > 0)
        put(text, "\n");
    put(text, "<tool_call>\n{\"name\": ");
    put(text, quoted ? quoted : "");
    put(text, ", \"arguments\": ");
    if (words)
        put(text, words);
    else
        tok_append(text, json_string_value(arguments), json_string_length(arguments));
    put(text, "}\n</tool_call>");
    free(words);
    free(quoted);
    return true;
}

static bool write_calls(json_t *m, size_t i, char *error)
{
    const json_t *calls = json_object_get(m, "tool_calls"),
                 *content = json_object_get(m, "content");
    TokText text = {0};
    bool good = true;

    tok_append(&text, json_is_string(content) ? json_string_value(content) : "",
               json_string_length(content));
    if (!json_is_array(calls))
        good = wrong(error, i, "`tool_calls` is not a list", "");
    for (size_t k = 0; good && k < json_array_size(calls); k++)
        good = write_call(&text, json_array_get(calls, k), i, error);
    if (good)
        json_object_set_new(m, "content", json_stringn(text.s, text.n));
    free(text.s);
    return good;
}

/* ---- templates of models --------------------------------------------------------- */

static const char *const reasoning_fields[] = {"reasoning_content", "thinking",
                                               "reasoning"};

static json_t *reasoning_of(const json_t *m)
{
    for (int k = 0; k < 3; k++) {
        json_t *v = json_object_get(m, reasoning_fields[k]);

        if (v && !json_is_null(v))
            return v;
    }
    return NULL;
}

static bool has_null(const json_t *m)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)m, key, v) if (json_is_null(v)) return true;
    return false;
}

/* As transformers' apply_chat_template hands a message on: without fields that are null,
 * and with the reasoning under both names that templates know. It takes m. */
static json_t *as_transformers(json_t *m)
{
    json_t *reasoning = reasoning_of(m), *message, *v;
    const char *key;

    if (!reasoning && !has_null(m))
        return m;
    message = json_object();
    if (reasoning)
        json_object_set(message, "thinking", reasoning);
    json_object_foreach(m, key, v) if (!json_is_null(v)) json_object_set(message, key, v);
    if (reasoning)
        json_object_set(message, "reasoning_content", reasoning);
    json_decref(m);
    return message;
}

/* ---- a list ---------------------------------------------------------------------- */

bool tok_has_calls(const json_t *m)
{
    const json_t *calls = json_object_get(m, "tool_calls");

    return calls && !json_is_null(calls) &&
           !(json_is_array(calls) && json_array_size(calls) == 0);
}

static bool is_plain(const json_t *m, bool own)
{
    return json_is_string(json_object_get(m, "content")) &&
           !(own ? tok_has_calls(m) : reasoning_of(m) || has_null(m)) &&
           !json_object_get(m, "from");
}

static bool take(json_t *m, size_t i, bool own, char *error)
{
    const json_t *content;

    if (json_object_get(m, "from") && !json_object_get(m, "role") &&
        !from_sharegpt(m, i, error))
        return false;
    content = json_object_get(m, "content");
    if (json_is_array(content) && !take_parts(m, i, own, error))
        return false;
    if (!own || !tok_has_calls(m))
        return true;
    if (!content || json_is_null(content))
        json_object_set_new(m, "content", json_string(""));
    return write_calls(m, i, error);
}

json_t *tok_messages(const json_t *list, bool own, char *error)
{
    json_t *messages;
    bool plain = true, good = true;

    if (!json_is_array(list) || json_array_size(list) == 0) {
        snprintf(error, TOK_ERROR_BYTES, "the messages are not a list, or an empty one");
        return NULL;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        plain = plain && is_plain(json_array_get(list, i), own);
    if (plain)
        return json_incref((json_t *)(uintptr_t)list);
    messages = json_array();
    for (size_t i = 0; good && i < json_array_size(list); i++) {
        json_t *m = json_copy(json_array_get(list, i));

        good = !json_is_object(m) || take(m, i, own, error);
        json_array_append_new(messages,
                              own || !json_is_object(m) ? m : as_transformers(m));
    }
    if (good)
        return messages;
    json_decref(messages);
    return NULL;
}
