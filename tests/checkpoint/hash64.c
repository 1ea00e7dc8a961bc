/* SPDX-License-Identifier: Apache-2.0 */
/* hash64.c: stdin's hash as a MANIFEST ends with it, for those that tests make up. */
#include "rt_private.h"

int main(void)
{
    static char text[1 << 20];
    size_t bytes = fread(text, 1, sizeof text, stdin);

    printf("%016llx\n", (unsigned long long)rt_hash64(text, bytes, 2));
    return 0;
}
