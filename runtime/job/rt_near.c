/* SPDX-License-Identifier: MIT-0 */
/* rt_near.c: guesses a misspelled name. In: a word, the existing names. Out: the nearest,
 * by insertions, deletions, replacements and swaps of neighbours; else the first that
 * starts with the word. */
#include "job/rt_job.h"

#include <string.h>

enum { LONGEST = 63, SHORTEST_START = 3 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* The optimal string alignment distance. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int rows[3][LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = rows[i % 3];
        const int *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = least(last[j - 1] + (a[i - 1] != b[j - 1]),
                           least(last[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], before[j - 2] + 1);
        }
    }
    return rows[n % 3][m];
}

const char *rt_near(const char *word, size_t bytes, const char *const *names, int n)
{
    /* A third of the letters may be wrong, or one. */
    int best = 1 + (bytes / 3 > 1 ? (int)(bytes / 3) : 1);
    const char *found = NULL;
    for (int i = 0; i < n && bytes <= LONGEST; i++) {
        const size_t m = strlen(names[i]);
        const int d = m <= LONGEST ? distance(word, bytes, names[i], m) : best;
        if (d < best) {
            best = d;
            found = names[i];
        }
    }
    for (int i = 0; i < n && found == NULL && bytes >= SHORTEST_START; i++)
        if (strncmp(word, names[i], bytes) == 0)
            found = names[i];
    return found;
}
