/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_options.c: the options of `fsdpgen tokenize`. In: the form of base/options.h;
 * fields of TokOptions that they fill. Out: rows of the table (shell/commands.c). Data
 * only; tokenize.c checks which options require or exclude each other. */
#include "tokenize/tokenize.h"

static const char *template_name(int i)
{
    static const char *const names[] = {"chatml", "llama3", "tokenizer", NULL};

    return names[i];
}

static const char *tokenizer_name(int i)
{
    static const char *const names[] = {"bytes", NULL};

    return names[i];
}

#define AT(field) offsetof(TokOptions, field)
const Option tok_option_table[] = {
    {'o', "output", "FILE", "the token file to write, X.bin", STORE_TEXT, VALUE_FILE,
     AT(output), TOK_COMMAND, NULL, 0},
    {0, "tokenizer", "FILE", "a tokenizer.json, its folder, or bytes (default: bytes)",
     STORE_TEXT, VALUE_FILE, AT(tokenizer), TOK_COMMAND, tokenizer_name, 0},
    {0, "field", "NAME", "field of a JSON line (default: text; for chats: messages)",
     STORE_TEXT, VALUE_TEXT, AT(field), TOK_COMMAND, NULL, 0},
    {0, "template", "NAME", "lines are chats: chatml, llama3, tokenizer or a file",
     STORE_TEXT, VALUE_FILE, AT(template), TOK_COMMAND, template_name, 0},
    {0, "end", "TOKEN", "append to each document: a token's name or an id", STORE_TEXT,
     VALUE_TEXT, AT(end), TOK_COMMAND, NULL, 0},
    {0, "held-out", "SHARE", "leave out this share of documents, such as 1%", STORE_TEXT,
     VALUE_TEXT, AT(held_out), TOK_COMMAND, NULL, 0},
    {0, "only-held-out", NULL, "write only what --held-out leaves out", STORE_SWITCH,
     VALUE_NONE, AT(only_held_out), TOK_COMMAND, NULL, 0},
    {0, "no-special", NULL, "omit the special tokens that the tokenizer adds to a text",
     STORE_SWITCH, VALUE_NONE, AT(no_special), TOK_COMMAND, NULL, 0},
    {0, "jsonl", NULL, "treat all inputs as JSON lines, whatever their names",
     STORE_SWITCH, VALUE_NONE, AT(jsonl), TOK_COMMAND, NULL, 0},
    {0, "threads", "N", "number of threads; the output does not depend on it",
     STORE_COUNT, VALUE_NUMBER, AT(threads), TOK_COMMAND, NULL, 256},
    {0, "force", NULL, "replace the output", STORE_SWITCH, VALUE_NONE, AT(force),
     TOK_COMMAND, NULL, 0},
    {0, "prompt", "TEXT", "print the ids of TEXT, for `trainer sample`; read no files",
     STORE_TEXT, VALUE_TEXT, AT(prompt), TOK_COMMAND, NULL, 0},
    {0, "decode", NULL, "print the text of the ids on stdin; read no files", STORE_SWITCH,
     VALUE_NONE, AT(decode), TOK_COMMAND, NULL, 0},
    {0, NULL, NULL, NULL, STORE_SWITCH, VALUE_NONE, 0, 0, NULL, 0},
};
