/* SPDX-License-Identifier: Apache-2.0 */
/* import_yaml.h: a small YAML file as a list of entries (import_yaml.c). */
#ifndef IMPORT_YAML_H
#define IMPORT_YAML_H

#include "gen.h"

/* One `key: value` of the file; a key inside a section has that section's name. */
typedef struct ImportEntry {
    const char *section, *key; /* section "": the top */
    const char *value;         /* of a list: its items with commas; "" for null */
    bool list, mapping;        /* mapping: this entry is a section, whose entries follow */
    int items;                 /* number of items of a list or a mapping */
    Pos pos, value_pos;
} ImportEntry;

typedef struct ImportEntries {
    ImportEntry *items;
    int count, cap;
} ImportEntries;

/* Reads a YAML file of scalars, lists of scalars and one level of sections. false after diag_add
 * messages. */
bool import_yaml(Gen *g, const char *path, ImportEntries *entries);

#endif
